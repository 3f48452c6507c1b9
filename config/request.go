package config

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	promconfig "github.com/prometheus/common/config"
)

// maxKeyBytes bounds the name of a key of a request.
const maxKeyBytes = 256

// Request says how the requests to an endpoint differ from those that the
// protocol's probe would send. In the body the answer's cap is renamed first,
// then the keys of `omit` go, then those of `extra` come. The settings
// are shown on the pages: a key for access belongs under `http`.
type Request struct {
	// Omit lists keys that are left out of the body, nested ones with dots:
	// `temperature`, `stream_options.continuous_usage_stats`. A key that the
	// body does not have is no mistake.
	Omit []string `yaml:"omit,omitempty"`
	// Extra is an object that is merged into the body: objects key by key,
	// while any other value, null and lists included, replaces what is there.
	// What `omit` names too is replaced whole.
	Extra map[string]any `yaml:"extra,omitempty"`
	// Path is sent instead of the whole path of the URL, with a slash first.
	// Default: the protocol's path under the URL.
	Path string `yaml:"path,omitempty"`
	// MaxTokensField is the key that caps the answer, where the server wants
	// another spelling, such as `max_completion_tokens`. Default: the
	// protocol's own.
	MaxTokensField string `yaml:"max_tokens_field,omitempty"`
	// StickyHeader is a header by which a balancer keeps requests together: the
	// two requests of a pair carry the same random value in it, so that they
	// reach the same replica. Default: no such header.
	StickyHeader string `yaml:"sticky_header,omitempty"`
}

func (q *Request) validate(r *report, p path) {
	for i, key := range q.Omit {
		at := p.key("omit").index(i)
		switch {
		case slices.Contains(strings.Split(key, "."), ""):
			r.errorf(at, "want the name of a key, like stream_options.include_usage, got %s", quote(key))
		case slices.Contains(q.Omit[:i], key):
			r.errorf(at, "%s is listed twice", quote(key))
		default:
			validateText(r, at, "key", key, maxKeyBytes)
		}
	}
	if r.written(p.key("max_tokens_field")) {
		validateText(r, p.key("max_tokens_field"), "key", q.MaxTokensField, maxKeyBytes)
	}
	if r.written(p.key("path")) && !isPath(q.Path) {
		r.errorf(p.key("path"), "want a path like /custom/chat, without query and fragment")
	}
	if header := p.key("sticky_header"); r.written(header) {
		_, reserved := promconfig.ReservedHeaders[http.CanonicalHeaderKey(q.StickyHeader)]
		switch {
		case !isHeaderName(q.StickyHeader):
			r.errorf(header, "not a valid name of a header")
		case reserved:
			r.errorf(header, "setting header %q is not allowed", http.CanonicalHeaderKey(q.StickyHeader))
		}
	}
}

// isPath tells whether s is the path of a URL, and nothing more.
func isPath(s string) bool {
	_, err := url.Parse("http://h" + s)
	return err == nil && strings.HasPrefix(s, "/") && !strings.ContainsAny(s, "?#")
}
