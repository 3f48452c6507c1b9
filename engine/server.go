package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// server is what is kept of one server from one reading to the next.
type server struct {
	reader   *Reader
	page     string // the URL that the reader reads
	engine   string // of the latest snapshot
	progress time.Time
	failures map[Reason]uint64
	secrets  *safetext.Secrets // of the configuration, and sent with the latest request
}

// read reads the page of a server once. When ctx ends before, the status means
// nothing, and nothing is kept of it.
func (e *Endpoint) read(ctx context.Context, s *server, p *place, w Want) Status {
	if page := p.page.String(); s.page != page {
		s.page, s.reader = page, e.options.Mappings.NewReader()
	}
	start := e.options.Now()
	snapshot, failed := e.snapshot(ctx, s, p, w)
	if ctx.Err() != nil {
		return Status{}
	}
	st := Status{URL: s.page, At: start, Duration: e.options.Now().Sub(start), State: Up, Snapshot: snapshot}
	if failed != nil {
		st.State, st.Reason, st.Err = stateOf(failed.Reason), failed.Reason, presentable(failed.Err, s.secrets)
		if st.Absent = errors.Is(failed, errUnloaded); !st.Absent {
			s.failures[failed.Reason]++
		}
	} else {
		s.engine, s.progress = snapshot.Engine, snapshot.LastProgress
	}
	if p.stale {
		s.failures[ReasonDNS]++
	}
	st.LastProgress, st.Failures = s.progress, maps.Clone(s.failures)
	return st
}

// snapshot gets the page and reads it, within the time that it may take. A
// panic is a page that cannot be read.
func (e *Endpoint) snapshot(ctx context.Context, s *server, p *place, w Want) (_ *Snapshot, failed *PageError) {
	s.secrets = e.secrets
	if p.failed != nil {
		return nil, p.failed
	}
	defer func() {
		if r := recover(); r != nil {
			s.reader = e.options.Mappings.NewReader() // the old one may be half changed
			failed = pageErrorf(ReasonFormat, "panic while the page was read: %v", r)
		}
	}()
	timeout := cmp.Or(p.within, time.Duration(e.cfg.Servers.Timeout))
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no whole page within %s", timeout))
	defer cancel()
	buf := e.buffers.Get().(*[]byte)
	defer e.keepBuffer(buf)
	a, b := &attempt{secrets: e.secrets, public: e.cfg.IsPublicHeader}, &body{memory: e.options.Mappings.memory}
	defer b.release()
	page, contentType, err := a.fetch(ctx, p, b, (*buf)[:0])
	*buf, s.secrets = page, a.known()
	if err != nil {
		return nil, failureOf(ctx, a, err)
	}
	snapshot, err := s.reader.Read(page, contentType, e.options.Now(), w)
	switch f, _ := errors.AsType[*PageError](err); {
	case err == nil:
		return snapshot, nil
	case f == nil:
		return nil, pageErrorf(ReasonFormat, "%w", err)
	case a.isQuotedIn(page): // and so perhaps in the error
		return nil, pageErrorf(f.Reason, "the page repeats a secret of the request; what is wrong with it is not shown")
	default:
		return nil, f
	}
}

// keepBuffer keeps a buffer for another page unless it is large.
func (e *Endpoint) keepBuffer(buf *[]byte) {
	if cap(*buf) <= smallPage {
		e.buffers.Put(buf)
	}
}
