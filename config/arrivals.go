package config

import "time"

// ArrivalProcess is how the requests of a burst arrive.
type ArrivalProcess string

const (
	// ArrivalPoisson has independent users: the times between two requests are
	// exponentially distributed.
	ArrivalPoisson ArrivalProcess = "poisson"
	// ArrivalRecorded has requests arrive as they did when they were recorded.
	ArrivalRecorded ArrivalProcess = "recorded"
)

// ArrivalProcesses lists the closed set.
func ArrivalProcesses() []ArrivalProcess { return []ArrivalProcess{ArrivalPoisson, ArrivalRecorded} }

// Arrivals has the requests of a burst start one after the other, as those of users do,
// instead of all at once.
type Arrivals struct {
	// Process is `poisson`: independent requests, the times between them exponentially
	// distributed; or `recorded`: as requests of users arrived, by `profile_file`.
	Process ArrivalProcess `yaml:"process" oneof:"poisson,recorded" required:"poisson or recorded"`
	// Rate is how many requests start per second on average. On
	// average all must start within half of the module's timeout; one that is drawn
	// later than the timeout starts then. Required with `poisson`; with `recorded` the
	// default is the rate of the recording.
	Rate float64 `yaml:"rate,omitempty" range:"(0,1000]"`
	// ProfileFile is a file with recorded arrivals, at least as many as a run makes
	// requests and at most 100,000, in the order of time: a number of seconds in each
	// line, CSV with a column `timestamp` of seconds or dates, or JSON lines with a
	// `timestamp` in milliseconds; see [workloads](workloads.md#recorded-arrivals).
	// Required with `recorded`.
	ProfileFile string `yaml:"profile_file,omitempty" requires:"process: recorded"`

	// Profile are the arrivals of ProfileFile at Rate, as they were when the
	// configuration was loaded; nil without.
	Profile Profile `yaml:"-"`
}

// PerSecond returns how many requests start per second on average: Rate or, without, the
// mean rate of the recording.
func (a *Arrivals) PerSecond() float64 {
	if last := len(a.Profile) - 1; last > 0 && a.Rate == 0 {
		return float64(last) / a.Profile[last].Seconds()
	}
	return a.Rate
}

// validateArrivals requires one burst, that the arrivals are of, and bounds its span:
// the connections are opened before.
func (m *Module) validateArrivals(r *report, p path) {
	if m.Arrivals == nil {
		return
	}
	at := p.key("arrivals")
	a := m.Arrivals
	if len(m.Concurrency) != 1 || m.Concurrency[0] < 2 {
		r.errorf(at, "requires concurrency with a single number above 1, which is how many requests a run makes")
		return
	}
	recorded := a.Process == ArrivalRecorded
	if rate := at.key("rate"); r.failed[rate] {
		return
	} else if !recorded && !r.written(rate) {
		r.errorf(rate, "missing; process: %s requires it", a.Process)
		return
	}
	file := at.key("profile_file")
	switch {
	case !recorded:
		last := float64(m.Concurrency[0]-1) / a.Rate
		m.validateSpan(r, at.key("rate"), last)
	case a.ProfileFile == "":
		r.errorf(file, "missing; process: recorded requires it")
	case !r.failed[file]:
		m.validateProfile(r, file)
	}
}

// validateProfile requires enough arrivals of a recording that was read.
func (m *Module) validateProfile(r *report, p path) {
	n := m.Concurrency[0]
	spans := m.Arrivals.Profile.Spans(n)
	if spans == nil {
		r.errorf(p, "%d arrivals, want at least the %d requests that a run makes", len(m.Arrivals.Profile), n)
		return
	}
	sum := 0.0
	for _, span := range spans {
		sum += span.Seconds()
	}
	m.validateSpan(r, p, sum/float64(len(spans)))
}

// validateSpan bounds the time from the first arrival to the last, in seconds on average.
func (m *Module) validateSpan(r *report, p path, last float64) {
	if half := time.Duration(m.Timeout).Seconds() / 2; last > half {
		r.errorf(p, "the last of %d requests would start after %.4g s on average, want half of the module's timeout, %.4g s, at most",
			m.Concurrency[0], last, half)
	}
}
