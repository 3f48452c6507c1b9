// Package page reads the metrics pages of inference servers into one vocabulary:
// queue, KV cache, prefix-cache hits, tokens and latency histograms. What a series
// of an engine means is in a mapping, one file for each engine, and not in code.
package page

import (
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
)

// RatioWindow is the time over which Snapshot.PrefixCacheRatio is computed.
const RatioWindow = 5 * time.Minute

// Snapshot is what one reading of a page found. It is immutable. What the page
// does not show is absent.
type Snapshot struct {
	// Engine is the name of the mapping that the page was read with.
	Engine string
	// At is when the page had been received.
	At time.Time
	// Values are the quantities that are one number, in the unit of the
	// quantity: finite, and not negative. Counters grow while the exporter
	// runs, unless the server restarts.
	Values map[config.Quantity]float64
	// Histograms are the distributions, in the unit of the quantity.
	Histograms map[config.Quantity]*Histogram
	// InputLengths and OutputLengths are the lengths of the prompts and of the answers of
	// ended requests, in tokens; nil unless the mappings are those WithLengths.
	InputLengths, OutputLengths *Histogram
	// Requests counts ended requests by how they ended: a key is one of
	// Finishes.
	Requests map[string]float64
	// PrefixCacheUnit is what the hits of the prefix cache are counted in;
	// "" without hits.
	PrefixCacheUnit string
	// Role is what part of a request the server does, one of config.Roles; "" where the
	// page does not show it.
	Role string
	// PrefixCacheRatio is hits over queries of the last RatioWindow, or of
	// the time since the first reading where that is less; negative while
	// nothing was asked of the cache.
	PrefixCacheRatio float64
	// Started is when the server's process started; the zero time where the page does not
	// show it.
	Started time.Time
	// LastProgress is the last time that the engine was seen to work, or to
	// have nothing to do; of ranks that have requests that of the one where it
	// is longest ago. The zero time where the engine does not show it.
	LastProgress time.Time
	// Missing are the quantities that every page of this engine shows, or
	// every one after some work, and this one did not. Sorted.
	Missing []config.Quantity
	// Devices are the accelerators that a page shows, and Driver is their driver's version.
	Devices []gpu.DeviceSnapshot
	Driver  string
	// Backends are what the page of a gateway shows of each of its backends, by name;
	// nil where it shows none, or more than are read one by one. Of the values,
	// BackendsReady is 1 or 0 where the page says whether the backend is ready.
	Backends map[string]*Snapshot
}

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
	// Server is the name of the server: host and port of its page, and the
	// path unless that is the usual one.
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
	// Absent reports that there is no server, and nothing to publish: a page that
	// is not configured and no mapping knows, a model that a router has not
	// loaded, or one that was not asked for want of a file of this machine.
	Absent bool
	// Snapshot is nil unless the state is up.
	Snapshot *Snapshot
	// LastProgress is that of the latest snapshot, also while the server is
	// down.
	LastProgress time.Time
	// Failures counts the readings that failed, by reason.
	Failures map[Reason]uint64
}
