package fleet

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

const modelChangedFamily = "inference_endpoint_model_changed_timestamp_seconds"

// seldom has no endpoint go stale by probes that lie back an hour.
const seldom = "modules: {m: {interval: 1h}}\n"

// namedBy has the endpoint answer by the name of a model, once a minute and for so many minutes until a time.
func (l *lab) namedBy(model string, minutes int, until time.Time) {
	task := l.endpoint("e").tasks[0]
	for i := range minutes {
		r := served(until.Add(time.Duration(i-minutes)*time.Minute), time.Second/5)
		r.Model = model
		task.take(r, false, false)
	}
}

// wantModelChanged compares the series of the change, the first finding and its state.
func (l *lab) wantModelChanged(when string, since time.Time, source, from, to string) {
	l.t.Helper()
	labels := []string{"endpoint", "e", "source", source}
	if from != "" {
		labels = append(labels, "from", from, "to", to)
	}
	if got := l.page().Sum(modelChangedFamily, labels...); got != float64(since.Unix()) {
		l.t.Errorf("%s: since %v, want %v", when, got, float64(since.Unix()))
	}
	if r, _ := l.Explain("e"); r.State != string(health.Up) || r.Findings[0].Cause != explain.ModelChanged {
		l.t.Errorf("%s: explained by %+v", when, r)
	}
}

func (l *lab) wantUsualModel(when string) {
	l.t.Helper()
	if l.page().Has(modelChangedFamily) {
		l.t.Errorf("%s: %s is there", when, modelChangedFamily)
	}
	if r, _ := l.Explain("e"); r.Findings[0].Cause != explain.Healthy {
		l.t.Errorf("%s: explained by %+v", when, r)
	}
}

// A model of another name is reported until the usual one is back, and over a restart and a reload.
func TestARenamedModelIsReportedUntilItIsBack(t *testing.T) {
	const config = seldom + "endpoints: [{name: e, url: 'http://127.0.0.1:9', modules: [m]}]"
	l := workLab(t, config)
	now := time.Now().Truncate(time.Second)
	l.namedBy("a", 60, now.Add(-30*time.Minute))
	l.wantUsualModel("before")
	l.namedBy("b", 10, now.Add(-20*time.Minute))
	since := now.Add(-30 * time.Minute)
	l.wantModelChanged("after ten minutes", since, "model", "a", "b")
	l, _ = l.nextProcess(config, asItWas)
	if got := l.page().Sum(modelChangedFamily, "from", "a", "to", "b"); got != float64(since.Unix()) {
		t.Errorf("before the first probe after a restart: since %v", got)
	}
	l.namedBy("b", 1, now.Add(-10*time.Minute))
	l.wantModelChanged("after a restart", since, "model", "a", "b")
	if err := l.Apply(planOf(parse(t, seldom+"endpoints: [{name: e, url: 'http://127.0.0.1:9', modules: [m], labels: {team: x}}]"))); err != nil {
		t.Fatal(err)
	}
	l.namedBy("b", 1, now.Add(-9*time.Minute))
	l.wantModelChanged("after a reload", since, "model", "a", "b")
	l.namedBy("a", 5, now)
	l.wantUsualModel("when it is back")
}

// The row of the endpoint has the change for as long.
func TestARenamedModelIsInTheRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		if err := l.Apply(planOf(parse(t, seldom+"endpoints: [{name: e, url: 'http://127.0.0.1:9', modules: [m]}]"))); err != nil {
			t.Fatal(err)
		}
		go func() { _ = l.WatchCauses(t.Context()) }()
		changed := func() *status.ModelChange {
			time.Sleep(causesAge + time.Second)
			d, _ := l.Board.Detail("e")
			return d.ModelChanged
		}
		now := time.Now()
		l.namedBy("a", 60, now.Add(-30*time.Minute))
		if got := changed(); got != nil {
			t.Errorf("before: %+v", got)
		}
		l.namedBy("b", 10, now.Add(-20*time.Minute))
		if got, want := changed(), (status.ModelChange{Since: float64(now.Add(-30 * time.Minute).Unix()), Source: "model", From: "a", To: "b"}); got == nil || *got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		l.namedBy("a", 5, now)
		if got := changed(); got != nil {
			t.Errorf("when it is back: %+v", got)
		}
	})
}

// A change is accepted by the configuration, before it and after it.
func TestARenamedModelIsAccepted(t *testing.T) {
	apply := func(l *lab, accepted string) {
		t.Helper()
		if err := l.Apply(planOf(parse(t, seldom+"endpoints: [{name: e, url: 'http://127.0.0.1:9', modules: [m], "+accepted+"}]"))); err != nil {
			t.Fatal(err)
		}
	}
	l := newLab(t)
	apply(l, "accept_models: [b]")
	now := time.Now().Truncate(time.Second)
	l.namedBy("a", 30, now.Add(-40*time.Minute))
	l.namedBy("b", 10, now.Add(-30*time.Minute))
	l.wantUsualModel("accepted before")
	l.namedBy("c", 10, now.Add(-20*time.Minute))
	l.wantModelChanged("another", now.Add(-30*time.Minute), "model", "b", "c")
	apply(l, "accept_models: [b, c]")
	l.namedBy("c", 1, now.Add(-10*time.Minute))
	l.wantUsualModel("accepted afterwards")
	l.namedBy("d", 8, now)
	l.wantModelChanged("another", now.Add(-8*time.Minute), "model", "c", "d")
	apply(l, "model: d")
	l.namedBy("d", 10, now)
	l.wantUsualModel("named as the model to ask for")
}

// Replies that name another model while the configuration names the one to ask for are a change, too.
func TestAnotherModelInRepliesIsReported(t *testing.T) {
	l := workLab(t, seldom+"endpoints: [{name: e, url: 'http://127.0.0.1:9', modules: [m], model: alias}]")
	now := time.Now().Truncate(time.Second)
	task := l.endpoint("e").tasks[0]
	for i := range 60 {
		r := served(now.Add(time.Duration(i-60)*time.Minute), time.Second/5)
		r.Model, r.Answer = "alias", result.Answer{Model: map[bool]string{false: "m-1", true: "m-2"}[i >= 50]}
		task.take(r, false, false)
	}
	l.wantModelChanged("ten minutes of another", now.Add(-10*time.Minute), "model", "m-1", "m-2")
}

// Other weights under the same name are reported until the score of the reference passage is back, over a restart.
func TestOtherWeightsAreReportedUntilTheyAreBack(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		o := testlab.Swift()
		o.LogprobNoise = 0.002
		w := testlab.NewWitness(t, o)
		config := fmt.Sprintf(`
modules: {reference: {reference_logprob: true}}
endpoints: [{name: e, url: %s, modules: [reference]}]`, w.URL)
		l := workLab(t, config)
		l.times(80, "e")
		l.wantUsualModel("before")
		w.SetWeights("", -0.02, 1)
		began := time.Now()
		l.until(20, "e", "change", func(p metricsPage) bool { return p.Has(modelChangedFamily, "source", "logprob") })
		if since := l.page().Sum(modelChangedFamily); since < float64(began.Unix()) || since > float64(time.Now().Unix()+1) {
			t.Errorf("since %v, want %v", since, began.Unix())
		}
		before := l.page().Sum(modelChangedFamily)
		l, _ = l.nextProcess(config, asItWas)
		if got := l.page().Sum(modelChangedFamily); got != before {
			t.Errorf("after a restart since %v, want %v", got, before)
		}
		if p := l.times(100, "e"); p.Sum(modelChangedFamily) != before {
			t.Errorf("a hundred probes later since %v, want %v", p.Sum(modelChangedFamily), before)
		}
		w.SetWeights("", 0, 1)
		l.until(60, "e", "end of the change", func(p metricsPage) bool { return !p.Has(modelChangedFamily) })
		l.times(60, "e")
		if l.page().Has(modelChangedFamily) {
			t.Error("it is there again")
		}
	})
}
