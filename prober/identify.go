package prober

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

const (
	// extraTimeout limits the questions whose answers a probe can do without.
	extraTimeout = 5 * time.Second
	// askAgain is the least time between two rounds of questions to an
	// endpoint that refuses what was found out before.
	askAgain = time.Minute
)

// identity is what is known of a server. The mutex of its Endpoint guards it.
type identity struct {
	target    target
	skip      *result.Skip // why nothing can be asked; nil where it can
	round     *round       // the questions under way; nil is none
	askedAt   time.Time    // of the latest answers; the zero time before the first
	stale     bool         // something else may be there since
	renamed   bool         // a reply named another model: ask before the next probe
	renamedAt time.Time    // when that was the reason to ask
	heard     string       // the other name that a reply told last
}

// round is one round of questions about the server, which all runs wait for that
// need the answers. It ends when none does.
type round struct {
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

// usable tells whether a probe can be sent without asking first.
func (t *target) usable() bool {
	return t.protocol.Name != "" && (t.model != "" || t.protocol.ModelOptional)
}

// mustAsk tells whether to ask before the next probe.
func (i *identity) mustAsk() bool {
	recent := !i.askedAt.IsZero() && time.Since(i.askedAt) < askAgain
	switch {
	case i.skip != nil:
		return !recent
	case !i.target.usable(), i.askedAt.IsZero(), i.renamed:
		return true
	}
	return i.stale && !recent
}

// identify returns what the endpoint serves, asking the server where needed,
// under the limits of a module. Where a probe can do without the answers,
// unanswered questions change nothing: the probe itself tells more. The error is
// a Skip where the configuration must name the model first.
func (e *Endpoint) identify(ctx context.Context, m *config.Module) (target, error) {
	e.mu.Lock()
	if !e.mustAsk() {
		defer e.mu.Unlock()
		if e.skip != nil {
			return e.target, e.skip
		}
		return e.target, nil
	}
	known, limit := e.target, e.patience(m)
	r := e.join(ctx, limit, time.Duration(m.Timeouts.Connect))
	e.mu.Unlock()
	defer e.leave(r)
	var late <-chan time.Time
	if time.Now().Add(limit).Before(r.end) { // the limit of who began is longer
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-r.done:
		return r.target, r.err
	case <-ctx.Done():
		return known, interrupted(ctx)
	case <-late:
		if known.usable() {
			return known, nil
		}
		return known, r.unanswered(limit)
	}
}

// patience is how long a module waits for answers.
func (i *identity) patience(m *config.Module) time.Duration {
	limit := time.Duration(min(m.Timeouts.Headers, m.Timeout))
	if i.target.usable() {
		return min(limit, extraTimeout)
	}
	return limit
}

// unanswered is the failure of a run that waited for answers up to a limit.
func (r *round) unanswered(limit time.Duration) error {
	if !r.ready.Load() {
		return &failure{outcome: result.TimeoutConnect, cause: &limitError{result.TimeoutConnect, fmt.Sprintf("no connection within %s", limit)}}
	}
	return &failure{outcome: result.TimeoutFirstToken, cause: &limitError{result.TimeoutFirstToken, fmt.Sprintf("no answer to what the server is within %s", limit)}}
}

// join returns the round of questions that is under way, or a new one with these
// limits, for one more run. The Endpoint's mutex must be held.
func (e *Endpoint) join(ctx context.Context, limit, connect time.Duration) *round {
	if e.round == nil {
		// Whoever began may leave before the others.
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		e.round = &round{
			connect: connect, limit: limit, end: time.Now().Add(limit), cancel: cancel,
			done: make(chan struct{}), target: e.target,
		}
		go e.askAll(ctx, e.round, e.target)
	}
	e.round.waiting++
	return e.round
}

// leave takes a run out of a round, which the last one ends.
func (e *Endpoint) leave(r *round) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.waiting--; r.waiting > 0 {
		return
	}
	r.cancel()
	if e.round == r {
		e.round = nil
	}
}

// askAll asks all questions of a round.
func (e *Endpoint) askAll(ctx context.Context, r *round, known target) {
	defer r.cancel()
	var found target
	err := guard(func() (err error) {
		found, err = e.ask(ctx, r, known)
		return err
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	defer close(r.done)
	if e.round != r {
		r.err = err // nobody waits for it
		return
	}
	e.round = nil
	r.err = e.answer(found, err)
	r.target = e.target
}

// answer takes over what was found, or why it was not, and returns the error for
// those who asked.
func (i *identity) answer(found target, err error) error {
	i.askedAt, i.renamed, i.stale = time.Now(), false, err != nil && !settled(err)
	unset, several := errors.AsType[*result.Skip](err)
	switch {
	case several && i.target.model == "":
		i.skip = unset
		return unset
	case err == nil:
		if found.model != i.target.model {
			i.heard = ""
		}
		i.target, i.skip = found, nil
		return nil
	case i.target.usable():
		return nil
	}
	return err
}

// settled tells whether a server that was asked would say the same again.
func settled(err error) bool {
	s, ok := errors.AsType[*statusError](err)
	return ok && s.status/100 == 4 && outcomeOf(err) != result.RateLimited || outcomeOf(err) == result.ProtocolError
}

// learn takes from a result what it tells of the endpoint: after a failure
// another model, or another server, may be there. named is the model that the
// reply names where it is another than was asked for, "" else: the list of the
// server then decides which it is, unless the configuration does.
func (e *Endpoint) learn(r *result.Result, named string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch r.Outcome {
	case result.Success:
		if named != "" && e.cfg.Model == "" && named != e.target.model {
			e.hear(named)
		}
	case result.RateLimited, result.Overloaded, result.Canceled: // busy, and no other than before
	default:
		e.stale = true
	}
}

// hear takes a name that the list of models has not decided about yet. It is
// asked at once the first time, and then at its usual rate: replies may name
// one model after the other.
func (i *identity) hear(named string) {
	if named == i.heard {
		return
	}
	i.heard = named
	if !i.renamedAt.IsZero() && time.Since(i.renamedAt) < askAgain {
		i.stale = true
		return
	}
	i.renamed, i.renamedAt = true, time.Now()
}

// outgrown tells that the model has no room for what is asked, so that the server
// is asked again after a while: another model may be there.
func (e *Endpoint) outgrown() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stale = true
}

// ContextLength returns how many tokens the endpoint's model has room for, prompt
// and answer together, as the server told; 0 is not known.
func (e *Endpoint) ContextLength() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.target.context
}

// ask asks the server what it serves.
func (e *Endpoint) ask(ctx context.Context, r *round, found target) (target, error) {
	if e.cfg.API == "" {
		return e.detect(ctx, r)
	}
	var models []api.ModelInfo
	if found.protocol.Models != nil {
		var err error
		if models, err = e.models(ctx, r, &found.protocol); err != nil && !found.protocol.ModelOptional {
			return target{}, err
		}
	}
	found.engine = cmp.Or(api.EngineOf(models), found.engine)
	var err error
	found.model, err = choose(e.cfg.Model, models, &found.protocol)
	found.context = contextOf(found.model, models)
	return found, err
}
