package gpu

import (
	"fmt"
	"strconv"
)

// allLinks is the scope of a field that stands for all NVLinks together.
const allLinks = 0xFFFFFFFF

// maxLinks is how many NVLinks a GPU has at most.
const maxLinks = 18

// fieldReading is what to make of a field. Fields are numbers of the driver:
// one call reads them all.
type fieldReading struct {
	name    string // tells fields apart, as that of a question
	field   Field
	kind    Kind
	label   string
	convert func(float64) float64
	unsplit bool // not to be asked while MIG is on
}

func kibibytes(v float64) float64   { return v * 1024 }
func nanoseconds(v float64) float64 { return v / 1e9 }

func fieldReadings() []fieldReading {
	list := []fieldReading{
		{field: Field{ID: 82}, kind: Temperature, label: "memory", convert: plain},
		{field: Field{ID: 74}, kind: ClockEventSeconds, label: "sw_power_cap", convert: nanoseconds},
		{field: Field{ID: 76}, kind: ClockEventSeconds, label: "sync_boost", convert: nanoseconds},
		{field: Field{ID: 269}, kind: ClockEventSeconds, label: "sw_thermal", convert: nanoseconds},
		{field: Field{ID: 270}, kind: ClockEventSeconds, label: "hw_thermal", convert: nanoseconds},
		{field: Field{ID: 271}, kind: ClockEventSeconds, label: "hw_power_brake", convert: nanoseconds},
		{field: Field{ID: 197}, kind: PCIeTransmit, convert: plain},
		{field: Field{ID: 198}, kind: PCIeReceive, convert: plain},
		{field: Field{ID: 230}, kind: RecoveryAction, convert: plain},
		{field: Field{138, allLinks}, kind: NVLinkTransmit, convert: kibibytes, unsplit: true},
		{field: Field{139, allLinks}, kind: NVLinkReceive, convert: kibibytes, unsplit: true},
		{field: Field{ID: 38}, kind: NVLinkErrors, label: "crc_flit", convert: plain, unsplit: true},
		{field: Field{ID: 45}, kind: NVLinkErrors, label: "crc_data", convert: plain, unsplit: true},
		{field: Field{ID: 52}, kind: NVLinkErrors, label: "replay", convert: plain, unsplit: true},
		{field: Field{ID: 59}, kind: NVLinkErrors, label: "recovery", convert: plain, unsplit: true},
	}
	for link := range maxLinks {
		list = append(list, fieldReading{
			field: Field{165, uint32(link)}, kind: NVLinkUp, label: strconv.Itoa(link), convert: plain, unsplit: true,
		})
	}
	for i, f := range list {
		list[i].name = fmt.Sprintf("field %d/%d", f.field.ID, f.field.Scope)
	}
	return list
}

// readFields asks for all fields at once that the device may answer.
func (d *device) readFields(all []fieldReading, out *readings) error {
	wanted := make([]fieldReading, 0, len(all))
	fields := make([]Field, 0, len(all))
	for _, f := range all {
		if d.refused[f.name] || f.unsplit && d.split {
			continue
		}
		wanted = append(wanted, f)
		fields = append(fields, f.field)
	}
	if len(fields) == 0 {
		return nil
	}
	return d.ask("fields", func() error {
		results, err := d.Fields(fields)
		if err != nil {
			return err
		}
		for i, r := range results[:min(len(results), len(wanted))] {
			f := wanted[i]
			err := d.ask(f.name, func() error {
				if r.Err == nil {
					out.add(f.kind, f.label, f.convert(r.Value))
				}
				return r.Err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
