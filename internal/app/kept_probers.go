package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/web"
)

// keptProbers are the probers of configured endpoints. They stay from one
// request to the next, because they learn: what the endpoint serves, and how
// many tokens a prompt has there. It is safe for concurrent use.
type keptProbers struct {
	dialer *prober.Dialer

	mu      sync.Mutex
	probers map[keptKey]*keptProber
	closed  bool
}

type keptKey struct {
	endpoint *config.Endpoint
	module   *config.Module
	name     string // of the module
}

// keptProber is a prober and the right to use it, which one request has.
type keptProber struct {
	turn   chan struct{}
	prober *targetProber
}

func newKeptProbers(d *prober.Dialer) *keptProbers {
	return &keptProbers{dialer: d, probers: map[keptKey]*keptProber{}}
}

// probe probes t, a target at the configured endpoint e. The limit, 0 for that
// of the module, includes the wait for other requests' probes of the same.
func (k *keptProbers) probe(ctx context.Context, e *config.Endpoint, t *probeTarget, limit time.Duration) ([]rungResults, error) {
	kept, err := k.get(e, t)
	if err != nil {
		return nil, err
	}
	start, wait := time.Now(), limit
	if wait == 0 {
		wait = time.Duration(t.module.Timeout)
	}
	if err := kept.take(ctx, wait); err != nil {
		return nil, err
	}
	defer func() { <-kept.turn }()
	if limit > 0 {
		limit = max(1, limit-time.Since(start))
	}
	return kept.prober.run(ctx, limit), nil
}

// get returns the prober of a target, a new one for the first request.
func (k *keptProbers) get(e *config.Endpoint, t *probeTarget) (*keptProber, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, errors.New("probe on request: the exporter stops")
	}
	key := keptKey{e, t.module, t.name}
	if kept := k.probers[key]; kept != nil {
		return kept, nil
	}
	p, err := t.newProber(k.dialer)
	if err != nil {
		return nil, err
	}
	kept := &keptProber{turn: make(chan struct{}, 1), prober: p}
	k.probers[key] = kept
	return kept, nil
}

// keep closes the probers that are no longer wanted. One that a request uses stays
// until the next time.
func (k *keptProbers) keep(wanted func(keptKey) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.probers, func(key keptKey, kept *keptProber) bool {
		if wanted(key) {
			return false
		}
		select {
		case kept.turn <- struct{}{}: // for good: a request that waits gives up
			kept.prober.close()
			return true
		default:
			return false
		}
	})
}

// take waits until no other request uses the prober.
func (k *keptProber) take(ctx context.Context, limit time.Duration) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-late.C:
		return &web.Refusal{Busy: true, Reason: fmt.Sprintf("another probe of this endpoint and module did not end within %s", limit)}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close closes the probers. It waits for the probes that run, whose contexts
// must have ended, and keeps the turns, so that none is used again.
func (k *keptProbers) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, kept := range k.probers {
		kept.turn <- struct{}{}
		kept.prober.close()
	}
}
