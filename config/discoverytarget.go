package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
)

// Bounds of what a target may bring along.
const (
	maxURLBytes     = 2048
	maxTargetLabels = 64
)

// The labels of a target that say what its endpoint is.
const (
	labelURL      = "__url__"
	labelScheme   = "__scheme__"
	labelAddress  = "__address__"
	labelPath     = "__path__"
	labelEndpoint = "__endpoint__"
	labelModel    = "__model__"
	labelAPI      = "__api__"
	labelEngine   = "__engine__"
	labelModules  = "__modules__"
)

// ErrNotAllowed is the error of a target whose host the discovery does not
// allow.
var ErrNotAllowed = errors.New("the host is not allowed; see allow")

// Endpoint makes an endpoint of the template and of a target's labels, as they
// are after relabelling. It shares with the template what the target does not
// change, and is valid as one of the file would be. An error is ErrNotAllowed
// or says what is wrong with the target, without repeating a URL or an address.
func (d *Discovery) Endpoint(target labels.Labels) (*Endpoint, error) {
	r := newReport("")
	e := d.Template
	e.URL.URL = targetURL(r, target)
	if e.URL.URL != nil {
		e.Name = e.URL.nameWithPath()
		if name := target.Get(labelEndpoint); name != "" {
			e.Name = name
		}
		e.validateName(r, labelEndpoint)
	}
	if model := target.Get(labelModel); model != "" {
		e.Model = model
		validateText(r, labelModel, "model", model, maxModelBytes)
	}
	if api := target.Get(labelAPI); api != "" {
		e.API = api
		validateOneOf(r, labelAPI, api, APIs()...)
	}
	if engine := target.Get(labelEngine); engine != "" {
		e.Servers.Engine = engine
		validateText(r, labelEngine, "engine name", engine, maxNameBytes)
	}
	if names := target.Get(labelModules); names != "" {
		e.Modules = strings.Split(strings.ReplaceAll(names, " ", ""), ",")
		e.validateModules(r, labelModules, d.modules)
	}
	e.addLabels(r, target)
	if len(r.errs) > 0 {
		return nil, errors.New(r.oneLine())
	}
	if !d.Allows(e.URL.URL) {
		return nil, ErrNotAllowed
	}
	e.Servers.PagePorts = d.pagePorts(e.URL.URL)
	return &e, nil
}

// addLabels adds the labels of a target that are meant for series.
func (e *Endpoint) addLabels(r *report, target labels.Labels) {
	var own map[string]string
	target.Range(func(l labels.Label) {
		if !strings.HasPrefix(l.Name, "__") {
			if own == nil {
				own = map[string]string{}
			}
			own[l.Name] = l.Value
		}
	})
	if len(own) > maxTargetLabels {
		r.errorf("labels", "%d labels, more than %d", len(own), maxTargetLabels)
		return
	}
	validateLabels(r, "labels", own)
	if own != nil {
		e.Labels = mergeLabels(e.Labels, own)
	}
}

// targetURL is the URL of a target; nil with a mistake.
func targetURL(r *report, target labels.Labels) *url.URL {
	at, text := path(labelURL), target.Get(labelURL)
	if text == "" {
		at = labelAddress
		address, rest := target.Get(labelAddress), target.Get(labelPath)
		switch {
		case address == "":
			r.errorf(at, "missing, as is __url__")
			return nil
		case strings.ContainsAny(address, "/?#@"):
			r.errorf(at, "want host:port; a URL belongs into __url__")
			return nil
		case rest != "" && !isPath(rest):
			r.errorf(labelPath, "want a path like /custom, without query and fragment")
			return nil
		}
		scheme := target.Get(labelScheme)
		if scheme == "" {
			scheme = "http"
		}
		text = scheme + "://" + address + rest
	}
	if len(text) > maxURLBytes {
		r.errorf(at, "URL of %d bytes, more than %d", len(text), maxURLBytes)
		return nil
	}
	u, err := parseURL(text)
	if err != nil {
		r.errorf(at, "%v", err)
		return nil
	}
	return u
}

// nameWithPath is the name of an endpoint without one: host, port, and a path
// that tells more than the version.
func (u URL) nameWithPath() string {
	at := strings.TrimRight(u.Path, "/")
	if at == "/v1" {
		at = ""
	}
	return u.hostPort() + at
}

// oneLine puts all mistakes into one line, in the order they were found.
func (r *report) oneLine() string {
	var lines []string
	for _, e := range r.errs {
		lines = append(lines, fmt.Sprintf("%s: %s", e.Path, e.Msg))
	}
	return strings.Join(lines, "; ")
}
