package prober

import (
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// plainHeader tells whether the probe sets the header itself. Every other one
// comes from the endpoint's http settings and may be a secret.
func plainHeader(name string) bool {
	switch strings.ToLower(name) {
	case "host", "user-agent", "accept", "accept-encoding", "content-type", "content-length",
		"connection", "transfer-encoding", "traceparent", ":authority", ":method", ":path", ":scheme":
		return true
	}
	return false
}

// maxReason bounds the text of a failure in bytes: what a server sends as its
// first line, net/http quotes whole.
const maxReason = 768

// redacted is an error whose text is one bounded line without secrets. It
// hides the text of its cause, and not what the cause is.
type redacted struct {
	cause error
	what  string // the innermost cause
	where string // what was being done then, from outside to inside; "" is not told
}

func (r *redacted) Error() string { return reasonText(r.what, r.where) }
func (r *redacted) Unwrap() error { return r.cause }

// presentable returns err with a text that can be shown to anyone, the innermost
// cause first.
func presentable(err error, secrets *safetext.Secrets) error {
	if err == nil {
		return nil
	}
	what, where := reason(err)
	what = secrets.Line(what, maxReason)
	if where != "" {
		where = secrets.Line(where, max(0, maxReason-len(what)))
	}
	if reasonText(what, where) == err.Error() {
		return err
	}
	return &redacted{cause: err, what: what, where: where}
}
