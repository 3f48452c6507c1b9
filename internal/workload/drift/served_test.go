package drift

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// servedLab observes answers, one every 15 s.
type servedLab struct {
	Served
	t     *testing.T
	now   time.Time
	turns int
}

func newServedLab(t *testing.T) *servedLab {
	return &servedLab{t: t, now: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
}

// answers observes n answers of a model, and returns the change by then.
func (l *servedLab) answers(n int, model string) *Change {
	return l.each(n, func() result.Result { return result.Result{Model: model} })
}

// replies observes n answers to requests for the model "alias" whose replies name another.
func (l *servedLab) replies(n int, model string) *Change {
	return l.each(n, func() result.Result { return result.Result{Model: "alias", Answer: result.Answer{Model: model}} })
}

func (l *servedLab) each(n int, answer func() result.Result) *Change {
	for range n {
		l.now = l.now.Add(15 * time.Second)
		r := answer()
		r.Start, r.Outcome = l.now, cmp.Or(r.Outcome, result.Success)
		before := l.Change()
		if l.Observe(&r); (before == nil) != (l.Change() == nil) {
			l.turns++
		}
	}
	return l.Change()
}

// nextProcess goes on with what was saved.
func (l *servedLab) nextProcess() *servedLab {
	l.t.Helper()
	text, err := json.Marshal(l.Save())
	if err != nil {
		l.t.Fatal(err)
	}
	var saved SavedServed
	next := &servedLab{t: l.t, now: l.now, turns: l.turns}
	if err := json.Unmarshal(text, &saved); err != nil {
		l.t.Fatal(err)
	}
	if err := next.Restore(&saved, l.now); err != nil {
		l.t.Fatal(err)
	}
	return next
}

func (l *servedLab) want(when string, c *Change, since time.Time, from, to string) {
	l.t.Helper()
	if c == nil || *c != (Change{Source: SourceModel, Since: since, From: from, To: to}) {
		l.t.Errorf("%s: %+v, want %s instead of %s since %v", when, c, to, from, since)
	}
}

func (l *servedLab) wantNone(when string, c *Change) {
	l.t.Helper()
	if c != nil {
		l.t.Errorf("%s: %+v", when, c)
	}
}

// A model that is exchanged is reported since its first answer until the usual one is back, over restarts.
func TestAnotherModelIsReportedUntilTheUsualOneIsBack(t *testing.T) {
	l := newServedLab(t)
	l.wantNone("at first", l.answers(100, "a"))
	began := l.now.Add(15 * time.Second)
	l.wantNone("within three minutes", l.answers(12, "b"))
	l.want("after them", l.answers(1, "b"), began, "a", "b")
	for range 3 {
		l = l.nextProcess()
		l.want("after a restart", l.Change(), began, "a", "b")
		l.want("a day later", l.answers(24*240, "b"), began, "a", "b")
	}
	l.want("a third", l.answers(100, "c"), began, "a", "b")
	l.want("a few of the usual", l.answers(4, "a"), began, "a", "b")
	l.wantNone("the usual one", l.answers(1, "a"))
	l.wantNone("from then on", l.answers(1000, "a"))
	if l.turns != 2 {
		t.Errorf("it turned %d times, want there and back", l.turns)
	}
	began = l.now.Add(15 * time.Second)
	l.want("the same again", l.answers(100, "b"), began, "a", "b")
}

// Replies are watched beside the model that is asked for, which stays the same where the configuration names it.
func TestTheModelOfRepliesIsWatched(t *testing.T) {
	l := newServedLab(t)
	l.wantNone("at first", l.replies(100, "a-2025-01-01"))
	l.wantNone("replies without a name", l.answers(100, "alias"))
	began := l.now.Add(15 * time.Second)
	l.want("another", l.replies(13, "a-2026-01-01"), began, "a-2025-01-01", "a-2026-01-01")
	l.want("replies without a name", l.answers(100, "alias"), began, "a-2025-01-01", "a-2026-01-01")
	l.wantNone("back", l.replies(5, "a-2025-01-01"))
}

// After a week another model is the usual one, and the one before is not.
func TestAnotherModelIsUsualAfterAWeek(t *testing.T) {
	l := newServedLab(t)
	l.answers(100, "a")
	const week = 7 * 24 * 240
	if l.answers(week-1, "b") == nil {
		t.Error("usual before a week was over")
	}
	l.wantNone("after a week", l.answers(2, "b"))
	l.wantNone("later", l.answers(100, "b"))
	began := l.now.Add(15 * time.Second)
	l.want("the old one", l.answers(100, "a"), began, "b", "a")
}

// What the configuration accepts is no change: before it begins, and from then on when it has.
func TestAnAcceptedModelIsNoChange(t *testing.T) {
	l := newServedLab(t)
	l.answers(100, "a")
	l.Accept("b", "c")
	l.wantNone("planned", l.answers(1000, "b"))
	l.Accept()
	l.wantNone("no longer in the configuration", l.answers(1000, "b"))
	if l.answers(100, "d") == nil {
		t.Fatal("no change")
	}
	l.Accept("d")
	l.wantNone("accepted later", l.Change())
	l.wantNone("and after the next answers", l.answers(100, "d"))
	if l.answers(100, "e") == nil {
		t.Fatal("no change")
	}
	next := newServedLab(t) // the endpoint after a reload
	next.Accept("e")
	if err := next.Restore(l.Save(), l.now); err != nil {
		t.Fatal(err)
	}
	next.wantNone("accepted by a reload", next.Change())
}

// A router may serve several models in turns, and all of them are usual; without one of them nothing has changed.
func TestModelsInTurnsAreNoChange(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	l := newServedLab(t)
	of := func(models ...string) func() result.Result {
		return func() result.Result { return result.Result{Model: models[random.IntN(len(models))]} }
	}
	l.each(1000, of("a", "b", "c"))
	l.each(1000, of("a", "c"))
	l.each(1000, of("c"))
	l.each(1000, of("a", "b", "c"))
	l.each(10_000, of("a", "b", "c", "d")) // one more beside them, for two days
	if l.turns != 0 {
		t.Errorf("%d changes", l.turns)
	}
	if c := l.each(100, of("d")); c == nil {
		t.Error("the one that came last answers alone, and that is no change")
	}
}

// While replicas are replaced one after the other, the one that starts may answer by another name, such as the path of the
// weights. That ends at the same model, and is no change. What ends at another model is one, since that answers alone.
func TestARollingUpdateToTheSameModelIsNoChange(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 6))
		l := newServedLab(t)
		l.answers(100, "a")
		const replicas = 2
		mixed := func(other int) { // for five minutes
			l.each(20, func() result.Result {
				if random.IntN(replicas) < other {
					return result.Result{Model: "b"}
				}
				return result.Result{Model: "a"}
			})
		}
		for range replicas {
			mixed(1)
		}
		l.answers(100, "a")
		if l.turns != 0 {
			t.Fatalf("seed %d: it turned %d times", seed, l.turns)
		}
		for other := range replicas {
			mixed(other)
		}
		if c := l.answers(20, "b"); c == nil || c.To != "b" || l.turns != 1 {
			t.Errorf("seed %d: at the end of an update to another model %+v, %d turns", seed, c, l.turns)
		}
	}
}

// A server that makes up a name for each answer has no usual one; and what is kept is bounded.
func TestNamesThatAreMadeUp(t *testing.T) {
	l := newServedLab(t)
	n := 0
	made := func() result.Result { n++; return result.Result{Model: fmt.Sprint("m", n)} }
	l.wantNone("from the beginning", l.each(1000, made))
	l.wantNone("steady", l.answers(100, "a"))
	if l.each(1000, made) == nil {
		t.Error("names that are made up are usual")
	}
	if got := len(l.asked.All); got > maxNames {
		t.Errorf("%d names are kept", got)
	}
	l.wantNone("the usual one again", l.answers(5, "a"))
}

// Only an answer shows which model answers.
func TestFailuresNameNoModel(t *testing.T) {
	l := newServedLab(t)
	l.answers(100, "a")
	for _, o := range result.Outcomes() {
		c := l.each(100, func() result.Result { return result.Result{Model: "b", Outcome: o} })
		if answered := o == result.Success || o == result.CheckFailed; (c != nil) != answered {
			t.Errorf("%s: %+v", o, c)
		}
		l.answers(5, "a")
	}
}

func TestServedThatCannotBeRestored(t *testing.T) {
	const good = `"all":[{"name":"a","first":"2026-11-23T12:00:00Z","last":"2026-11-23T12:01:00Z","usual":true}],"looked":10`
	f := func(text string, want bool) {
		t.Helper()
		var saved SavedServed
		if err := json.Unmarshal([]byte(`{"asked":{`+text+`}}`), &saved); err != nil {
			t.Fatal(err)
		}
		var s Served
		err := s.Restore(&saved, time.Date(2026, 11, 23, 13, 0, 0, 0, time.UTC))
		if (err == nil) != want || (s.Save() != nil) != want {
			t.Errorf("%s: %v, %+v", text, err, s.Save())
		}
	}
	f(good, true)
	f(good+`,"change":{"source":"model","since":"2026-11-23T12:00:00Z","from":"a","to":"b"}`, true)
	f(good+`,"change":{"source":"model","since":"2026-11-23T14:00:00Z","from":"a","to":"b"}`, false)
	f(good+`,"change":{"source":"logprob","since":"2026-11-23T12:00:00Z","to":"b"}`, false)
	f(`"all":[{"name":"a","first":"2026-11-23T12:00:00Z","last":"2026-11-23T14:00:00Z","usual":true}],"looked":10`, false)
	f(`"all":[{"name":"","first":"2026-11-23T12:00:00Z","last":"2026-11-23T12:00:00Z","usual":true}],"looked":10`, false)
	f(`"all":[{"name":"a","first":"2026-11-23T12:00:00Z","last":"2026-11-23T12:00:00Z"}],"looked":10`, false)
	f(`"all":[{"name":"a","first":"2026-11-23T12:00:00Z","last":"2026-11-23T12:00:00Z","usual":true}],"looked":11`, false)
}
