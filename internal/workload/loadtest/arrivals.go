package loadtest

import (
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// rise returns how long the load of a level takes to rise: a tenth of its duration, at most 10 s.
func rise(level time.Duration) time.Duration { return min(level/10, 10*time.Second) }

// risen returns when so much work, in requests or in seconds of a trace, is due at a rate that first rises evenly.
func risen(work, rate float64, rise time.Duration) time.Duration {
	half := rise.Seconds() / 2
	at := half + work/rate
	if work < rate*half {
		at = math.Sqrt(4 * half * work / rate)
	}
	return time.Duration(at * float64(time.Second))
}

// arrivals yields when the requests of an open loop are due, counted from the start of the level, and the lengths of
// those of a trace. It does not end: a trace begins again when it is over.
func arrivals(l *config.LoadTest, level float64, rng *rand.Rand) iter.Seq2[time.Duration, *config.TracedRequest] {
	rise := rise(time.Duration(l.Duration))
	return func(yield func(time.Duration, *config.TracedRequest) bool) {
		work, lengths := 0.0, (*config.TracedRequest)(nil)
		for n := 0; ; n++ {
			if trace := l.Trace; l.Kind() == config.LoadTrace {
				lengths = &trace[n%len(trace)]
				work = (time.Duration(n/len(trace))*span(trace) + lengths.At).Seconds()
			} else {
				work += rng.ExpFloat64()
			}
			if !yield(risen(work, level, rise), lengths) {
				return
			}
		}
	}
}

// span returns how long a trace takes until it begins again, which is a mean gap after its last request.
func span(trace []config.TracedRequest) time.Duration {
	last := trace[len(trace)-1].At
	return last + last/time.Duration(len(trace)-1)
}
