package recorder

import (
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

const (
	// calmEvery is how often pages and GPUs are sampled while all is well, and busyEvery how often from the first bad probe on.
	calmEvery, busyEvery = 5 * time.Minute, time.Minute
	// maxSuspected bounds the probes, and the samples, of all endpoints together before it is certain that there are incidents, maxBefore
	// those of one, and minBefore is how many one may have at least.
	maxSuspected, maxBefore, minBefore = 1 << 14, 128, 8
)

// Source is what is recorded of an endpoint.
type Source interface {
	// Config returns the endpoint and its modules as YAML, without secrets.
	Config() string
	// Probes returns the probes since an instant: those that are kept whole, and all of them as points.
	Probes(from time.Time) (whole []Probe, points []Entry)
	// Samples returns what pages and GPUs show now.
	Samples() []Entry
	// Explain returns why the endpoint is as it is, and what that follows from.
	Explain() []Entry
}

// Probe is a probe that is kept whole.
type Probe struct {
	series.Kept
	Target result.Target
	Series string // as in Point
}

// key identifies a probe, whole or as a point.
type key struct {
	series string
	tenths int64
}

func (p Probe) key() key { return key{p.Series, p.Start().UnixMilli() / 100} }

func (p Probe) entry() Entry { return Entry{At: p.Start(), Probe: p.Document(p.Target)} }

// Track follows an endpoint. While all is well it has samples of the last minutes; from the first bad probe on the probes whole, which
// the log would drop; and a recording from when the incident is certain.
type Track struct {
	recorder *Recorder
	endpoint string
	busy     atomic.Bool // from the first bad probe on
	ticking  sync.Mutex  // held by Tick and Close
	closed   bool

	mu     sync.Mutex
	probes []Probe
	open   *kept        // nil is none
	taken  map[key]bool // probes that were recorded when it began

	// The rest is used by Tick alone.
	samples                       []Entry
	suspected, sampled, explained time.Time
	refused                       time.Time // start of the incident that there was no room for
	state                         State
	why                           explain.Cause // that was explained
}

// Track returns that of an endpoint, which goes on with a recording of an earlier process.
func (r *Recorder) Track(endpoint string) *Track {
	t := &Track{recorder: r, endpoint: endpoint}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range slices.Backward(r.all) {
		if k.Endpoint == endpoint && k.isOpen() {
			t.open, k.tracked = k, true
			t.setBusy(true)
			break
		}
	}
	return t
}

// Close ends a recording, as the endpoint is gone; of a nil Track there is none.
func (t *Track) Close() {
	if t == nil {
		return
	}
	t.ticking.Lock()
	defer t.ticking.Unlock()
	if t.open != nil {
		t.finish(t.recorder.now())
	}
	t.closed = true
	t.setBusy(false)
}

func (t *Track) setBusy(busy bool) {
	if t.busy.Swap(busy) != busy {
		t.recorder.busy.Add(map[bool]int64{true: 1, false: -1}[busy])
	}
}

// limit returns how many probes and samples are kept before it is certain that there is an incident.
func (t *Track) limit() int {
	return int(min(maxBefore, max(minBefore, maxSuspected/max(1, t.recorder.busy.Load()))))
}

// shorten takes from the middle what is more than the limit.
func shorten[T any](all []T, limit int) []T {
	if n := len(all) - limit; n > 0 {
		return slices.Delete(all, limit/2, limit/2+n)
	}
	return all
}

// TakesProbes reports whether Observe does anything.
func (t *Track) TakesProbes() bool { return t.busy.Load() }

// Observe takes a probe that has ended.
func (t *Track) Observe(p Probe) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.open == nil:
		t.probes = shorten(append(t.probes, p), t.limit())
	case t.taken[p.key()]:
		delete(t.taken, p.key())
	default:
		t.put(p.entry())
	}
}

func (t *Track) put(e Entry) {
	if text, err := json.Marshal(e); err == nil {
		t.recorder.put(t.open, line{at: e.At.UTC(), text: text})
	}
}

// Tick follows the state of the endpoint, with its likeliest cause. It is called by one goroutine every few seconds.
func (t *Track) Tick(s *health.Status, cause explain.Cause, of Source) {
	t.ticking.Lock()
	defer t.ticking.Unlock()
	if t.closed {
		return
	}
	now, paging := t.recorder.now(), s.Paging
	if t.open != nil && (paging == nil || !paging.Start.Equal(t.open.Incident.Start)) {
		t.end(now, s, of)
	}
	t.suspect(now, s, of)
	t.sample(now, of)
	state := State{State: s.State, Cause: cause}
	if cause != "" {
		state.Title, _ = cause.Say()
	}
	switch {
	case paging == nil:
		return
	case t.open == nil:
		if paging.Start.Equal(t.refused) {
			return
		}
		if !t.begin(now, paging, of) {
			t.refused = paging.Start
			return
		}
	case t.open.Incident.Kind != paging.Kind || t.open.Incident.Witness != paging.Witness || t.open.Incident.Scope != paging.Scope:
		t.recorder.update(t.open, Incident{Kind: paging.Kind, Scope: paging.Scope, Witness: paging.Witness, Start: paging.Start})
	}
	t.follow(now, state, of)
}

func (r *Recorder) update(k *kept, i Incident) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k.Incident = i
	if !k.isOpen() {
		r.touch()
	}
}

// suspect begins to keep the probes whole with the first bad one, and ceases when all is well.
func (t *Track) suspect(now time.Time, s *health.Status, of Source) {
	bad := s.Suspect != nil || s.Paging != nil || slices.Contains([]health.State{health.Down, health.Flapping, health.Degraded, health.Slow}, s.Unmuted)
	bad = bad && (s.Paging == nil || !s.Paging.Start.Equal(t.refused))
	if bad == t.busy.Load() {
		return
	}
	var whole []Probe
	t.suspected = now
	if bad {
		whole, _ = of.Probes(now.Add(-Lead))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.probes = whole
	t.setBusy(bad)
}

// sample takes samples of pages and GPUs when they are due.
func (t *Track) sample(now time.Time, of Source) {
	every, from := calmEvery, now.Add(-Lead)
	if t.busy.Load() {
		every, from = busyEvery, t.suspected.Add(-Lead)
	}
	if now.Sub(t.sampled) < every {
		return
	}
	last := t.sampled
	t.sampled = now
	if t.open != nil {
		for _, e := range slices.Concat(of.Samples(), t.recorder.selfSince(last)) {
			t.put(e)
		}
		return
	}
	t.samples = slices.DeleteFunc(append(t.samples, of.Samples()...), func(e Entry) bool { return e.At.Before(from) })
	if len(t.samples) == 0 { // no page was read yet
		t.sampled = now.Add(busyEvery - every)
	}
	if t.busy.Load() {
		t.samples = shorten(t.samples, t.limit())
	}
}

// selfSince returns the samples of the exporter's own lag after an instant.
func (r *Recorder) selfSince(from time.Time) []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.self), func(e Entry) bool { return !e.At.After(from) })
}

// begin begins a recording with what was there before; false where there is no room for it.
func (t *Track) begin(now time.Time, p *health.Paging, of Source) bool {
	from := p.Start.Add(-Lead)
	open := t.recorder.begin(Recording{
		Version: Version, Exporter: t.recorder.exporter, Endpoint: t.endpoint, From: from.UTC(), Config: of.Config(),
		Incident: Incident{Kind: p.Kind, Scope: p.Scope, Witness: p.Witness, Start: p.Start.UTC()},
	})
	if open == nil {
		return false
	}
	whole, points := of.Probes(from)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = map[key]bool{}
	entries := slices.Concat(t.samples, t.recorder.selfSince(from))
	for _, probe := range slices.Concat(whole, t.probes) {
		if k := probe.key(); !t.taken[k] {
			t.taken[k] = true
			entries = append(entries, probe.entry())
		}
	}
	for _, point := range points {
		if !t.taken[key{point.Point.Series, point.At.UnixMilli() / 100}] {
			entries = append(entries, point)
		}
	}
	entries = append(slices.DeleteFunc(entries, func(e Entry) bool { return e.At.Before(from) }), of.Samples()...)
	slices.SortStableFunc(entries, func(a, b Entry) int { return a.At.Compare(b.At) })
	t.open, t.probes, t.samples, t.sampled, t.state = open, nil, nil, now, State{}
	for _, e := range entries {
		t.put(e)
	}
	return true
}

// follow records a state that is not what it was, and why it is so with another cause, at most once a minute.
func (t *Track) follow(now time.Time, state State, of Source) {
	if state != t.state {
		t.put(Entry{At: now, State: &state})
		t.state = state
	}
	if t.explained.IsZero() || state.Cause != t.why && now.Sub(t.explained) >= busyEvery {
		t.explained, t.why = now, state.Cause
		for _, e := range of.Explain() {
			t.put(e)
		}
	}
}

// end ends a recording, with what is there by now.
func (t *Track) end(now time.Time, s *health.Status, of Source) {
	for _, e := range slices.Concat(of.Samples(), of.Explain(), t.recorder.selfSince(t.sampled)) {
		t.put(e)
	}
	t.put(Entry{At: now, State: &State{State: s.State}})
	end := now
	if s.Unmuted == health.Up && s.UnmutedSince.After(t.open.Incident.Start) {
		end = s.UnmutedSince
	}
	t.finish(end)
}

func (t *Track) finish(end time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.open.Incident
	i.End = end.UTC()
	t.recorder.update(t.open, i)
	t.open, t.taken, t.state, t.explained = nil, nil, State{}, time.Time{}
}
