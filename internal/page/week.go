package page

import (
	"cmp"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
)

const (
	weekHours = 7 * 24
	// knownHours is how many hours of a day are to be known before its highest is taken for that of the day.
	knownHours = 18
	// loadAge is how old the latest minute may be.
	loadAge = 5 * time.Minute
)

// Week is what the servers of an endpoint carried together in each of the latest 168 hours: the highest mean of a minute
// of the requests running and waiting. The zero value knows nothing. It is safe for concurrent use.
type Week struct {
	mu     sync.Mutex
	hours  SavedWeek
	minute struct { // that is under way
		begun   time.Time // zero is none
		sum     float64
		n       int
		servers int // the fewest
	}
	latest loadtest.Carried // of the latest minute
	at     time.Time        // when it ended
}

// SavedWeek is a Week as it survives a restart.
type SavedWeek struct {
	Latest int64 `json:"latest"` // the latest hour, since 1970; 0 is none
	// Hours are the requests, and how many servers answered, of each hour by its number modulo weekHours; no server is
	// an hour that is not known.
	Hours [weekHours][2]uint16 `json:"hours"`
}

// Read takes in a reading of all pages; nil is that none could be read. ours means that the exporter put load on the
// endpoint since the reading before: the minute does not count.
func (w *Week) Read(t *Total, ours bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &w.minute
	if ours {
		m.begun = time.Time{}
		return
	}
	if t == nil {
		return
	}
	running, ok := t.Values[config.RequestsRunning]
	if !ok {
		return
	}
	if !m.begun.IsZero() && t.At.Sub(m.begun) >= time.Minute {
		w.latest, w.at = loadtest.Carried{Requests: m.sum / float64(m.n), Servers: m.servers}, t.At
		w.hours.add(m.begun, w.latest)
		m.begun = time.Time{}
	}
	if m.begun.IsZero() {
		m.begun, m.sum, m.n, m.servers = t.At, 0, 0, len(t.Servers)
	}
	m.sum, m.n, m.servers = m.sum+running+t.Values[config.RequestsWaiting], m.n+1, min(m.servers, len(t.Servers))
}

func (s *SavedWeek) add(at time.Time, c loadtest.Carried) {
	now := at.Unix() / 3600
	for h := max(s.Latest+1, now-weekHours+1); h <= now; h++ {
		s.Hours[h%weekHours] = [2]uint16{}
	}
	s.Latest = max(s.Latest, now)
	requests := uint16(min(math.Round(c.Requests), math.MaxUint16))
	if hour := &s.Hours[now%weekHours]; hour[1] == 0 || requests >= hour[0] {
		*hour = [2]uint16{requests, uint16(min(c.Servers, math.MaxUint16))}
	}
}

// Now returns what the servers carry now, by the latest minute; nil is not known.
func (w *Week) Now(now time.Time) *loadtest.Carried {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at.IsZero() || now.Sub(w.at) > loadAge {
		return nil
	}
	return new(w.latest)
}

// Days returns what the servers carried in the busiest hour of each of the latest seven days of which most is known.
func (w *Week) Days(now time.Time) (days []loadtest.Carried) {
	w.mu.Lock()
	defer w.mu.Unlock()
	until := now.Unix() / 3600
	for last := until; last > until-weekHours; last -= 24 {
		known, busiest := 0, loadtest.Carried{}
		for h := max(last-23, w.hours.Latest-weekHours+1); h <= min(last, w.hours.Latest); h++ {
			hour := w.hours.Hours[h%weekHours]
			if hour[1] == 0 {
				continue
			}
			known++
			if float64(hour[0]) >= busiest.Requests {
				busiest = loadtest.Carried{Requests: float64(hour[0]), Servers: int(hour[1])}
			}
		}
		if known >= knownHours {
			days = append(days, busiest)
		}
	}
	return days
}

// Save returns what survives a restart; nil is nothing.
func (w *Week) Save() *SavedWeek {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hours.Latest == 0 {
		return nil
	}
	return new(w.hours)
}

// NewWeek returns a Week that goes on with what Save returned; nil is nothing.
func NewWeek(saved *SavedWeek) *Week { return &Week{hours: *cmp.Or(saved, new(SavedWeek))} }

// Check returns why it cannot be what Save returned until now; nil where it can.
func (s *SavedWeek) Check(now time.Time) error {
	if s != nil && (s.Latest < weekHours || s.Latest > now.Unix()/3600) {
		return errors.New("not a week of loads")
	}
	return nil
}
