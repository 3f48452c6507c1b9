// Package page reads the metrics pages of inference servers into one vocabulary: queue, KV cache, prefix-cache hits,
// tokens and latency histograms. What a series of an engine means is in a mapping, one file for each engine, and not
// in code. With probes, the pages divide the time to first token into its parts.
package page

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
)

// RatioWindow is the time over which Snapshot.PrefixCacheRatio is computed.
const RatioWindow = 5 * time.Minute

// Snapshot is what one reading of a page found. It is immutable. What the page does not show is absent.
type Snapshot struct {
	// Engine is the name of the mapping that the page was read with.
	Engine string
	// At is when the page had been received.
	At time.Time
	// Values are the quantities that are one number, in the unit of the quantity: finite, and not negative.
	// Counters grow while the exporter runs, unless the server restarts.
	Values map[config.Quantity]float64
	// Histograms are the distributions, in the unit of the quantity.
	Histograms map[config.Quantity]*Histogram
	// InputLengths and OutputLengths are the lengths of the prompts and of the answers of ended requests, in
	// tokens; nil unless the mappings are those WithLengths.
	InputLengths, OutputLengths *Histogram
	// Requests counts ended requests by how they ended: a key is one of config.Finishes.
	Requests map[string]float64
	// Errors are what the errors among Requests consist of.
	Errors Errors
	// PrefixCacheUnit is what the hits of the prefix cache are counted in; "" without hits.
	PrefixCacheUnit string
	// Role is what part of a request the server does, one of config.Roles; "" where the page does not show it.
	Role string
	// Settings are what the server was started with, as text: bounded, and not yet without secrets when a Reader returns
	// it. Those that are quantities are among Values.
	Settings map[config.Setting]string
	// PrefixCacheRatio is hits over queries of the last RatioWindow, or of the time since the first reading
	// where that is less; negative while nothing was asked of the cache.
	PrefixCacheRatio float64
	// Started is when the server's process started; the zero time where the page does not show it.
	Started time.Time
	// LastProgress is the last time that the engine was seen to work, or to have nothing to do; of ranks that
	// have requests that of the one where it is longest ago. The zero time where the engine does not show it.
	LastProgress time.Time
	// Ranks is what the ranks of data parallelism show; nil where the page has not several.
	Ranks *Ranks
	// Missing are the quantities that every page of this engine shows, or every one after some work, and this
	// one did not. Sorted.
	Missing []config.Quantity
	// Devices are the accelerators that a page shows, and Driver is their driver's version.
	Devices []gpu.DeviceSnapshot
	Driver  string
	// Backends are what the page of a gateway shows of each of its backends, by name; nil where it shows none,
	// or more than are read one by one. Of the values, BackendsReady is 1 or 0 where the page says whether the
	// backend is ready.
	Backends map[string]*Snapshot
}

// HitRatio returns PrefixCacheRatio; nil while nothing was asked of the cache.
func (s *Snapshot) HitRatio() *float64 {
	if r := s.PrefixCacheRatio; s.PrefixCacheUnit != "" && r >= 0 && r <= 1 {
		return &r
	}
	return nil
}

// Errors are requests that ended with an error: certain ones of the service, errors of the service that may be the same
// ones, counted in another place, and those that may be the client's own mistakes.
type Errors struct{ Certain, Again, Maybe float64 }

// Histogram is a cumulative histogram with the bounds of the engine.
type Histogram struct {
	// Bounds are the finite upper bounds, increasing, in the unit of what was measured.
	Bounds []float64
	// Counts are the observations up to each bound.
	Counts []uint64
	// Count and Sum are the number and the sum of all observations.
	Count uint64
	Sum   float64
}

// State is the outcome of the reading of a page.
type State string

// The states.
const (
	Up         State = "up"         // read
	Down       State = "down"       // no page came
	Unreadable State = "unreadable" // what came is no page, or not one that can be trusted
	Unmapped   State = "unmapped"   // a page of an engine that no mapping knows
)

// Reason says why a page was not read. The set is closed: it is a label value.
type Reason string

// The reasons.
const (
	ReasonNone      Reason = ""
	ReasonDNS       Reason = "dns"         // the name has no address
	ReasonConnect   Reason = "connect"     // no connection, or it broke
	ReasonTLS       Reason = "tls"         // no TLS connection
	ReasonTimeout   Reason = "timeout"     // not in time
	ReasonStatus    Reason = "http_status" // a status other than 200
	ReasonTooLarge  Reason = "too_large"   // more bytes or series than are read, or than there was memory for
	ReasonFormat    Reason = "format"      // not the text format of Prometheus
	ReasonDuplicate Reason = "duplicate"   // a series that is on the page twice
	ReasonType      Reason = "wrong_type"  // a series of another type than the mapping needs
	ReasonBuckets   Reason = "buckets"     // a histogram with more buckets than are read, or with new ones again
	ReasonUnmapped  Reason = "unmapped"    // no mapping knows any of the series
)

// Status is what is known of one server after a reading. It is immutable.
type Status struct {
	// Server is the name of the server: host and port of its page, and the path unless that is the usual one.
	Server string
	// URL is the page, without credentials.
	URL string
	// At is when the reading began, Duration how long it took.
	At       time.Time
	Duration time.Duration
	// State, Reason and Err are the outcome; Err is nil when the state is up.
	State  State
	Reason Reason
	Err    error
	// Absent reports that there is no server, and nothing to publish: a page that is not configured and no mapping
	// knows, a model that a router has not loaded, or one that was not asked for want of a file of this machine.
	Absent bool
	// Sleeps says why the model sleeps where no page can show it: a router has not loaded it, or no server is there; ""
	// is that it is not known to sleep.
	Sleeps string
	// Snapshot is nil unless the state is up.
	Snapshot *Snapshot
	// LastProgress is that of the latest snapshot, also while the server is down.
	LastProgress time.Time
	// Failures counts the readings that failed, by reason.
	Failures map[Reason]uint64
}

// Asleep returns why a request to an endpoint would have to wake its model first, by a reading of the pages of all its
// servers; "" where a server is awake, or it is not known of each.
func Asleep(statuses []Status) (why string) {
	for i := range statuses {
		st := &statuses[i]
		switch {
		case st.Sleeps != "":
			why = st.Sleeps
		case st.Snapshot == nil || st.Snapshot.Values[config.EnginesSleeping] == 0 || st.Snapshot.Values[config.EnginesAwake] > 0:
			return ""
		default:
			why = "the engine sleeps"
		}
	}
	return why
}

// Total is what the pages of the servers of an endpoint, or of the replicas of a gateway, show together at one time.
// It is immutable.
type Total struct {
	// Engine is the mapping that the first page was read with.
	Engine string
	// At is when the first of the pages had been received.
	At time.Time
	// Servers are the names of those whose pages were read; Failed is how many could not be.
	Servers []string
	Failed  int
	// Values are the numbers as in a Snapshot: the largest of what does not add up, else the sum. A sum is
	// absent where a page lacks the number, unless that is a counter which another page of the same software
	// shows: many appear with the first event.
	Values map[config.Quantity]float64
	// Histograms are the distributions that all pages show, those with different bounds by count and sum alone.
	Histograms map[config.Quantity]*Histogram
	// Requests counts ended requests by how they ended, as in a Snapshot.
	Requests map[string]float64
	// HitRatio is the mean PrefixCacheRatio of the servers that looked anything up; nil where none did.
	HitRatio *float64
	// Backends are what the replicas of a gateway show of each backend, by name.
	Backends map[string]*Total

	pages []*Snapshot // by index of Servers
}

// NewTotal returns what the pages of servers show together; nil where none could be read.
func NewTotal(statuses []Status) *Total {
	t := new(Total)
	for i := range statuses {
		if st := &statuses[i]; st.Snapshot != nil {
			t.add(st.Server, st.Snapshot)
		}
	}
	if len(t.pages) == 0 {
		return nil
	}
	t.Failed = len(statuses) - len(t.pages)
	t.sum()
	return t
}

// add takes in the page of a server, before sum.
func (t *Total) add(server string, s *Snapshot) {
	if len(t.pages) == 0 {
		t.Engine, t.At = s.Engine, s.At
	}
	if s.At.Before(t.At) {
		t.At = s.At
	}
	t.Servers, t.pages = append(t.Servers, server), append(t.pages, s)
}

// sum works out all but the servers.
func (t *Total) sum() {
	t.Values, t.Histograms, t.Requests = t.pages[0].Values, t.pages[0].Histograms, t.pages[0].Requests
	if len(t.pages) > 1 {
		t.Values, t.Histograms, t.Requests = map[config.Quantity]float64{}, map[config.Quantity]*Histogram{}, map[string]float64{}
	}
	hits, asked := 0.0, 0
	for i, s := range t.pages {
		if ratio := s.HitRatio(); ratio != nil {
			hits, asked = hits+*ratio, asked+1
		}
		for name, b := range s.Backends {
			if t.Backends == nil {
				t.Backends = map[string]*Total{}
			}
			if t.Backends[name] == nil {
				t.Backends[name] = new(Total)
			}
			t.Backends[name].add(t.Servers[i], b)
		}
		if len(t.pages) == 1 {
			continue // what it shows is all
		}
		for q := range s.Values {
			if v, ok := t.value(q); ok {
				t.Values[q] = v
			}
		}
		for q := range s.Histograms {
			if h := t.histogram(q); h != nil {
				t.Histograms[q] = h
			}
		}
		for finish, n := range s.Requests {
			t.Requests[finish] += n
		}
	}
	for _, b := range t.Backends {
		b.sum()
	}
	if asked > 0 {
		t.HitRatio = new(hits / float64(asked))
	}
}

// value returns a number of all pages.
func (t *Total) value(q config.Quantity) (sum float64, ok bool) {
	if config.IsSmallest(q) {
		sum = math.Inf(1)
	}
	for _, s := range t.pages {
		v, shown := s.Values[q]
		shown = shown || config.IsCounter(q) && slices.ContainsFunc(t.pages, func(other *Snapshot) bool {
			_, shown := other.Values[q]
			return shown && other.Engine == s.Engine
		})
		switch {
		case config.IsSmallest(q):
			if shown {
				sum = min(sum, v)
			}
		case !config.AddsUp(q):
			sum = max(sum, v)
		case !shown:
			return 0, false
		default:
			sum += v
		}
	}
	return sum, true
}

// histogram returns a distribution of all pages; nil where one lacks it.
func (t *Total) histogram(q config.Quantity) *Histogram {
	var sum *Histogram
	for _, s := range t.pages {
		h := s.Histograms[q]
		switch {
		case h == nil:
			return nil
		case sum == nil:
			sum = &Histogram{Bounds: h.Bounds, Counts: slices.Clone(h.Counts), Count: h.Count, Sum: h.Sum}
			continue
		case !slices.Equal(sum.Bounds, h.Bounds):
			sum.Bounds, sum.Counts = nil, nil
		}
		for i := range sum.Counts {
			sum.Counts[i] += h.Counts[i]
		}
		sum.Count, sum.Sum = sum.Count+h.Count, sum.Sum+h.Sum
	}
	return sum
}

// Follows reports whether the total is of the same servers as an earlier one, and none of them was restarted in
// between: only then can the two be compared. None follows nil.
func (t *Total) Follows(before *Total) bool {
	if before == nil || !slices.Equal(t.Servers, before.Servers) {
		return false
	}
	for i, s := range t.pages {
		if s.Fell(before.pages[i]) {
			return false
		}
	}
	return true
}

// Fell reports whether anything that only grows is less than before.
func (s *Snapshot) Fell(before *Snapshot) bool {
	for q, v := range s.Values {
		if v < before.Values[q] && config.IsCounter(q) {
			return true
		}
	}
	for finish, n := range before.Requests {
		if s.Requests[finish] < n {
			return true
		}
	}
	for q, h := range s.Histograms {
		if b := before.Histograms[q]; b != nil && (h.Count < b.Count || h.Sum < b.Sum) {
			return true
		}
	}
	return false
}

// Restarted reports whether the server started again since an earlier page of it.
func (s *Snapshot) Restarted(before *Snapshot) bool {
	return !s.Started.Equal(before.Started) || s.Fell(before)
}

// page returns the page of a server; an empty one where the total has none.
func (t *Total) page(server string) *Snapshot {
	if i := slices.Index(t.Servers, server); i >= 0 {
		return t.pages[i]
	}
	return new(Snapshot)
}

// Counted returns by how much a counter grew since a total that this one Follows; nil where it is not known. A
// server that showed none before counts from 0.
func (t *Total) Counted(before *Total, q config.Quantity) *float64 {
	if _, ok := t.Values[q]; !ok {
		return nil
	}
	sum := 0.0
	for i, s := range t.pages {
		sum += max(0, s.Values[q]-before.page(t.Servers[i]).Values[q])
	}
	return &sum
}

// Mean returns the mean of what was measured since a total that this one Follows, in the unit of the quantity; nil
// where it is not known, or nothing was measured.
func (t *Total) Mean(before *Total, q config.Quantity) *float64 {
	if t.Histograms[q] == nil {
		return nil
	}
	count, sum := uint64(0), 0.0
	for i, s := range t.pages {
		h := s.Histograms[q]
		count, sum = count+h.Count, sum+h.Sum
		if b := before.page(t.Servers[i]).Histograms[q]; b != nil {
			if b.Count > h.Count || b.Sum > h.Sum { // of a backend, whose series may end
				return nil
			}
			count, sum = count-b.Count, sum-b.Sum
		}
	}
	if count == 0 {
		return nil
	}
	return new(sum / float64(count))
}

// Ended returns how many requests ended since a total that this one Follows, by how they ended; nil where it is not
// known.
func (t *Total) Ended(before *Total) map[string]float64 {
	if len(t.Requests) == 0 {
		return nil
	}
	ended := maps.Clone(t.Requests)
	for i := range t.pages {
		for finish, n := range before.page(t.Servers[i]).Requests {
			ended[finish] = max(0, ended[finish]-n)
		}
	}
	return ended
}
