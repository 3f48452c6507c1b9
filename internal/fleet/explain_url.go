package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
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
	m := &memory{endpoint: t.Endpoint, identity: &identity{known: page.Known{Model: t.Endpoint.Model}}}
	began := time.Now()
	for range times {
		stop := m.watch(ctx, pages)
		results := p.Run(ctx, 0)
		stop()
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("explain %s: %w", t.Endpoint.URL, err)
		}
		m.take(results)
	}
	return explained(m.evidence(m.ownState(began), time.Now(), nil, nil)), nil
}

// watch reads pages every second until stop is called, and once then.
func (m *memory) watch(ctx context.Context, pages Reader) (stop func()) {
	read := func() {
		statuses := pages.Scrape(ctx, m.identity.get())
		m.read(present(statuses))
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
func (m *memory) take(all Results) {
	for _, rung := range all {
		if rung.Skip != nil {
			m.skip(rung.Skip.Reason, rung.Skip.Text, time.Now())
		}
		for _, r := range rung.Results {
			m.identity.learn(r)
			m.keep(observe(rung.Target, r, false, false))
		}
	}
}

// keep adds a result to a log of its own.
func (m *memory) keep(o *Observation) {
	log := new(series.Log)
	if r := m.of(variantOf(o.Result).id(o.Target.id())); r != nil {
		log = r.log
	}
	log.Add(&o.Observation)
	m.observe(o, log)
}

// ownState is the state by the kept probes alone.
func (m *memory) ownState(began time.Time) endpointState {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := endpointState{state: health.Waiting, since: began}
	probes, failed, slow := 0, 0, false
	for _, r := range m.series {
		latest := r.latest()
		for i := range latest {
			probes++
			if latest[i].Failed() {
				failed++
			}
		}
		now := r.speed(latest, began)
		slow = slow || now.IsSlow()
	}
	switch {
	case probes == 0:
	case failed == probes:
		s.state = health.Down
	case failed > 0:
		s.state = health.Degraded
	case slow:
		s.state = health.Slow
	default:
		s.state = health.Up
	}
	return s
}
