package config

import (
	"fmt"
	"net"

	"github.com/prometheus/common/model"
)

// Servers says where the servers behind an endpoint show their own metrics,
// and how to read them.
type Servers struct {
	// Find says whether to look for a page at the endpoint's own address when
	// neither `urls` nor `dns` names one.
	Find bool `yaml:"find"`
	// URLs are pages, one for each server. A URL without a path gets that of
	// the engine; the only query is `?model=NAME`, with which `autoload=false` is
	// sent, so that no reading loads a model.
	URLs []PageURL `yaml:"urls,omitempty"`
	// DNS are pages whose host stands for all the addresses that it resolves
	// to, each a server. The name is resolved again before each reading.
	DNS []PageURL `yaml:"dns,omitempty"`
	// Engine is the name of the mapping to read the pages with: a built-in one
	// or one under `engines`. Default: known by the series of the page.
	Engine string `yaml:"engine,omitempty"`
	// Interval is the time from one reading to the next.
	Interval model.Duration `yaml:"interval"`
	// Timeout limits one reading. It may not exceed the interval; the default
	// is cut to it.
	Timeout model.Duration `yaml:"timeout"`
	// HTTP says how to connect to the pages and to authenticate, with the keys
	// of the endpoint's `http`. Default: the endpoint's `http` for a page on its
	// own scheme, host and port; no credentials for any other. A page that is
	// found on another port never gets credentials: name it under `urls`.
	HTTP *HTTPClient `yaml:"http,omitempty"`

	// PagePorts are the ports at which a page of a discovered endpoint may be
	// looked for, beside its own; nil is any.
	PagePorts []string `yaml:"-"`
}

// Format writes the settings as printYAML does.
func (s Servers) Format(f fmt.State, _ rune) { printYAML(f, s) }

func (s *Servers) validate(r *report, p path) {
	first := map[string]path{}
	validatePages(r, p.key("urls"), s.URLs, first)
	validatePages(r, p.key("dns"), s.DNS, first)
	if r.written(p.key("engine")) {
		validateText(r, p.key("engine"), "engine name", s.Engine, maxNameBytes)
	}
	if timeout := p.key("timeout"); r.written(timeout) && !r.failed[p.key("interval")] && s.Timeout > s.Interval {
		r.errorf(timeout, "%s exceeds the interval of %s", s.Timeout, s.Interval)
	}
}

// validatePages checks the pages of one list; first knows where each page
// stands.
func validatePages(r *report, p path, pages []PageURL, first map[string]path) {
	for i, u := range pages {
		at := p.index(i)
		if u.URL == nil {
			r.errorf(at, "missing; %v", errWantURL)
			continue
		}
		page := URL(u).page()
		if before, ok := first[page]; ok {
			r.errorf(at, "the same page as %s", before)
			continue
		}
		first[page] = at
	}
}

// page is the one spelling of a URL: the host in lower case, with its port.
func (u URL) page() string {
	port := u.Port()
	if port == "" {
		port = schemePort(u.Scheme)
	}
	at := u.EscapedPath()
	if at == "/" {
		at = "" // a URL without a path means the same
	}
	return u.Scheme + "://" + net.JoinHostPort(foldHost(u.URL), port) + at + "?" + u.Query().Encode()
}
