package prober

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

const (
	// extraTimeout limits the questions whose answers a probe can do without.
	extraTimeout = 5 * time.Second
	// lookupInterval is the least time between two lookups of an endpoint that refuses what was detected before.
	lookupInterval = time.Minute
	// listAge is after how long a list of models is asked for again, which may have a date of retirement by then.
	listAge = 24 * time.Hour
)

// identity is what is known of a server. The mutex of its Endpoint guards it.
type identity struct {
	target     target
	skip       *result.Skip // why nothing can be asked; nil where it can
	lookup     *lookup      // under way; nil is none
	lookedUpAt time.Time    // of the latest answers; the zero time before the first
	stale      bool         // something else may be there since
	renamed    bool         // a reply named another model: look up before the next probe
	renamedAt  time.Time    // when that was the reason of a lookup
	otherName  string       // the latest other model that a reply named
}

// lookup is one round of questions to the server about what it serves. All runs
// that need the answers wait for it; it ends when none does.
type lookup struct {
	connect time.Duration // limit of a connection
	limit   time.Duration // of all questions together
	end     time.Time     // when that is over
	ready   atomic.Bool   // a connection was
	cancel  context.CancelFunc
	waiting int // runs; guarded by the Endpoint's mutex

	done   chan struct{} // closed at the end; what follows is set before
	target target
	err    error
}

// usable reports whether a probe can be sent without a lookup.
func (t *target) usable() bool {
	return t.protocol != nil && (t.model != "" || t.protocol.ModelOptional)
}

// needsLookup reports whether to look up what the endpoint serves before the next probe.
func (i *identity) needsLookup() bool {
	recent := !i.lookedUpAt.IsZero() && time.Since(i.lookedUpAt) < lookupInterval
	switch {
	case i.skip != nil:
		return !recent
	case !i.target.usable(), i.lookedUpAt.IsZero(), i.renamed:
		return true
	}
	return i.stale && !recent
}

// identify returns what the endpoint serves, by a lookup where needed, under the limits of a module. One that fails
// changes nothing where a probe can do without. The error is a Skip where the configuration must name the model first.
func (e *Endpoint) identify(ctx context.Context, m *config.Module) (target, error) {
	e.mu.Lock()
	e.stale = e.stale || e.cfg.API != "" && time.Since(e.lookedUpAt) >= listAge // what is detected stays
	if !e.needsLookup() {
		defer e.mu.Unlock()
		if e.skip != nil {
			return e.target, e.skip
		}
		return e.target, nil
	}
	known, limit := e.target, e.patience(m)
	l := e.join(ctx, limit, time.Duration(m.Timeouts.Connect))
	e.mu.Unlock()
	defer e.leave(l)
	var late <-chan time.Time
	if time.Now().Add(limit).Before(l.end) { // the limit of who began is longer
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-l.done:
		return l.target, l.err
	case <-ctx.Done():
		return known, interrupted(ctx)
	case <-late:
		if known.usable() {
			return known, nil
		}
		why := &limitError{result.TimeoutFirstToken, "server not identified within %s", limit}
		if !l.ready.Load() {
			why = &limitError{result.TimeoutConnect, "no connection within %s", limit}
		}
		return known, why.failure()
	}
}

func (i *identity) patience(m *config.Module) time.Duration {
	limit := time.Duration(min(m.Timeouts.Headers, m.Timeout))
	if i.target.usable() {
		return min(limit, extraTimeout)
	}
	return limit
}

// join returns the lookup that is under way, or a new one with these limits, for
// one more run. The Endpoint's mutex must be held.
func (e *Endpoint) join(ctx context.Context, limit, connect time.Duration) *lookup {
	if e.lookup == nil {
		// Whoever began may leave before the others.
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		e.lookup = &lookup{
			connect: connect, limit: limit, end: time.Now().Add(limit), cancel: cancel,
			done: make(chan struct{}), target: e.target,
		}
		go e.runLookup(ctx, e.lookup, e.target)
	}
	e.lookup.waiting++
	return e.lookup
}

// leave takes a run out of a lookup, which the last one ends.
func (e *Endpoint) leave(l *lookup) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.waiting--; l.waiting > 0 {
		return
	}
	l.cancel()
	if e.lookup == l {
		e.lookup = nil
	}
}

// runLookup asks the server what it serves, for all that wait for the lookup.
func (e *Endpoint) runLookup(ctx context.Context, l *lookup, known target) {
	defer l.cancel()
	var found target
	err := guard(func() (err error) {
		found, err = e.findTarget(ctx, l, known)
		return err
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	defer close(l.done)
	if e.lookup != l {
		l.err = err // no run waits for it
		return
	}
	e.lookup = nil
	l.err = e.apply(found, err)
	l.target = e.target
}

// apply takes over what a lookup found, or why it found nothing, and returns the error for the runs that waited for it.
func (i *identity) apply(found target, err error) error {
	unset, several := errors.AsType[*result.Skip](err)
	i.lookedUpAt, i.renamed = time.Now(), false
	i.stale = err != nil && !settled(err) && !(several && i.target.model != "") // probes go on with the model that is known
	switch {
	case several && i.target.model == "":
		i.skip = unset
		return unset
	case err == nil:
		if found.model != i.target.model {
			i.otherName = ""
		}
		i.target, i.skip = found, nil
		return nil
	case i.target.usable():
		return nil
	}
	return err
}

// settled reports whether a server would answer in the same way again.
func settled(err error) bool {
	s, ok := errors.AsType[*statusError](err)
	return ok && s.status/100 == 4 && OutcomeOf(err) != result.RateLimited || OutcomeOf(err) == result.ProtocolError
}

// learn takes from a result what it shows of the endpoint: after a failure another model or server may be
// there. named is another model than that of the request that the reply names, or "": then the server's list
// decides, unless the configuration does.
func (e *Endpoint) learn(r *result.Result, named string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch r.Outcome {
	case result.Success:
		if named != "" && e.cfg.Model == "" && named != e.target.model {
			e.learnName(named)
		}
	case result.RateLimited, result.Overloaded, result.Canceled: // busy, and no other than before
	default:
		e.stale = true
	}
}

// learnName takes a name that the list of models has not decided about yet, at once the first time and then at
// the usual rate: replies may name one model after the other.
func (i *identity) learnName(named string) {
	if named == i.otherName {
		return
	}
	i.otherName = named
	if !i.renamedAt.IsZero() && time.Since(i.renamedAt) < lookupInterval {
		i.stale = true
		return
	}
	i.renamed, i.renamedAt = true, time.Now()
}

// outgrown marks that the model has no room for a question, so that there is a
// lookup after a while: another model may be there.
func (e *Endpoint) outgrown() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stale = true
}

// ContextLength returns how many tokens the endpoint's model has room for, prompt
// and answer together, as the server lists it; 0 is not known.
func (e *Endpoint) ContextLength() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.target.context
}

func (e *Endpoint) findTarget(ctx context.Context, l *lookup, found target) (target, error) {
	if e.cfg.API == "" {
		return e.detect(ctx, l)
	}
	var models []api.ModelInfo
	var err error
	if found.protocol.Models != nil {
		models, err = e.models(ctx, l, found.protocol)
		switch {
		case err != nil && !found.protocol.ModelOptional:
			return target{}, err
		case err != nil && found.model != "": // what is known stays
			return found, nil
		}
	}
	found.engine = cmp.Or(api.EngineOf(models), found.engine)
	found.model, err = choose(e.cfg.Model, models, found.protocol)
	found.listed(models)
	return found, err
}
