package config

import "time"

// ArrivalProcess is how the requests of a burst arrive.
type ArrivalProcess string

// ArrivalPoisson has independent users: the times between two requests are
// exponentially distributed.
const ArrivalPoisson ArrivalProcess = "poisson"

// maxArrivalRate is the largest rate in requests per second; at more, the requests of a
// burst start as good as at once.
const maxArrivalRate = 1000

// Arrivals has the requests of a burst start one after the other, as those of users do,
// instead of all at once.
type Arrivals struct {
	// Process is `poisson`: independent requests, the times between them exponentially
	// distributed. Required.
	Process ArrivalProcess `yaml:"process"`
	// Rate is how many requests start per second on average, above 0 and up to 1,000. On
	// average all must start within half of the module's timeout; a request that is
	// drawn later than the timeout starts then. Required.
	Rate float64 `yaml:"rate"`
}

// validateArrivals requires one burst, that the arrivals are of, and bounds its span:
// the connections are opened before.
func (m *Module) validateArrivals(r *report, p path) {
	if m.Arrivals == nil {
		return
	}
	at := p.key("arrivals")
	validateOneOf(r, at.key("process"), m.Arrivals.Process, ArrivalPoisson)
	if len(m.Concurrency) != 1 || m.Concurrency[0] < 2 {
		r.errorf(at, "needs concurrency with a single number above 1, which is how many requests a run makes")
		return
	}
	rate := m.Arrivals.Rate
	if rate <= 0 || rate > maxArrivalRate {
		r.errorf(at.key("rate"), "want a number above 0 and up to %d, got %v", maxArrivalRate, rate)
		return
	}
	last := float64(m.Concurrency[0]-1) / rate
	if half := time.Duration(m.Timeout).Seconds() / 2; last > half {
		r.errorf(at.key("rate"), "the last of %d requests would start after %.4g s on average, want half of the module's timeout, %.4g s, at most",
			m.Concurrency[0], last, half)
	}
}
