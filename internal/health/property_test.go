package health

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/users"
)

// Whatever the results are: a state is never of the future; an incident keeps its begin
// until it ends, but for one that joins those before it; down, or flapping after two times at least, is two failures in a row at the end, and no series that succeeded
// last, or four and none that did so since another fails; up is a success at least; what pages keeps its begin, gets no better and is not up; and after
// 40 successes of each series, twice as long as it was well in between and 5 minutes, it is up.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := begin()
		e := New("e", NewShared(func() time.Time { return now }, slog.New(slog.DiscardHandler)), nil)
		var all []*Series
		latest := map[*Series]bool{} // whether the latest result was good
		for i := range rapid.IntRange(1, 3).Draw(t, "series") {
			all = append(all, e.OpenSeries(result.SeriesID{Endpoint: "e", Module: fmt.Sprint(i), Prefix: "cold"}, SeriesOptions{Objectives: &series.Objectives{Share: 0.99}}))
		}
		since := map[*Series]time.Time{} // when the failures in a row began, or the success
		streak, succeeded := 0, false
		good := func(s *Series) {
			now = now.Add(time.Second)
			see(s, probeOf(now, result.Success), false)
			latest[s], since[s], streak, succeeded = true, now, 0, true
		}
		before := e.Status()
		t.Repeat(map[string]func(*rapid.T){
			"succeed": func(t *rapid.T) { good(rapid.SampledFrom(all).Draw(t, "of")) },
			"fail": func(t *rapid.T) {
				now = now.Add(time.Second)
				s := rapid.SampledFrom(all).Draw(t, "of")
				see(s, probeOf(now, result.Empty), false)
				if was, ok := latest[s]; was || !ok {
					since[s] = now
				}
				latest[s] = false
				streak++
			},
			"": func(t *rapid.T) {
				failing, first := 0, now.Add(time.Second)
				for s, ok := range latest {
					if !ok {
						failing++
						first = slices.MinFunc([]time.Time{first, since[s]}, time.Time.Compare)
					}
				}
				outdated := 0
				for s, ok := range latest {
					if ok && since[s].Before(first) {
						outdated++
					}
				}
				down := failing > 0 && (failing == len(latest) && streak >= 2 || failing+outdated == len(latest) && streak >= 4)
				s := e.Status()
				switch {
				case s.Since.After(now):
					t.Fatalf("%s since %s, now it is %s", s.State, s.Since, now)
				case isIncident(s.State) && isIncident(before.State) && s.Since.After(before.Since):
					t.Fatalf("the incident since %s is now since %s", before.Since, s.Since)
				case s.State == Down && !down || down && s.State != Down && s.State != Flapping:
					t.Fatalf("%s with %d of %d series failing, %d outdated, and %d failures in a row", s.State, failing, len(latest), outdated, streak)
				case s.State == Flapping && s.Spells < 2:
					t.Fatalf("flapping after %d spells", s.Spells)
				case s.Paging != nil && (s.State == Up || s.Paging.Start.After(now)):
					t.Fatalf("%s, and %+v pages at %s", s.State, s.Paging, now)
				case s.Paging != nil && before.Paging != nil && (before.Paging.Kind.isWorse(s.Paging.Kind) || !before.Paging.Start.Equal(s.Paging.Start)):
					t.Fatalf("%+v was %+v", s.Paging, before.Paging)
				case s.State == Up && !succeeded:
					t.Fatal("up without a success")
				case isIncident(s.State) && (s.Failed < 1 || s.Failed > s.Probes):
					t.Fatalf("%d of %d failed", s.Failed, s.Probes)
				}
				before = s
			},
		})
		for wait := 2 * now.Sub(begin()); wait > -clusterGap; wait -= time.Second {
			for _, s := range all {
				good(s)
			}
		}
		if s := e.Status(); s.State != Up {
			t.Fatalf("%s after successes of each series for three times as long", s.State)
		}
	})
}

func isIncident(s State) bool { return s == Down || s == Flapping || s == Degraded }

// All that is called from several goroutines is called at once.
func TestConcurrency(t *testing.T) {
	shared := NewShared(time.Now, slog.New(slog.DiscardHandler))
	endpoints := []*Endpoint{New("a", shared, nil), New("b", shared, nil), New("b", shared, nil)} // the latter as in a reload
	var all sync.WaitGroup
	each := func(f func(e *Endpoint, i int)) {
		all.Go(func() {
			for i := range 500 {
				f(endpoints[i%3], i)
			}
		})
	}
	for w := range 2 {
		each(func(e *Endpoint, i int) {
			s := e.OpenSeries(result.SeriesID{Endpoint: e.name, Module: fmt.Sprint(w, i%2), Prefix: "cold"}, SeriesOptions{Objectives: &series.Objectives{Share: 0.99}})
			see(s, probeOf(time.Now(), result.Outcomes()[i%3]), i%5 == 0)
			s.Skip(result.SkipBudget, "")
			s.Counts()
			if i%7 == 0 {
				s.Close()
			}
			if i == 499 {
				e.Close()
			}
		})
	}
	each(func(e *Endpoint, _ int) {
		e.ObserveUsers(&users.Reading{Since: time.Now(), At: time.Now(), Objectives: promised(), Counts: [series.NumObjectives]users.Count{bad(1, 1)}})
		e.Status()
		e.Incidents()
		e.Save()
	})
	each(func(e *Endpoint, i int) {
		_ = e.Mute(time.Minute, "r")
		if i%2 == 0 {
			e.Unmute()
		}
	})
	each(func(*Endpoint, int) { mutesOf(t, shared.Mutes) })
	all.Wait()
}
