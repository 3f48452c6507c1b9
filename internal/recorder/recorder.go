package recorder

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

const (
	// Lead is how long before an incident its recording begins.
	Lead = 10 * time.Minute
	// MaxBytes bounds one recording, and MaxTotal all of them, as JSON.
	MaxBytes, MaxTotal = 2_000_000, 64_000_000

	// maxEntry and maxConfig bound parts of a recording, and spare is for what changes at its top.
	maxEntry, maxConfig, spare = MaxBytes / 4, MaxBytes / 8, 512
	// saveEvery is how often an incident that goes on is saved.
	saveEvery = 5 * time.Minute
	// orphanAfter is how long a recording of an earlier process waits for its endpoint.
	orphanAfter = time.Hour
	// maxSelf is how many samples of the exporter's own lag are kept.
	maxSelf = 60
)

// Recorder keeps the recordings of all endpoints. It is safe for concurrent use.
type Recorder struct {
	exporter string
	now      func() time.Time
	busy     atomic.Int64 // tracks with a first bad probe

	mu       sync.Mutex
	all      []*kept // in the order in which they began
	bytes    int     // of all
	self     []Entry
	revision uint64
	changed  time.Time // of the revision
	loading  *kept     // of which entries are restored
	loaded   time.Time
}

// New returns a recorder; exporter is Recording.Exporter.
func New(exporter string, now func() time.Time) *Recorder {
	return &Recorder{exporter: exporter, now: now}
}

// kept is a recording with its entries as JSON: the first ones, and the latest after those that were dropped.
type kept struct {
	Recording
	first, latest []line
	full          bool // first takes no more
	bytes         int  // at most, as JSON
	tracked       bool // by its endpoint
}

type line struct {
	at     time.Time
	text   []byte
	latest bool // belongs there
}

func (k *kept) isOpen() bool { return k.Incident.End.IsZero() }

// begin adds a recording without entries; nil where there is no room for it, as many incidents go on.
func (r *Recorder) begin(head Recording) *kept {
	if len(head.Config) > maxConfig {
		head.Config = fmt.Sprintf("# left out: %d bytes\n", len(head.Config))
	}
	text, err := json.Marshal(&head)
	if err != nil {
		return nil
	}
	k := &kept{Recording: head, bytes: len(text) + spare, tracked: true}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.makeRoom(k.bytes, nil) {
		return nil
	}
	r.all, r.bytes = append(r.all, k), r.bytes+k.bytes
	r.touch()
	return k
}

// touch has the recordings saved; r.mu is held.
func (r *Recorder) touch() { r.revision, r.changed = r.revision+1, r.now() }

// makeRoom drops the oldest recordings of incidents that are over, but for one, until so many bytes are free; r.mu is held.
func (r *Recorder) makeRoom(bytes int, but *kept) bool {
	for r.bytes+bytes > MaxTotal {
		i := slices.IndexFunc(r.all, func(k *kept) bool { return !k.isOpen() && k != but })
		if i < 0 {
			return false
		}
		r.bytes -= r.all[i].bytes
		r.all = slices.Delete(r.all, i, i+1)
	}
	return true
}

// put adds an entry to a recording, and drops what there is no room for: the oldest recordings that are over, and of this one the middle.
func (r *Recorder) put(k *kept, l line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(l.text) + 1
	over := max(0, k.bytes+n-MaxBytes)
	if !r.makeRoom(n, k) {
		over = max(over, r.bytes+n-MaxTotal)
	}
	if len(l.text) > maxEntry || !r.drop(k, over) {
		k.Dropped++
		return
	}
	if k.full = k.full || l.latest || k.bytes+n > MaxBytes/2; k.full {
		k.latest = append(k.latest, l)
	} else {
		k.first = append(k.first, l)
	}
	k.bytes, r.bytes = k.bytes+n, r.bytes+n
	if r.now().Sub(r.changed) >= saveEvery {
		r.touch()
	}
}

// drop drops the oldest of the latest entries of a recording until it has so many bytes less; false where it cannot. r.mu is held.
func (r *Recorder) drop(k *kept, bytes int) bool {
	for bytes > 0 && len(k.latest) > 0 {
		n := len(k.latest[0].text) + 1
		k.latest[0] = line{}
		k.latest = k.latest[1:]
		k.Dropped++
		k.bytes, r.bytes, bytes = k.bytes-n, r.bytes-n, bytes-n
	}
	return bytes <= 0
}

// AddSelf adds a sample of the exporter's own lag, once a minute.
func (r *Recorder) AddSelf(e Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.self = stats.AppendLatest(r.self, e, maxSelf)
	for _, k := range r.all {
		if k.isOpen() && !k.tracked && r.now().Sub(r.loaded) > orphanAfter {
			k.Incident.End = k.lastAt()
			r.touch()
		}
	}
}

// lastAt returns when the latest entry was seen; r.mu is held.
func (k *kept) lastAt() time.Time {
	last := k.Incident.Start
	for _, l := range k.lines() {
		if l.at.After(last) {
			last = l.at
		}
	}
	return last
}

func (k *kept) lines() []line { return slices.Concat(k.first, k.latest) }

// Listed is a recording in a list.
type Listed struct {
	Endpoint string `json:"endpoint"`
	Incident
	// Bytes is how large it is at most.
	Bytes int `json:"bytes"`
}

// List returns the recordings of an endpoint, "" is of all, the latest last.
func (r *Recorder) List(endpoint string) []Listed {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []Listed{}
	for _, k := range r.all {
		if endpoint == "" || k.Endpoint == endpoint {
			all = append(all, Listed{k.Endpoint, k.Incident, k.bytes})
		}
	}
	return all
}

// ErrNone is the error where there is no such recording.
var ErrNone = errors.New("no recording of an incident at this time")

// Latest names the latest recording.
const Latest = "latest"

// JSON returns the Recording of the incident that an endpoint had at a time, which is Latest or in RFC 3339. The error is ErrNone or says
// what is wrong with the time.
func (r *Recorder) JSON(endpoint, at string) ([]byte, error) {
	var t time.Time
	if at != Latest {
		var err error
		if t, err = time.Parse(time.RFC3339, at); err != nil {
			return nil, fmt.Errorf("time %.64q: want one like 2026-01-02T03:04:05Z, or %s", at, Latest)
		}
	}
	head, lines, ok := r.find(endpoint, t)
	if !ok {
		return nil, ErrNone
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	document := struct {
		Recording
		Entries []json.RawMessage `json:"entries"`
	}{head, make([]json.RawMessage, len(lines))}
	for i, l := range lines {
		document.Entries[i] = l.text
	}
	return json.Marshal(document)
}

// find returns the recording of the incident that an endpoint had at a time; the zero time is the latest.
func (r *Recorder) find(endpoint string, at time.Time) (Recording, []line, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range slices.Backward(r.all) {
		start, end := k.Incident.Start.Truncate(time.Second), cmp.Or(k.Incident.End, r.now())
		if k.Endpoint == endpoint && (at.IsZero() || !at.Before(start) && !at.After(end)) {
			return k.Recording, k.lines(), true
		}
	}
	return Recording{}, nil, false
}

// saved is a record: the top of a recording, or one of the entries of the one before it.
type saved struct {
	Recording *Recording      `json:"recording,omitempty"`
	Entry     json.RawMessage `json:"entry,omitempty"`
	Latest    bool            `json:"latest,omitempty"` // of the entries after those that were dropped
}

// Revision returns a number that changes when recordings begin or end, and every few minutes in between.
func (r *Recorder) Revision() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.revision
}

// Save puts all recordings. It holds no lock while put runs.
func (r *Recorder) Save(put func(record any) error) error {
	r.mu.Lock()
	all := stats.Map(r.all, func(k *kept) kept {
		return kept{Recording: k.Recording, first: k.first, latest: slices.Clone(k.latest)}
	})
	r.mu.Unlock()
	for i := range all {
		if err := put(saved{Recording: &all[i].Recording}); err != nil {
			return err
		}
		for j, l := range all[i].lines() {
			if err := put(saved{Entry: l.text, Latest: j >= len(all[i].first)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Restore takes a record of an earlier process. It comes before the endpoints.
func (r *Recorder) Restore(record []byte) error {
	var s saved
	if err := json.Unmarshal(record, &s); err != nil {
		return err
	}
	now := r.now()
	if s.Recording == nil {
		return r.restoreEntry(&s, now)
	}
	r.loading = nil
	head := *s.Recording
	head.Entries = nil
	switch err := head.check(); {
	case err != nil:
		return err
	case head.Incident.Start.After(now) || head.Incident.End.After(now):
		return errors.New("a recording of the future")
	case slices.ContainsFunc(r.all, func(k *kept) bool {
		return k.Endpoint == head.Endpoint && k.Incident.Start.Equal(head.Incident.Start)
	}):
		return errors.New("twice the same recording")
	}
	k := r.begin(head)
	if k == nil {
		return errors.New("no room")
	}
	k.tracked, r.loading, r.loaded = false, k, now
	return nil
}

func (r *Recorder) restoreEntry(s *saved, now time.Time) error {
	var e Entry
	if err := json.Unmarshal(s.Entry, &e); err != nil {
		return err
	}
	if err := e.check(); err != nil {
		return err
	}
	if r.loading == nil || e.At.After(now) {
		return errors.New("an entry of no recording, or of the future")
	}
	r.put(r.loading, line{e.At.UTC(), slices.Clone(s.Entry), s.Latest})
	return nil
}
