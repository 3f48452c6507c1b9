package recorder

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// began is when the tests begin.
var began = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// lab is an endpoint that is probed every 30 s and looked at every 5 s, with a clock of its own.
type lab struct {
	t     *testing.T
	now   time.Time
	r     *Recorder
	track *Track
	log   *series.Log
	pages float64 // readings of the page so far
	next  time.Time
	text  string // of the evidence
}

func newLab(t *testing.T) *lab {
	l := &lab{t: t, now: began, log: new(series.Log), next: began}
	l.r = New("v1, go1", func() time.Time { return l.now })
	l.track = l.r.Track("a")
	return l
}

func (l *lab) Config() string { return "endpoints: []\n" }

func (l *lab) Probes(from time.Time) (whole []Probe, points []Entry) {
	for _, k := range l.log.Kept() {
		if !k.Start().Before(from) {
			whole = append(whole, l.probe(k))
		}
	}
	for _, p := range l.log.Points(series.MaxPoints) {
		if !p.At.Before(from) {
			points = append(points, Entry{At: p.At, Point: &Point{Series: "chat", Outcome: p.Outcome}})
		}
	}
	return whole, points
}

func (l *lab) probe(k series.Kept) Probe {
	return Probe{Kept: k, Series: "chat", Target: result.Target{Endpoint: "a", URL: "http://a", Module: "chat"}}
}

func (l *lab) Samples() []Entry {
	l.pages++
	return []Entry{{At: l.now, Page: &Page{Source: "a:8000", Role: RoleServer, State: page.Up, Values: ValuesOf(map[string]float64{"requests_running": l.pages})}}}
}

func (l *lab) Explain() []Entry {
	evidence, _ := json.Marshal(l.text)
	return []Entry{{At: l.now, Evidence: evidence}}
}

// run goes on for a time with probes of an outcome and a state.
func (l *lab) run(d time.Duration, o result.Outcome, s *health.Status, cause explain.Cause) {
	for end := l.now.Add(d); l.now.Before(end); l.now = l.now.Add(5 * time.Second) {
		if !l.now.Before(l.next) {
			l.next = l.now.Add(30 * time.Second)
			l.add(o)
		}
		if l.now.Sub(began)%time.Minute == 0 {
			l.r.AddSelf(Entry{At: l.now, Self: &Self{Probes: 2}})
		}
		l.track.Tick(s, cause, l)
	}
}

func (l *lab) add(o result.Outcome) {
	r := &result.Result{Start: l.now, Outcome: o, Timing: result.Timing{TTFT: 200 * time.Millisecond, TPOT: 20 * time.Millisecond}}
	for i := range 64 {
		r.Events = append(r.Events, result.Event{At: time.Duration(200+20*i) * time.Millisecond, Tokens: 1})
	}
	seen := series.Observe(r, nil, false, false)
	l.log.Add(&seen)
	if k, ok := l.log.Last(); ok && l.track.TakesProbes() {
		l.track.Observe(l.probe(k))
	}
}

// decoded returns the recording at a time.
func (l *lab) decoded(at string) *Recording {
	l.t.Helper()
	text, err := l.r.JSON("a", at)
	if err != nil {
		l.t.Fatal(err)
	}
	if len(text) > MaxBytes {
		l.t.Errorf("%d bytes, want at most %d", len(text), MaxBytes)
	}
	r, err := Decode(text)
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

func up(since time.Time) *health.Status {
	return &health.Status{State: health.Up, Unmuted: health.Up, UnmutedSince: since}
}

func suspect() *health.Status {
	return &health.Status{State: health.Up, Unmuted: health.Up, Suspect: &health.Incident{}}
}

func down(start time.Time, kind health.Kind) *health.Status {
	return &health.Status{State: health.Down, Unmuted: health.Down, Paging: &health.Paging{Kind: kind, Start: start, Scope: "host a", Witness: health.Probes}}
}

// incident runs 20 good minutes, 2 bad ones before the incident is certain and 10 after it, and one good one. It returns when the first
// bad probe started.
func (l *lab) incident() (start time.Time) {
	l.run(20*time.Minute, result.Success, up(began), "")
	start = l.now
	l.run(2*time.Minute, result.ConnectError, suspect(), "")
	l.run(5*time.Minute, result.ConnectError, down(start, health.KindFailing), explain.ProcessGone)
	l.run(5*time.Minute, result.TimeoutFirstToken, down(start, health.KindDown), explain.Hung)
	l.run(time.Minute, result.Success, up(l.now), "")
	return start
}

func TestRecording(t *testing.T) {
	l := newLab(t)
	start := l.incident()
	got := l.decoded(Latest)
	want := Incident{Kind: health.KindDown, Scope: "host a", Witness: health.Probes, Start: start, End: start.Add(12 * time.Minute)}
	if got.Incident != want || !got.From.Equal(start.Add(-10*time.Minute)) || got.Dropped != 0 || got.Config == "" || got.Exporter != "v1, go1" {
		t.Errorf("incident %+v from %s, %d dropped, want %+v", got.Incident, got.From, got.Dropped, want)
	}
	probes, pages, self := map[time.Time]result.Outcome{}, []time.Duration{}, 0
	var states []State
	var explained []time.Duration
	for _, e := range got.Entries {
		switch since := e.At.Sub(start); {
		case e.At.Before(got.From):
			t.Errorf("an entry at %s, which is before the recording", e.At)
		case e.Probe != nil:
			if _, twice := probes[e.At]; twice || len(e.Probe.Events) != 64 || e.Probe.Module != "chat" {
				t.Errorf("probe at %s: twice %t, %d events, module %q", e.At, twice, len(e.Probe.Events), e.Probe.Module)
			}
			probes[e.At] = e.Probe.Outcome
		case e.Page != nil:
			pages = append(pages, since)
		case e.State != nil:
			states = append(states, *e.State)
		case e.Self != nil:
			self++
		case e.Evidence != nil:
			explained = append(explained, since)
		case e.Point != nil:
			t.Errorf("a point at %s, where the log has all probes whole", e.At)
		}
	}
	// 20 good probes, 24 bad ones, and the one with which it ended.
	if len(probes) != 45 || probes[start] != result.ConnectError || probes[start.Add(-10*time.Minute)] != result.Success {
		t.Errorf("%d probes, the first bad one %s, and ten minutes before %s; want 45", len(probes), probes[start], probes[start.Add(-10*time.Minute)])
	}
	minutes := func(all ...float64) (times []time.Duration) {
		for _, m := range all {
			times = append(times, time.Duration(m*float64(time.Minute)))
		}
		return times
	}
	// Every 5 minutes while all is well, each minute from the first bad probe, at the beginning of the recording and at its end.
	if want := minutes(-10, -5, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12); !slices.Equal(pages, want) {
		t.Errorf("pages %v after the first bad probe, want %v", pages, want)
	}
	title := func(c explain.Cause) string { text, _ := c.Say(); return text }
	wantStates := []State{
		{health.Down, explain.ProcessGone, title(explain.ProcessGone)}, {health.Down, explain.Hung, title(explain.Hung)}, {State: health.Up},
	}
	if !slices.Equal(states, wantStates) {
		t.Errorf("states %v, want %v", states, wantStates)
	}
	if want := minutes(2, 7, 12); !slices.Equal(explained, want) {
		t.Errorf("explained %v after the first bad probe, want %v", explained, want)
	}
	if self != 22 {
		t.Errorf("%d samples of the own lag, want one in each of 22 minutes", self)
	}
}

// Where the log has few probes whole, the others are points.
func TestFewProbesAreWhole(t *testing.T) {
	l := newLab(t)
	p := new(series.Pool)
	p.Add(10_000)
	l.log.UsePool(p)
	start := l.incident()
	whole, points := 0, 0
	for _, e := range l.decoded(Latest).Entries {
		if e.At.Before(start) && e.Probe != nil {
			whole++
		}
		if e.Point != nil {
			points++
		}
	}
	if whole < 2 || whole+points != 20 {
		t.Errorf("%d probes whole before the first bad one, and %d points; want 20, at least 2 of them whole", whole, points)
	}
}

func TestIncidentsOneAfterTheOther(t *testing.T) {
	l := newLab(t)
	first := l.incident()
	second := l.incident()
	all := l.r.List("a")
	if len(all) != 2 || !all[0].Start.Equal(first) || !all[1].Start.Equal(second) || all[0].End.IsZero() {
		t.Fatalf("recordings %+v, want of incidents at %s and %s", all, first, second)
	}
	for at, start := range map[string]time.Time{
		Latest: second, first.Format(time.RFC3339): first, first.Add(5 * time.Minute).Format(time.RFC3339): first, second.Add(time.Minute).Format(time.RFC3339Nano): second,
	} {
		if got := l.decoded(at); !got.Incident.Start.Equal(start) {
			t.Errorf("at %s an incident of %s, want of %s", at, got.Incident.Start, start)
		}
	}
	if _, err := l.r.JSON("a", first.Add(-time.Minute).Format(time.RFC3339)); !errors.Is(err, ErrNone) {
		t.Errorf("error %v before the first incident, want %v", err, ErrNone)
	}
	if _, err := l.r.JSON("a", "yesterday"); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("error %v for no time", err)
	}
	if _, err := l.r.JSON("b", Latest); !errors.Is(err, ErrNone) {
		t.Errorf("error %v for another endpoint, want %v", err, ErrNone)
	}
}

func TestSuspicionLeavesNothing(t *testing.T) {
	l := newLab(t)
	l.run(time.Minute, result.ConnectError, suspect(), "")
	if !l.track.TakesProbes() || len(l.track.probes) == 0 {
		t.Error("takes no probes while an incident is suspected")
	}
	l.run(time.Minute, result.Success, up(began), "")
	if l.track.TakesProbes() || l.track.probes != nil || l.r.bytes != 0 || l.r.busy.Load() != 0 {
		t.Errorf("takes probes: %t; %d probes, %d bytes and %d tracks are left", l.track.TakesProbes(), len(l.track.probes), l.r.bytes, l.r.busy.Load())
	}
}

// fill adds n entries with a text of a size, which name themselves.
func (l *lab) fill(n, size int) {
	for i := range n {
		l.now = l.now.Add(time.Second)
		l.track.put(Entry{At: l.now, State: &State{Title: fmt.Sprintf("%06d", i) + strings.Repeat("x", size)}})
	}
}

func TestTheMiddleIsDropped(t *testing.T) {
	l := newLab(t)
	start := l.now
	l.run(5*time.Second, result.ConnectError, down(start, health.KindDown), explain.Hung)
	before := len(l.decoded(Latest).Entries)
	const n, size = 5000, 900
	l.fill(n, size)
	got := l.decoded(Latest)
	var named []string
	for _, e := range got.Entries {
		if e.State != nil && strings.HasSuffix(e.State.Title, "x") {
			named = append(named, e.State.Title[:6])
		}
	}
	if len(named)+got.Dropped != n || len(got.Entries)-len(named) != before {
		t.Errorf("%d of %d entries, and %d dropped; %d of %d before them", len(named), n, got.Dropped, len(got.Entries)-len(named), before)
	}
	text, _ := l.r.JSON("a", Latest)
	if len(text) < MaxBytes-2*size {
		t.Errorf("%d bytes, want nearly %d", len(text), MaxBytes)
	}
	gap := 0
	for i := 1; i < len(named); i++ {
		if named[i] != fmt.Sprintf("%06d", i+got.Dropped*min(1, gap)) {
			gap++
			if gap > 1 || named[i] != fmt.Sprintf("%06d", i+got.Dropped) {
				t.Fatalf("entry %d is %s", i, named[i])
			}
		}
	}
	if named[0] != "000000" || named[len(named)-1] != fmt.Sprintf("%06d", n-1) {
		t.Errorf("the entries are %s to %s, want the first and the latest of all", named[0], named[len(named)-1])
	}
	if share := float64(slices.Index(named, fmt.Sprintf("%06d", n-1))) / float64(n); share > 0.5 {
		t.Errorf("%.2f of the entries are kept, want the middle dropped", share)
	}
	// An entry of a size that no recording has room for beside others.
	l.fill(1, maxEntry)
	if now := l.decoded(Latest); now.Dropped != got.Dropped+1 || len(now.Entries) != len(got.Entries) {
		t.Errorf("%d dropped and %d entries after one that is too large, want %d and %d", now.Dropped, len(now.Entries), got.Dropped+1, len(got.Entries))
	}
}

func (r *Recorder) checkTotal(t *testing.T, each bool) {
	t.Helper()
	total := 0
	for _, k := range r.all {
		total += k.bytes
		if !each {
			continue
		}
		text, err := r.JSON(k.Endpoint, Latest)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > k.bytes {
			t.Errorf("%d bytes of JSON, counted as %d", len(text), k.bytes)
		}
	}
	if total != r.bytes || total > MaxTotal {
		t.Errorf("%d bytes in all, counted as %d, want at most %d", total, r.bytes, MaxTotal)
	}
}

// Of more recordings than there is room for, the oldest go, unless their incidents go on.
func TestTheOldestRecordingsGo(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills all 64 MB, which make simulations does without the race detector")
	}
	l := newLab(t)
	const each = MaxTotal/MaxBytes + 8
	for i := range each {
		l.track = l.r.Track(fmt.Sprintf("endpoint-%d", i))
		l.track.Tick(down(l.now, health.KindDown), "", l)
		l.fill(2400, 900)
		if i >= 3 { // the incidents of the first three go on
			l.track.Tick(up(l.now), "", l)
		}
		l.r.checkTotal(t, i == each-1)
	}
	for i := range each {
		want := i < 3 || i > 10
		if got := len(l.r.List(fmt.Sprintf("endpoint-%d", i))) > 0; got != want && (i < 9 || i > 12) {
			t.Errorf("recording of endpoint %d: %t, want %t", i, got, want)
		}
	}
}

// While more incidents go on than there is room for, those that came first are recorded, and the others cost nothing.
func TestTooManyIncidents(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills all 64 MB, which make simulations does without the race detector")
	}
	l := newLab(t)
	tracks := make([]*Track, 2*MaxTotal/MaxBytes)
	for i := range tracks {
		tracks[i] = l.r.Track(fmt.Sprintf("endpoint-%d", i))
	}
	start := l.now
	for range 3 {
		for _, l.track = range tracks {
			l.track.Tick(down(start, health.KindDown), "", l)
			if l.track.open != nil {
				l.fill(2400, 900)
			}
		}
		l.r.checkTotal(t, false)
	}
	recorded := 0
	for _, track := range tracks {
		switch {
		case track.open != nil:
			recorded++
		case track.TakesProbes() || track.probes != nil:
			t.Errorf("%s is not recorded, and keeps %d probes", track.endpoint, len(track.probes))
		}
	}
	if recorded < MaxTotal/MaxBytes || recorded == len(tracks) {
		t.Errorf("%d of %d incidents are recorded", recorded, len(tracks))
	}
}

// restart returns the lab with a recorder that has what the one before saved, and the records that it refused.
func (l *lab) restart(change func(record []byte) []byte) (next *lab, rejected int) {
	l.t.Helper()
	r := New("v2, go1", l.r.now)
	err := l.r.Save(func(record any) error {
		text, err := json.Marshal(record)
		if err != nil {
			return err
		}
		if change != nil {
			text = change(text)
		}
		if r.Restore(text) != nil {
			rejected++
		}
		clear(text)
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.r = r
	l.track = r.Track("a")
	return l, rejected
}

func TestRestart(t *testing.T) {
	l := newLab(t)
	l.incident()
	start := l.now
	l.run(10*time.Minute, result.ConnectError, down(start, health.KindDown), explain.Hung)
	l.fill(5000, 900)
	before, revision := l.decoded(Latest), l.r.Revision()
	if revision < 4 {
		t.Errorf("revision %d, want one for the beginning and the end of the first, the beginning of the second, and five minutes of it", revision)
	}
	l, rejected := l.restart(nil)
	if got := l.decoded(Latest); rejected != 0 || len(got.Entries) != len(before.Entries) || got.Dropped != before.Dropped || got.Incident != before.Incident {
		t.Fatalf("%d records rejected, %d entries and %d dropped, want %d and %d", rejected, len(got.Entries), got.Dropped, len(before.Entries), before.Dropped)
	}
	l.run(5*time.Minute, result.ConnectError, down(start, health.KindDown), explain.Hung)
	l.run(time.Minute, result.Success, up(l.now), "")
	got := l.decoded(Latest)
	if all := l.r.List("a"); len(all) != 2 || !got.Incident.Start.Equal(start) || got.Incident.End.IsZero() || got.Exporter != "v1, go1" {
		t.Errorf("recordings %+v after the restart, want the two, and the second one over", all)
	}
	for i, e := range before.Entries[:900] {
		if !e.At.Equal(got.Entries[i].At) {
			t.Fatalf("entry %d of the beginning is of %s, want of %s", i, got.Entries[i].At, e.At)
		}
	}
	if !got.Entries[len(got.Entries)-1].At.After(before.Entries[len(before.Entries)-1].At) {
		t.Error("nothing was recorded after the restart")
	}
}

// A record that is wrong is refused, and the rest is used.
func TestRestoreRefuses(t *testing.T) {
	l := newLab(t)
	l.incident()
	want := len(l.decoded(Latest).Entries)
	n := 0
	l, rejected := l.restart(func(record []byte) []byte {
		switch n++; n {
		case 3:
			return record[:len(record)/2]
		case 4:
			return []byte(`{"entry":{"at":"2026-01-02T03:04:05Z"}}`)
		case 5:
			return []byte(`{"entry":{"at":"2096-01-02T03:04:05Z","self":{}}}`)
		}
		return record
	})
	if got := len(l.decoded(Latest).Entries); rejected != 3 || got != want-3 {
		t.Errorf("%d records rejected and %d entries left, want 3 and %d", rejected, got, want-3)
	}
	good := `{"version":1,"endpoint":"b","incident":{"kind":"down","start":"2026-01-02T03:04:05Z"},"from":"2026-01-02T02:54:05Z"}`
	for _, record := range []string{
		strings.Replace(good, `"version":1`, `"version":2`, 1), strings.Replace(good, "down", "sideways", 1), strings.Replace(good, `"b"`, `""`, 1),
		strings.Replace(good, "2026-01-02T03:04", "2096-01-02T03:04", 1), strings.Replace(good, "2026-01-02T02:54:05Z", "0001-01-01T00:00:00Z", 1),
	} {
		if l.r.Restore([]byte(`{"recording":`+record+`}`)) == nil {
			t.Errorf("took %s", record)
		}
	}
	record := []byte(`{"recording":` + good + `}`)
	if err := l.r.Restore(record); err != nil {
		t.Fatal(err)
	}
	if l.r.Restore(record) == nil {
		t.Error("took the same recording twice")
	}
}

// A recording whose endpoint does not come back ends with what was seen last.
func TestEndpointGone(t *testing.T) {
	l := newLab(t)
	start := l.now
	l.run(10*time.Minute, result.ConnectError, down(start, health.KindDown), explain.Hung)
	last := l.now.Add(-5 * time.Second)
	l, _ = l.restart(nil)
	l.r.all[0].tracked = false
	l.now = l.now.Add(orphanAfter + time.Second)
	l.r.AddSelf(Entry{At: l.now, Self: &Self{}})
	if end := l.decoded(Latest).Incident.End; end.IsZero() || end.After(last) || end.Before(start.Add(9*time.Minute)) {
		t.Errorf("the incident ended at %s, want when it was seen last, by %s", end, last)
	}
	l = newLab(t)
	l.run(time.Minute, result.ConnectError, down(start, health.KindDown), explain.Hung)
	l.track.Close()
	l.track.Tick(down(start, health.KindDown), explain.Hung, l)
	if all := l.r.List("a"); len(all) != 1 || !all[0].End.Equal(l.now) {
		t.Errorf("recordings %+v of an endpoint that was removed at %s", all, l.now)
	}
}

func FuzzRestore(f *testing.F) {
	f.Add([]byte(`{"recording":{"version":1,"endpoint":"b","incident":{"kind":"down","start":"2026-01-02T02:04:05Z"},"from":"2026-01-02T02:54:05Z"}}`), []byte(`{"entry":{"at":"2026-01-02T02:14:05Z","self":{}}}`))
	f.Fuzz(func(t *testing.T, head, entry []byte) {
		r := New("v1", func() time.Time { return began })
		restored := r.Restore(head) == nil
		_ = r.Restore(entry)
		if !restored || len(r.all) == 0 {
			return
		}
		text, err := r.JSON(r.all[0].Endpoint, Latest)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(text); err != nil {
			t.Errorf("what was restored cannot be read: %v", err)
		}
		r.checkTotal(t, true)
	})
}
