package prober

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// maxUsers bounds the connections that are kept: a load has no more users at once.
const maxUsers = 2048

// Users sends the requests of many users to one endpoint, beside each other, as a probe sends its one: by the same
// clocks, under the same limits. Answers are neither looked at nor kept. Its methods are safe for concurrent use.
type Users struct {
	served run // prober and target; it makes no request itself

	mu  sync.Mutex // guards the questions, whose lengths are learnt from all
	all [maxUsers]user
}

// user is one who keeps a connection.
type user struct {
	mu        sync.Mutex // held by the request that has the connection
	transport http.RoundTripper
	kept      *conn
}

// sized is a source that makes questions of given lengths in tokens.
type sized interface {
	workload.Source
	NextOf(input, output, context int) workload.Question
}

// Users finds out what to ask, once for all of them. It returns a Skip where this machine or the configuration does not
// allow to ask, and an error where the endpoint does not answer. Users must be closed before the Prober is.
func (p *Prober) Users(ctx context.Context) (*Users, *result.Skip, error) {
	if why := p.lacksDescriptors(); why != nil {
		return nil, why, nil
	}
	u := &Users{served: run{prober: p}}
	ctx = within(ctx)
	err := guard(func() error { return u.served.identify(ctx) })
	if why, ok := errors.AsType[*result.Skip](err); ok {
		return nil, p.shown(why), nil
	}
	if err != nil {
		return nil, nil, presentable(err, p.endpoint.secrets)
	}
	return u, nil, nil
}

// spareDescriptors are those that a load leaves to others, such as who scrapes meanwhile.
const spareDescriptors = 64

// lacksDescriptors returns a Skip where this process may not open a connection for each user.
func (p *Prober) lacksDescriptors() *result.Skip {
	free, ok := freeDescriptors()
	if load := p.module.Load; ok && load != nil && len(load.Users) > 0 && free < slices.Max(load.Users)+spareDescriptors {
		return skip(result.SkipResources, "%d users at once take a connection each, and this process may open %d more files or connections, %d of them for others: raise its limit (ulimit -n, LimitNOFILE of systemd)",
			slices.Max(load.Users), free, spareDescriptors)
	}
	return nil
}

// Close drops the kept connections, but for those of requests that are under way.
func (u *Users) Close() {
	for i := range u.all {
		who := &u.all[i]
		if !who.mu.TryLock() {
			continue
		}
		foreign.CloseIdle(who.transport)
		if who.kept != nil {
			_ = who.kept.Close()
		}
		who.mu.Unlock()
	}
}

// Ask sends a request of the user of that index, and returns what came of it. planned is when it was to be sent, from
// which its times are counted; the zero time is now. lengths are those of the question, nil is by the module. It ends
// with ctx, as Canceled. Err is a *result.Skip where this machine or the configuration, and not the endpoint, is why.
func (u *Users) Ask(ctx context.Context, index int, planned time.Time, lengths *config.TracedRequest) *result.Result {
	ctx = within(ctx)
	p := u.served.prober
	waitUntil(planned, ctx.Done())
	one := &run{prober: p, served: u.served.served, first: p.newResult(planned)}
	q, why := u.next(one, lengths)
	if why != nil {
		res := one.newResult()
		finish(res, why, p.endpoint.secrets)
		return res
	}
	req := u.send(ctx, one, q, index)
	if wasClosed(req.result) && ctx.Err() == nil {
		one.first = p.newResult(planned)
		req = u.send(ctx, one, q, index)
	}
	u.mu.Lock()
	_ = req.learn() // a prompt of another length than meant is as good a load, and the next is nearer to it
	u.mu.Unlock()
	u.blame(ctx, req.result)
	return req.result
}

// closedWithin is how soon a request fails whose kept connection was closed before it came, since it had been idle.
const closedWithin = time.Second

// wasClosed reports whether the server seems to have closed a kept connection as the request was on its way, as vLLM
// does after five seconds without one. Users' clients ask again then.
func wasClosed(r *result.Result) bool {
	f, ok := errors.AsType[*failure](r.Err)
	return ok && f.noReply && f.outcome == result.Truncated && r.Reused && r.Timing.Duration < closedWithin
}

// waitUntil waits until a time, or the end of what needs it.
func waitUntil(at time.Time, ended <-chan struct{}) {
	wait := time.Until(at)
	if wait <= 0 {
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ended:
	}
}

// next draws a question, or returns why not to ask it.
func (u *Users) next(one *run, lengths *config.TracedRequest) (workload.Question, *result.Skip) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if lengths == nil {
		return one.next()
	}
	return one.nextOf(lengths.Input, lengths.Output)
}

// send asks a question on the connection that the user keeps, unless an earlier request of that user still has it. With
// OAuth2 each transport has a token of its own, so that all share one, and keep no connection.
func (u *Users) send(ctx context.Context, one *run, q workload.Question, index int) *request {
	p, who := one.prober, &u.all[uint(index)%maxUsers]
	req := one.request(q)
	req.planned, req.many = req.result.Scheduled, true
	if p.module.Connection != config.ConnectionReuse || p.endpoint.cfg.HTTP.OAuth2 != nil || !who.mu.TryLock() {
		req.send(ctx)
		return req
	}
	defer who.mu.Unlock()
	if who.transport == nil {
		var err error
		if who.transport, err = p.endpoint.newTransport(); err != nil {
			finish(req.result, err, p.endpoint.secrets)
			return req
		}
	}
	req.transport, req.kept = who.transport, who.kept
	req.send(ctx)
	if req.used != nil {
		who.kept = req.used
	}
	return req
}

// blame makes it clear where a failure is not the endpoint's.
func (u *Users) blame(ctx context.Context, r *result.Result) {
	if r.Err == nil {
		return
	}
	if r.Outcome == result.TimeoutTotal && ctx.Err() != nil { // by whoever asked, and no limit of the module
		r.Outcome = result.Canceled
	}
	if lack := lacking([]*result.Result{r}); lack != nil {
		lack.Spent = nil
		r.Err = u.served.prober.shown(lack)
	}
}
