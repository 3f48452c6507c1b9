package gpu

import (
	"math"
	"strconv"
	"time"
)

// fieldReading is a field and the reading that it becomes. Fields are numbers of the driver: one call reads them all.
type fieldReading struct {
	answer
	field Field
	// better is a field for the same reading, which is asked first; zero where there is none.
	better Field
}

const (
	sumOfLinks = "sum"  // what each link counts, to be added up
	eachLink   = "each" // a reading of each link
)

// addField adds a field or, where each link has its own, all of them. The scope is then the link.
func (t *tables) addField(a answer, better Field) {
	to := &t.fields
	if a.Slow {
		to = &t.slow
	}
	links := uint32(maxLinks)
	switch {
	case a.Links == "":
		*to = append(*to, fieldReading{a, Field{a.Field, a.Scope}, better})
		return
	case a.C2C:
		links = maxC2CLinks
	}
	for link := range links {
		*to = append(*to, fieldReading{a, Field{a.Field, link}, better})
	}
}

// slowFor is the time from one reading of the slow fields and questions to the next: there are many of them, and they
// show what is set or what develops over hours.
const slowFor = time.Minute

// slowReadings are those of the slow fields and questions, which are shown until the next.
type slowReadings struct {
	at   time.Time // zero before the first
	list []Reading
}

// readSlow adds the slow readings, which it reads when it is time. It comes after readFields, which finds the links.
func (d *device) readSlow(now time.Time, out *readings) error {
	if d.slow.at.IsZero() || now.Sub(d.slow.at) >= slowFor {
		var fresh readings
		if err := d.readQuestions(true, &fresh); err != nil {
			return err
		}
		if err := d.readFields("slow fields", d.settings.slow, &fresh); err != nil {
			return err
		}
		d.slow = slowReadings{now, fresh.list}
	}
	out.list = append(out.list, d.slow.list...)
	return nil
}

// readFields asks for all fields at once that the device may answer. what is how the log names them.
func (d *device) readFields(what string, all []fieldReading, out *readings) error {
	wanted := d.wantedFields(all)
	if len(wanted) == 0 {
		return nil
	}
	fields := make([]Field, len(wanted))
	for i, f := range wanted {
		fields[i] = f.field
	}
	var results []FieldResult
	if err := fetch(d, what, &results, func() ([]FieldResult, error) { return d.Fields(fields) }); err != nil {
		return err
	}
	return d.takeFields(wanted, results, out)
}

func (d *device) wantedFields(all []fieldReading) []*fieldReading {
	wanted := make([]*fieldReading, 0, len(all))
	for i := range all {
		f := &all[i]
		switch {
		case f.Unsplit && d.split:
		case !d.hasLink(f):
		case f.better != Field{} && !d.fields[f.better]:
		case d.fields[f.field]:
		default:
			wanted = append(wanted, f)
		}
	}
	return wanted
}

// hasLink reports whether the device has the link of a field; true for a field of no link. Sums are of the NVLinks that
// returned their state. Links before NVLink 5 do not have the slow fields.
func (d *device) hasLink(f *fieldReading) bool {
	link := int(f.field.Scope)
	switch {
	case f.Links == "":
		return true
	case f.C2C:
		return link < d.c2cLinks
	case link >= d.links, f.Slow && d.linkVersion > 0 && d.linkVersion < 5:
		return false
	}
	return f.Links == eachLink || d.linked[link]
}

func (d *device) takeFields(asked []*fieldReading, results []FieldResult, out *readings) error {
	var sums []linkSum
	for i, r := range results[:min(len(results), len(asked))] {
		f := asked[i]
		refused, err := d.judge(string(f.kind), r.Err)
		if err != nil {
			return err
		}
		switch {
		case refused:
			d.fields[f.field] = true
		case f.Links == sumOfLinks:
			if n := len(sums); n == 0 || sums[n-1].of.field.ID != f.field.ID {
				sums = append(sums, linkSum{of: f})
			}
			if sum := &sums[len(sums)-1].value; r.Err == nil {
				*sum += r.Value
			} else {
				*sum = math.NaN() // a partial sum is none
			}
		case f.Links == eachLink && r.Err == nil:
			d.linked[f.field.Scope] = d.linked[f.field.Scope] || !f.C2C
			out.add(f.kind, strconv.Itoa(int(f.field.Scope)), f.in(r.Value))
		case r.Err == nil:
			out.add(f.kind, f.As, f.in(r.Value))
		}
	}
	for _, s := range sums {
		out.add(s.of.kind, s.of.As, s.of.in(s.value))
	}
	return nil
}

// linkSum is what all links together count; NaN where a link has no value.
type linkSum struct {
	of    *fieldReading // of the first of them
	value float64
}

const (
	// maxLinks is how many NVLinks a GPU has at most, by the driver's header.
	maxLinks = 36
	// usualLinks is how many are looked for where the driver does not count them: those of Hopper. It may return a
	// value for a link that does not exist.
	usualLinks = 18
	// maxC2CLinks is how many links to the CPU a GPU has at most, by the driver's header.
	maxC2CLinks = 14
)

// countLinks reads how many links there are by a field of the driver. Where it does not count them, the old number stays.
func (d *device) countLinks(name string, field int, most float64, to *int) error {
	return d.ask(name, func() error {
		results, err := d.Fields([]Field{{ID: field}})
		if err != nil {
			return err
		}
		for _, r := range results {
			if r.Err != nil {
				return r.Err
			}
			*to = int(min(max(r.Value, 0), most))
		}
		return nil
	})
}

// learnLinks reads how many NVLinks there are, the usual number where the driver does not count them, and their version.
func (d *device) learnLinks() error {
	err := d.countLinks("number of NVLinks", 91, maxLinks, &d.links)
	if err != nil || d.links == 0 {
		return err
	}
	return d.learnLinkVersion()
}

// learnLinkVersion reads the newest version of the NVLinks, of which those that are not connected may have none.
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

// linkVersions are the versions of NVLink by the driver's numbers (nvmlNvlinkVersion_t); 0 is none that is known.
func linkVersions() map[int]float64 {
	return map[int]float64{1: 1, 2: 2, 3: 2.2, 4: 3, 5: 3.1, 6: 4, 7: 5, 8: 6}
}
