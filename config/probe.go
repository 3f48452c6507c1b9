package config

import (
	"net"
	"net/url"
	"strings"
)

// Probe says what the page `/probe` may probe besides the endpoints of the
// file.
type Probe struct {
	// Allow lists hosts, each with or without a port: `vllm.internal`,
	// `10.0.0.7:8000`, `[::1]:8000`, `*.internal`. A host without a port allows
	// every port; a leading `*.` stands for one name or several.
	// Default: no other.
	Allow []string `yaml:"allow,omitempty"`
}

func (b *Probe) validate(r *report, p path) {
	for i, s := range b.Allow {
		if _, ok := parseHostPattern(s); !ok {
			r.errorf(p.key("allow").index(i), "want a host like vllm.internal, *.internal or 10.0.0.7:8000, got %s", quote(s))
		}
	}
}

// Allows tells whether a URL's host is one of those that are listed.
func (b *Probe) Allows(u *url.URL) bool {
	for _, s := range b.Allow {
		if pattern, ok := parseHostPattern(s); ok && pattern.matches(u) {
			return true
		}
	}
	return false
}

// hostPattern is a host as Probe lists it.
type hostPattern struct {
	host string // lower case; of a wildcard what follows the asterisk, ".internal"
	port string // "" is any
}

func parseHostPattern(s string) (hostPattern, bool) {
	u, err := url.Parse("http://" + s)
	if err != nil || u.Host != s || !isPort(u) {
		return hostPattern{}, false
	}
	h := hostPattern{host: foldHost(u), port: u.Port()}
	if strings.HasPrefix(s, "[") {
		return h, net.ParseIP(h.host) != nil
	}
	names := h.host
	if rest, ok := strings.CutPrefix(h.host, "*."); ok {
		h.host, names = "."+rest, rest
	}
	for name := range strings.SplitSeq(names, ".") {
		if !isPlain(name) {
			return hostPattern{}, false
		}
	}
	return h, true
}

func (h hostPattern) matches(u *url.URL) bool {
	port := u.Port()
	if port == "" {
		port = schemePort(u.Scheme)
	}
	return (h.port == "" || h.port == port) && h.matchesHost(foldHost(u))
}

func (h hostPattern) matchesHost(host string) bool {
	if strings.HasPrefix(h.host, ".") {
		return len(host) > len(h.host) && strings.HasSuffix(host, h.host)
	}
	return host == h.host
}

// foldHost is the one spelling of a host: lower case, without final dots.
func foldHost(u *url.URL) string {
	return strings.TrimRight(strings.ToLower(u.Hostname()), ".")
}
