package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/fleet"
)

// maxWait is how long a request waits for a slot.
const maxWait = 5 * time.Second

// slots lets a few requests run at once; a further one waits.
type slots chan struct{}

// acquire waits for a slot, which release gives back. The error is a fleet.Refusal that says
// why there is none.
func (s slots) acquire(ctx context.Context, limit time.Duration) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case s <- struct{}{}:
		return nil
	case <-late.C:
		return &fleet.Refusal{Busy: true, Reason: fmt.Sprintf("%d such requests are running, and none ended within %s", cap(s), limit)}
	case <-ctx.Done():
		return canceled()
	}
}

func (s slots) release() { <-s }

// canceled refuses a request that ends early. Mostly its client is gone and
// sees nothing of it; at the end of the program it must not take an empty
// answer for a good one.
func canceled() *fleet.Refusal {
	return &fleet.Refusal{Busy: true, Reason: "the request was canceled, or the exporter is shutting down"}
}

const (
	// writeTimeout limits each write of a page, and maxWriting all of them
	// together.
	writeTimeout = 5 * time.Second
	maxWriting   = time.Minute
)

// withDeadlines limits the writes of h to the connection. It belongs outside
// the compression, which writes when it likes.
func withDeadlines(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&deadlineWriter{ResponseWriter: w}, r)
	})
}

// deadlineWriter sets a deadline before each write.
type deadlineWriter struct {
	http.ResponseWriter
	end time.Time // of all writing; the zero time before the first write
}

// Unwrap is for http.ResponseController.
func (d *deadlineWriter) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// Write implements io.Writer.
func (d *deadlineWriter) Write(p []byte) (int, error) {
	d.extend()
	return d.ResponseWriter.Write(p)
}

// extend gives the next write its time.
func (d *deadlineWriter) extend() {
	now := time.Now()
	if d.end.IsZero() {
		d.end = now.Add(maxWriting)
	}
	deadline := now.Add(writeTimeout)
	if deadline.After(d.end) {
		deadline = d.end
	}
	// Where deadlines are not supported, as in tests, the server's limit holds.
	_ = http.NewResponseController(d.ResponseWriter).SetWriteDeadline(deadline)
}
