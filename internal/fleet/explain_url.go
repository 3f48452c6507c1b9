package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/prober"
)

// ExplainOnce probes a target so many times, reads the pages of its servers meanwhile,
// and returns what that shows. What is usual there it cannot know.
func ExplainOnce(ctx context.Context, t Target, times int) (*explain.Report, error) {
	dialer := prober.NewDialer()
	defer dialer.Close()
	p, err := t.NewProber(dialer)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	mappings, err := page.NewMappings(nil)
	if err != nil {
		return nil, err
	}
	pages, err := network{dialer: dialer}.Reader(t.Endpoint, mappings)
	if err != nil {
		return nil, err
	}
	defer pages.Close()
	began := time.Now()
	m := &once{memory: explain.NewMemory(t.Endpoint), identity: identity{known: page.Known{Model: t.Endpoint.Model}}, logs: map[result.SeriesID]*series.Log{}}
	for range times {
		stop := m.watch(ctx, pages)
		results := p.Run(ctx, 0)
		stop()
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("explain %s: %w", t.Endpoint.URL, err)
		}
		m.take(results)
	}
	e := &explain.Evidence{At: time.Now(), Condition: explain.Condition{State: m.memory.StateOfProbes(began), Since: began}, Engine: m.identity.get().Engine}
	m.memory.Complete(e, explain.Senses{})
	return explained(e), nil
}

// once is what is known of an endpoint that is asked a few times.
type once struct {
	memory   *explain.Memory
	identity identity
	logs     map[result.SeriesID]*series.Log
}

// watch reads pages every second until stop is called, and once then.
func (o *once) watch(ctx context.Context, pages Reader) (stop func()) {
	read := func() {
		statuses := pages.Scrape(ctx, o.identity.get())
		o.memory.Read(present(statuses))
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.Tick(time.Second); ; {
			select {
			case <-tick:
				read()
			case <-ended:
				read()
				return
			}
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}

// take takes the results of a run.
func (o *once) take(all Results) {
	for _, rung := range all {
		if rung.Skip != nil {
			o.memory.Skip(rung.Skip.Reason, rung.Skip.Text, time.Now())
		}
		for _, r := range rung.Results {
			o.identity.learn(r)
			of := variantOf(r).id(rung.Target.id())
			if o.logs[of] == nil {
				o.logs[of] = new(series.Log)
			}
			seen := observe(rung.Target, r, false, false)
			o.logs[of].Add(&seen.Observation)
			seen.remember(o.memory, o.logs[of])
		}
	}
}

// remember adds the result, which is in a log, to what explains the state of its endpoint.
func (o *Observation) remember(m *explain.Memory, log *series.Log) {
	id := variantOf(o.Result).id(o.Target.id())
	m.Observe(&o.Observation, explain.Series{ID: id, Title: titleOf(id, o.Target.Module), Objectives: o.Target.objectives(), Log: log})
}

// titleOf names a series so that those of a module differ.
func titleOf(id result.SeriesID, m *config.Module) string {
	parts := []string{id.Module}
	if len(variantsOf(m)) > 1 && len(m.Concurrency) == 0 {
		parts = append(parts, id.Prefix)
	}
	for _, length := range []string{id.InputTokens, id.OutputTokens} {
		if length != "" {
			parts = append(parts, length)
		}
	}
	return strings.Join(parts, " ")
}
