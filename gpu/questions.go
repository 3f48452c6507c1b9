package gpu

import (
	"math"
	"strconv"
	"time"
)

// readings gathers the readings of a device.
type readings struct{ list []Reading }

// add leaves out what is not a number.
func (r *readings) add(kind Kind, label string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	r.list = append(r.list, Reading{kind, label, value})
}

// tables are what a device is asked, by readings.yml.
type tables struct {
	questions []*question
	fields    []fieldReading
	slow      []fieldReading // those read once in slowFor
	units     []answer
	rank      map[Kind]int // place in Readings
}

// question is one call to a device, and the readings that its numbers are.
type question struct {
	name    string
	unsplit bool // not to be asked while MIG is on
	slow    bool // asked once in slowFor
	gives   []answer
}

// answer is a reading of what a device was asked.
type answer struct {
	*NVMLSource
	kind Kind
}

func newTables() *tables {
	t := &tables{rank: map[Kind]int{}}
	for i, info := range table() {
		t.rank[info.Kind] = i
		better := map[string]Field{} // the field of a better source, by label
		for j := range info.NVML {
			a := answer{&info.NVML[j], info.Kind}
			switch {
			case a.Ask != "":
				q := t.question(a.Ask)
				q.unsplit, q.slow, q.gives = a.Unsplit, a.Slow, append(q.gives, a)
			case a.UnitCounter != 0:
				t.units = append(t.units, a)
			default:
				t.addField(a, better[a.As])
				better[a.As] = Field{a.Field, a.Scope}
			}
		}
	}
	return t
}

// question returns the question of a name, a new one where there is none.
func (t *tables) question(name string) *question {
	for _, q := range t.questions {
		if q.name == name {
			return q
		}
	}
	q := &question{name: name}
	t.questions = append(t.questions, q)
	return q
}

// maxFans bounds the fans of a board.
const maxFans = 16

// readQuestions asks the questions that are slow, or all others.
func (d *device) readQuestions(slow bool, out *readings) error {
	for _, q := range d.settings.questions {
		if q.slow != slow || q.unsplit && d.split {
			continue
		}
		if err := d.readQuestion(q.name, q, d, out); err != nil {
			return err
		}
	}
	return nil
}

// readQuestion asks a device, or a part of it. name is how the log calls the question.
func (d *device) readQuestion(name string, q *question, of Device, out *readings) error {
	numbers, err := d.numbers(name, q.name, of)
	for _, a := range q.gives {
		a.add(numbers, out)
	}
	return err
}

// add adds the readings that are made of the numbers of a question. An older driver has fewer numbers, or none.
func (a *answer) add(numbers []float64, out *readings) {
	switch {
	case a.Each:
		for i, v := range numbers[:min(len(numbers), maxFans)] {
			out.add(a.kind, strconv.Itoa(i), a.in(v))
		}
	case a.Number >= len(numbers):
	case a.Bits != nil:
		mask := uint64(numbers[a.Number])
		for i, name := range a.Bits {
			out.add(a.kind, name, flag(mask&(1<<i) != 0))
		}
		if mask>>len(a.Bits) != 0 {
			out.add(a.kind, otherReason, 1)
		}
	default:
		out.add(a.kind, a.As, a.in(numbers[a.Number]))
	}
}

// The units of a GPU count what they do; two samples give the shares of the time between them. Too short a time gives
// noise, too long a one an outdated mean.
const (
	meterShortest = time.Second
	meterLongest  = 10 * time.Minute
)

// meter makes readings of the samples of one device.
type meter struct {
	old    GPMSample
	at     time.Time // of old
	latest []Reading
}

// reset forgets everything and frees the sample.
func (m *meter) reset() {
	if m.old != nil {
		m.old.Free()
	}
	*m = meter{}
}

// read takes a sample and adds what happened since the one before.
func (m *meter) read(d Device, units []answer, now time.Time, out *readings) error {
	if m.old != nil && now.Sub(m.at) < meterShortest {
		out.list = append(out.list, m.latest...)
		return nil
	}
	sample, err := d.GPMSample()
	if err != nil {
		m.reset()
		return err
	}
	old, age := m.old, now.Sub(m.at)
	m.old, m.at, m.latest = sample, now, nil
	if old == nil {
		return nil
	}
	defer old.Free()
	if age > meterLongest {
		return nil
	}
	ids := make([]int, len(units))
	for i, u := range units {
		ids[i] = u.UnitCounter
	}
	values, err := d.GPMMetrics(old, sample, ids)
	if err != nil {
		return err
	}
	var shares readings
	for _, u := range units {
		if v, ok := values[u.UnitCounter]; ok {
			shares.add(u.kind, "", u.in(v))
		}
	}
	m.latest = shares.list
	out.list = append(out.list, m.latest...)
	return nil
}

// readUnits reads the units of the GPU, or of a part of it, where these count.
func (d *device) readUnits(m *meter, of Device, now time.Time, out *readings) error {
	supported := 0
	if err := d.number("unit counters", &supported); err != nil || supported == 0 {
		return err
	}
	return d.ask("sample of the unit counters", func() error { return m.read(of, d.settings.units, now, out) })
}
