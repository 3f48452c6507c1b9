package web

import (
	"fmt"
	"net/url"
	"strings"
)

// Links are the addresses of other systems that the status page links to; "" is no
// link.
type Links struct {
	// Runbooks is the address below which each runbook has its page NAME.md.
	Runbooks string
	// Grafana and Prometheus are the addresses of their web pages.
	Grafana, Prometheus string
	// Trace is the address of a trace, with {trace_id} in place of its id.
	Trace string
}

// traceID stands for the id in Links.Trace.
const traceID = "{trace_id}"

// normalize checks the addresses, and ends those to which something is added with a
// slash. An error names what is wrong with which.
func (l Links) normalize() (Links, error) {
	for _, link := range []struct {
		name    string
		address *string
	}{
		{"runbooks", &l.Runbooks}, {"Grafana", &l.Grafana}, {"Prometheus", &l.Prometheus}, {"traces", &l.Trace},
	} {
		if *link.address == "" {
			continue
		}
		u, err := url.Parse(*link.address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return l, fmt.Errorf("address of the %s %.128q: want a URL like https://host/path", link.name, *link.address)
		}
		if link.address == &l.Trace {
			if !strings.Contains(l.Trace, traceID) {
				return l, fmt.Errorf("address of the traces %.128q: %s is missing", l.Trace, traceID)
			}
			continue
		}
		if u.RawQuery != "" || u.Fragment != "" {
			return l, fmt.Errorf("address of the %s %.128q: want one without a query", link.name, *link.address)
		}
		*link.address = strings.TrimSuffix(*link.address, "/") + "/"
	}
	return l, nil
}
