package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// counter counts results.
type counter struct{ n, before int }

type count int

func (c *counter) Observe(results []*result.Result, _ time.Time) { c.n += len(results) }

func (c *counter) Finding(time.Time) Finding {
	if c.n == 0 {
		return nil
	}
	return count(c.n)
}

func (c *counter) Learned() []Learned {
	return []Learned{{Part: "count", Version: 1, Save: func() any {
		if c.n == 0 {
			return nil
		}
		return c.n
	}, Restore: func(data []byte) error {
		if err := json.Unmarshal(data, &c.before); err != nil || c.before < 0 {
			return errors.New("no count")
		}
		return nil
	}}}
}

func (c count) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, `{"n":%d}`, int(c)), nil }

func (c count) Figures() []Figure { return []Figure{{Label: "n", Value: strconv.Itoa(int(c))}} }

func newCounter() (*Tracker, func() *counter) {
	var latest *counter
	t := NewTracker(time.Now, func() []Estimate {
		latest = new(counter)
		return []Estimate{nil, latest}
	})
	return t, func() *counter { return latest }
}

func of(model string) []*result.Result { return []*result.Result{{Model: model}} }

// What is known of a model is not known of another; an unknown one is the same.
func TestModelChange(t *testing.T) {
	tracker, _ := newCounter()
	if f := tracker.Observe(nil); f != nil {
		t.Errorf("no results give %+v", f)
	}
	for _, step := range []struct {
		model, want string
		n           count
	}{{"", "", 1}, {"a", "a", 2}, {"", "a", 3}, {"a", "a", 4}, {"b", "b", 1}, {"a", "a", 1}} {
		f := tracker.Observe(of(step.model))
		if n, ok := In[count](f); f.Model != step.want || n != step.n || !ok {
			t.Errorf("after %q: model %q with %d, want %q with %d", step.model, f.Model, n, step.want, step.n)
		}
	}
}

// Rungs share a tracker.
func TestConcurrentUse(t *testing.T) {
	tracker, _ := newCounter()
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 200 {
				tracker.Observe(of("m"))
			}
		}()
	}
	for range 4 {
		<-done
	}
	if n, _ := In[count](tracker.Observe(nil)); n != 800 {
		t.Errorf("%d results, want 800", n)
	}
}

// A part that this version does not know, and one that cannot be, begin again; the rest
// is taken up.
func TestTrackerTakesUpWhatItCan(t *testing.T) {
	tracker, latest := newCounter()
	if saved, err := tracker.Save(); saved != nil || err != nil {
		t.Errorf("saved %v, %v of nothing", saved, err)
	}
	err := tracker.Restore(&SavedTracker{Parts: []Saved{
		{Part: "unheard", Version: 1, Data: json.RawMessage(`1`)},
		{Part: "count", Version: 9, Data: json.RawMessage(`2`)},
		{Part: "count", Version: 1, Data: json.RawMessage(`-3`)},
		{Part: "count", Version: 1, Data: json.RawMessage(`4`)},
	}})
	if err == nil || strings.Count(err.Error(), "restore") != 3 || latest().before != 4 {
		t.Errorf("error %v, restored %d", err, latest().before)
	}
}

// The documents of findings are one object.
func TestFindingsAreOneObject(t *testing.T) {
	for want, f := range map[string]*Findings{
		`{}`:            {All: []Finding{nil}},
		`{"n":1}`:       {All: []Finding{nil, count(1)}},
		`{"n":1,"n":2}`: {All: []Finding{count(1), nil, count(2)}},
	} {
		if got, err := json.Marshal(f); err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}
