package gpu

// fieldReading is what to make of a field. Fields are numbers of the driver:
// one call reads them all.
type fieldReading struct {
	name    string // for the log
	field   Field
	kind    Kind
	label   string
	convert func(float64) float64
	unsplit bool // not to be asked while MIG is on
	link    bool // one of a link, whose number is the scope
	sum     bool // what each link counts, to be added up
	// instead is the field that tells the same of all links, to be asked before;
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
	}
	return append(list, linkReadings()...)
}

// readFields asks for all fields at once that the device may answer.
func (d *device) readFields(all []fieldReading, out *readings) error {
	wanted := d.wantedFields(all)
	if len(wanted) == 0 {
		return nil
	}
	fields := make([]Field, len(wanted))
	for i, f := range wanted {
		fields[i] = f.field
	}
	return d.ask("fields", func() error {
		results, err := d.Fields(fields)
		if err != nil {
			return err
		}
		return d.takeFields(wanted, results, out)
	})
}

// wantedFields leaves out what there is no sense in asking.
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
