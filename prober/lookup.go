package prober

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/detect"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// maxPage bounds what is read of an answer to a question about the server.
const maxPage = detect.MaxBody + 1

// page is the answer to one question about the server.
type page struct {
	resp    *http.Response
	body    []byte
	attempt *attempt // knows the secrets that were sent
}

// get asks one question, with the given header, over a connection of its own.
func (e *Endpoint) get(ctx context.Context, l *lookup, at string, header http.Header) (*page, error) {
	rt, giveBack, err := e.borrow()
	if err != nil {
		return nil, err
	}
	defer giveBack()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := &limitError{result.TimeoutFirstToken, "server not identified within %s", l.limit}
	if !time.Now().Before(l.end) {
		return nil, late.failure()
	}
	wd := newWatchdog(cancel, l.end, late, time.Now().Add(l.connect),
		&limitError{result.TimeoutConnect, "no connection within %s", min(l.connect, l.limit)})
	defer wd.stop()
	a := e.newAttempt(nil)
	a.onReady = func() {
		l.ready.Store(true)
		wd.expect(l.end, late)
	}
	req, err := http.NewRequestWithContext(a.context(ctx), http.MethodGet, at, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", at, err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Accept", "application/json")
	e.ownHeader(req.Header)
	resp, err := a.roundTrip(rt, req)
	if err != nil {
		return nil, a.censor(err)
	}
	defer resp.Body.Close()
	body, err := e.readPage(ctx, resp.Body)
	if err != nil {
		return nil, a.censor(bodyFailure(ctx, a, err))
	}
	return &page{resp: resp, body: body, attempt: a}, nil
}

// readPage reads the body of an answer, in memory that all replies share.
func (e *Endpoint) readPage(ctx context.Context, r io.Reader) ([]byte, error) {
	share := &share{capacity: e.options.Dialer.capacity, ctx: ctx}
	defer share.release()
	limits := stream.Limits{Body: maxPage, Reserve: share.reserve}
	page, err := stream.New(stream.Whole, io.LimitReader(r, maxPage), limits).Next()
	if errors.Is(err, io.EOF) { // it is empty
		err = nil
	}
	return page.Data, err
}

func (e *Endpoint) models(ctx context.Context, l *lookup, p *api.Protocol) ([]api.ModelInfo, error) {
	header := p.Header() // some want their version named
	header.Del("Content-Type")
	got, err := e.get(ctx, l, p.Models.URL(e.cfg.URL.URL).String(), header)
	if err != nil {
		return nil, err
	}
	if got.resp.StatusCode != http.StatusOK {
		return nil, got.attempt.censor(fmt.Errorf("list the models: %w", statusFailure(got.resp, got.body, got.attempt.known())))
	}
	models, err := p.Models.Parse(got.body)
	if err != nil {
		return nil, got.attempt.censor(fail(result.ProtocolError, "%w", err))
	}
	return models, nil
}

// detect finds out what an endpoint without a configured protocol speaks.
func (e *Endpoint) detect(ctx context.Context, l *lookup) (target, error) {
	found, refused, err := e.find(ctx, l)
	if err != nil {
		return target{}, fmt.Errorf("detect the api: %w", err)
	}
	p, ok := api.Lookup(found.API)
	if !ok {
		return target{}, fmt.Errorf("detect the api: %q is not known", found.API)
	}
	t, err := newTarget(e.cfg, p)
	if err != nil {
		return target{}, err
	}
	t.engine = cmp.Or(found.Engine, t.engine)
	t.model, err = choose(e.cfg.Model, found.Models, p)
	if err != nil && found.Models == nil && refused != nil {
		err = refused
	}
	t.listed(found.Models)
	return t, err
}

// Detect finds out what answers at the endpoint, as package detect does, until ctx ends. The error begins with
// the server's own words where it refused to answer; what was found is returned beside it.
func (e *Endpoint) Detect(ctx context.Context) (detect.Finding, error) {
	ctx = within(ctx)
	l := &lookup{connect: forever, limit: forever, end: time.Now().Add(forever)}
	found, _, err := e.find(ctx, l)
	for i, line := range found.Evidence {
		found.Evidence[i] = e.secrets.Redact(line)
	}
	for i := range found.Models {
		found.Models[i].ID = e.secrets.Redact(found.Models[i].ID)
	}
	found.Version = e.secrets.Redact(found.Version)
	return found, e.explain(ctx, err)
}

// forever is longer than any limit of a context.
const forever = 24 * time.Hour

// find asks the questions of package detect. refused is the failure by the first refusal, nil without; one with
// status 404 gives way to others, as most pages are missing at most servers.
func (e *Endpoint) find(ctx context.Context, l *lookup) (found detect.Finding, refused, err error) {
	missing := false // refused is of a page that is not there
	found, err = detect.Detect(ctx, e.cfg.URL.URL, func(ctx context.Context, at string) (*detect.Reply, error) {
		got, err := e.get(ctx, l, at, nil)
		if err != nil {
			return nil, err
		}
		if s := got.resp.StatusCode; s != http.StatusOK && (refused == nil || missing && !isMissing(s)) {
			refused, missing = refusal(got), isMissing(s)
		}
		return &detect.Reply{Status: got.resp.StatusCode, Header: got.resp.Header, Body: got.body}, nil
	})
	if _, ok := errors.AsType[*failure](err); err == nil || ok {
		return found, refused, err
	}
	if f := interrupted(ctx); f != nil {
		return found, refused, f
	}
	if refused == nil {
		return found, nil, err
	}
	return found, refused, fail(OutcomeOf(refused), "%v: %w", err, refused)
}

func isMissing(status int) bool {
	return status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}

// refusal is the failure of a question that the server refused to answer.
func refusal(got *page) error {
	err := statusFailure(got.resp, got.body, got.attempt.known())
	if s, ok := errors.AsType[*statusError](err); ok && OutcomeOf(err) == result.Unauthorized {
		s.text += "; set a key under http"
	}
	return got.attempt.censor(err)
}
