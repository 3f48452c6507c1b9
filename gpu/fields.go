package gpu

import (
	"slices"
	"strconv"
	"time"
)

// fieldReading is a field and the reading that it becomes. Fields are numbers of
// the driver: one call reads them all.
type fieldReading struct {
	name    string // for the log
	field   Field
	kind    Kind
	label   string
	convert func(float64) float64
	unsplit bool // not to be asked while MIG is on
	link    bool // one of a link, whose number is the scope
	sum     bool // what each link counts, to be added up
	// instead is the field with the sum over all links, which is asked first;
	// zero where there is none.
	instead Field
}

func nanoseconds(v float64) float64 { return v / 1e9 }

func fieldReadings() []fieldReading {
	slowed := func(id int, reason string) fieldReading {
		return fieldReading{
			name: "time slowed by " + reason, field: Field{ID: id}, kind: ClockEventSeconds, label: reason, convert: nanoseconds,
		}
	}
	list := []fieldReading{
		{name: "temperature of the memory", field: Field{ID: 82}, kind: Temperature, label: "memory", convert: plain},
		slowed(74, "sw_power_cap"), slowed(76, "sync_boost"), slowed(269, "sw_thermal"), slowed(270, "hw_thermal"), slowed(271, "hw_power_brake"),
		{name: "bytes sent over PCIe", field: Field{ID: 197}, kind: PCIeTransmit, convert: plain},
		{name: "bytes received over PCIe", field: Field{ID: 198}, kind: PCIeReceive, convert: plain},
		{name: "recovery action", field: Field{ID: 230}, kind: RecoveryAction, convert: plain},
		{name: "power of the module", field: Field{185, scopeModule}, kind: ModulePower, convert: milli},
		{name: "power limit of the module", field: Field{190, scopeModule}, kind: ModulePowerLimit, convert: milli},
		{name: "power of the memory", field: Field{185, scopeMemory}, kind: MemoryPower, convert: milli},
	}
	return append(list, linkReadings()...)
}

// The scopes of the fields of power; 0 is the GPU. A module is a GPU with its
// CPU, such as Grace.
const (
	scopeModule = 1
	scopeMemory = 2
)

// slowFor is the time from one reading of the slow fields to the next: there are
// many of them, and they show what develops over hours.
const slowFor = time.Minute

// slowReadings are those of the slow fields, which are shown until the next.
type slowReadings struct {
	at   time.Time // zero before the first
	list []Reading
}

// readSlow adds the readings of the slow fields, which it reads when it is time.
// It comes after readFields, which finds the links. Links before NVLink 5 do
// not have these fields and are not asked.
func (d *device) readSlow(now time.Time, out *readings) error {
	if d.linkVersion > 0 && d.linkVersion < 5 {
		return nil
	}
	if d.slow.at.IsZero() || now.Sub(d.slow.at) >= slowFor {
		var fresh readings
		if err := d.readFields("slow fields", d.settings.slow, &fresh); err != nil {
			return err
		}
		d.slow = slowReadings{now, fresh.list}
	}
	out.list = append(out.list, d.slow.list...)
	return nil
}

// readFields asks for all fields at once that the device may answer. what is how
// the log names them.
func (d *device) readFields(what string, all []fieldReading, out *readings) error {
	wanted := d.wantedFields(all)
	if len(wanted) == 0 {
		return nil
	}
	fields := make([]Field, len(wanted))
	for i, f := range wanted {
		fields[i] = f.field
	}
	return d.ask(what, func() error {
		results, err := d.Fields(fields)
		if err != nil {
			return err
		}
		return d.takeFields(wanted, results, out)
	})
}

// wantedFields leaves out the fields that the device does not have.
func (d *device) wantedFields(all []fieldReading) []*fieldReading {
	wanted := make([]*fieldReading, 0, len(all))
	for i := range all {
		f := &all[i]
		switch {
		case f.unsplit && d.split:
		case f.link && int(f.field.Scope) >= d.links:
		case f.sum && !d.linked[f.field.Scope]:
		case f.instead != Field{} && !d.fields[f.instead]:
		case d.fields[f.field]:
		default:
			wanted = append(wanted, f)
		}
	}
	return wanted
}

// takeFields makes readings of the results for the fields that were asked.
func (d *device) takeFields(asked []*fieldReading, results []FieldResult, out *readings) error {
	var sums []linkSum
	for i, r := range results[:min(len(results), len(asked))] {
		f := asked[i]
		refused, err := d.judge(f.name, r.Err)
		if err != nil {
			return err
		}
		switch {
		case refused:
			d.fields[f.field] = true
		case f.sum:
			sums = addLink(sums, f, r)
		case r.Err == nil:
			if f.link {
				d.linked[f.field.Scope] = true
			}
			out.add(f.kind, f.label, f.convert(r.Value))
		}
	}
	for _, s := range sums {
		if !s.missing {
			out.add(s.of.kind, s.of.label, s.value)
		}
	}
	return nil
}

const (
	// allLinks is the scope of a field for the sum over all NVLinks.
	allLinks = 0xFFFFFFFF
	// maxLinks is how many NVLinks a GPU has at most, by the driver's header.
	maxLinks = 36
	// usualLinks is how many are looked for where the driver does not count them:
	// those of Hopper. It may return a value for a link that does not exist.
	usualLinks = 18
)

// linkErrorKinds are the values of the label of NVLinkErrors.
func linkErrorKinds() []string {
	var kinds []string
	for _, f := range linkReadings() {
		if f.kind == NVLinkErrors && !slices.Contains(kinds, f.label) {
			kinds = append(kinds, f.label)
		}
	}
	return kinds
}

// linkReadings are the fields of NVLinks: totals of the GPU, the state of each
// link, and what each link counts, as NVLink 5 has no totals.
func linkReadings() []fieldReading {
	errors := func(id int, kind string) fieldReading {
		return fieldReading{name: "NVLink errors " + kind, field: Field{ID: id}, kind: NVLinkErrors, label: kind, convert: plain}
	}
	sent, received := Field{138, allLinks}, Field{139, allLinks}
	list := []fieldReading{
		{name: "bytes sent over NVLink", field: sent, kind: NVLinkTransmit, convert: kibibytes},
		{name: "bytes received over NVLink", field: received, kind: NVLinkReceive, convert: kibibytes},
		errors(38, "crc_flit"), errors(45, "crc_data"), errors(52, "replay"), errors(59, "recovery"),
	}
	for link := range maxLinks {
		list = append(list, fieldReading{
			name: "NVLink state", field: Field{165, uint32(link)}, kind: NVLinkUp, label: strconv.Itoa(link), convert: linkUp, link: true,
		})
	}
	recoveries := errors(215, "recovery") // those that succeeded (213) and that failed (214)
	recoveries.instead = Field{ID: 59}
	for _, f := range []fieldReading{
		{name: "bytes sent over each NVLink", field: Field{ID: 202}, kind: NVLinkTransmit, instead: sent},
		{name: "bytes received over each NVLink", field: Field{ID: 204}, kind: NVLinkReceive, instead: received},
		errors(206, "malformed"), errors(207, "buffer_overrun"), errors(208, "receive"), errors(209, "receive_remote"),
		errors(210, "receive_general"), errors(211, "link_integrity"), errors(212, "transmit_discard"),
		errors(219, "effective"),
		recoveries, errors(214, "recovery_failed"),
	} {
		list = append(list, everyLink(f)...)
	}
	for i := range list {
		list[i].unsplit = true
	}
	return list
}

// everyLink is a field that each link has of its own.
func everyLink(f fieldReading) []fieldReading {
	list := make([]fieldReading, maxLinks)
	for link := range list {
		list[link] = f
		list[link].field.Scope, list[link].link, list[link].sum = uint32(link), true, true
	}
	return list
}

func kibibytes(v float64) float64 { return v * 1024 }

// linkUp is 0 for a link that is inactive. One that is active or sleeps (2), to
// save power while there is nothing to do, is up.
func linkUp(v float64) float64 { return flag(v != 0) }

// learnLinks reads how many NVLinks there are; where the driver does not count
// them, it is the usual number.
func (d *device) learnLinks() error {
	err := d.ask("number of NVLinks", func() error {
		results, err := d.Fields([]Field{{ID: 91}})
		if err != nil {
			return err
		}
		for _, r := range results {
			if r.Err != nil {
				return r.Err
			}
			d.links = int(min(max(r.Value, 0), maxLinks))
		}
		return nil
	})
	if err != nil || d.links == 0 {
		return err
	}
	return d.learnLinkVersion()
}

// learnLinkVersion reads the newest version of the NVLinks, of which those that
// are not connected may have none.
func (d *device) learnLinkVersion() error {
	return d.ask("NVLink version", func() error {
		fields := make([]Field, d.links)
		for link := range fields {
			fields[link] = Field{166, uint32(link)}
		}
		results, err := d.Fields(fields)
		if err != nil {
			return err
		}
		d.linkVersion = 0
		for _, r := range results {
			if r.Err == nil {
				d.linkVersion = max(d.linkVersion, linkVersions()[int(r.Value)])
			}
		}
		return nil
	})
}

// linkVersions are the versions of NVLink by the driver's numbers
// (nvmlNvlinkVersion_t); 0 is none that is known.
func linkVersions() map[int]float64 {
	return map[int]float64{1: 1, 2: 2, 3: 2.2, 4: 3, 5: 3.1, 6: 4, 7: 5, 8: 6}
}

// linkSum is what all links together count.
type linkSum struct {
	of      *fieldReading // of the first of them
	value   float64
	missing bool // a link has no value: a partial sum is none
}

// addLink adds the result of one link to the sum that it belongs to, which is
// the last one or a new one.
func addLink(sums []linkSum, f *fieldReading, r FieldResult) []linkSum {
	last := len(sums) - 1
	if last < 0 || sums[last].of.field.ID != f.field.ID {
		sums = append(sums, linkSum{of: f})
		last++
	}
	sums[last].value += r.Value
	sums[last].missing = sums[last].missing || r.Err != nil
	return sums
}
