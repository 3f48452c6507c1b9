package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// The wire protocols.
const (
	APIOpenAIChat        = "openai-chat"
	APIOpenAICompletions = "openai-completions"
)

// Bounds of texts that become label values or go into requests, in bytes.
const (
	maxNameBytes  = 128
	maxModelBytes = 256
)

// Endpoint is one URL that serves a model.
type Endpoint struct {
	// Name is the label `endpoint`, unique in the file, at most 128 bytes.
	// Default: host and port of the URL, the scheme's own port left out.
	Name string `yaml:"name"`
	// URL is the base URL, http or https, with or without the version segment
	// (`/v1`), without user, query and fragment. Required.
	URL URL `yaml:"url"`
	// API is the wire protocol that the endpoint speaks, `openai-chat` or
	// `openai-completions`.
	API string `yaml:"api"`
	// Model is the name of the model to ask for, at most 256 bytes. Default:
	// asked from the endpoint's list of models.
	Model string `yaml:"model,omitempty"`
	// Modules are the names of the modules to probe with.
	Modules []string `yaml:"modules"`
	// Labels stand on every series of the endpoint. Default: `global.labels`,
	// to which these are added.
	Labels map[string]string `yaml:"labels,omitempty"`
	// HTTP says how to connect and to authenticate; see below.
	HTTP HTTPClient `yaml:"http"`
}

// Format writes the endpoint as printYAML does.
func (e Endpoint) Format(f fmt.State, _ rune) { printYAML(f, e) }

func (e *Endpoint) validate(r *report, p path, modules map[string]*Module) {
	if r.failed[p] {
		return // not an endpoint at all
	}
	if e.URL.URL == nil {
		r.errorf(p.key("url"), "missing; %v", errWantURL)
	}
	if r.written(p.key("name")) || e.URL.URL != nil {
		validateText(r, p.key("name"), "endpoint name", e.Name, maxNameBytes)
	}
	if e.Model != "" {
		validateText(r, p.key("model"), "model", e.Model, maxModelBytes)
	}
	validateOneOf(r, p.key("api"), e.API, APIOpenAIChat, APIOpenAICompletions)
	validateLabels(r, p.key("labels"), e.Labels)
	e.validateModules(r, p.key("modules"), modules)
}

func (e *Endpoint) validateModules(r *report, p path, modules map[string]*Module) {
	if len(e.Modules) == 0 {
		r.errorf(p, "an empty list; leave the key out for [%s]", Interactive)
	}
	for i, name := range e.Modules {
		switch {
		case modules[name] == nil:
			known := slices.Sorted(maps.Keys(modules))
			r.errorf(p.index(i), "unknown module %s; known: %s", quote(name), joinSome(known))
		case slices.Contains(e.Modules[:i], name):
			r.errorf(p.index(i), "module %s is listed twice", quote(name))
		}
	}
}

// URL is the base URL of an endpoint: http or https, with a host, without
// user, query and fragment.
type URL struct{ *url.URL }

// MarshalYAML renders the URL as text.
func (u URL) MarshalYAML() (any, error) {
	if u.URL == nil {
		return nil, nil
	}
	return u.String(), nil
}

// hostPort is the host with its port, unless it is the scheme's own.
func (u URL) hostPort() string {
	if u.URL == nil {
		return ""
	}
	if port := u.Port(); port == "" || port == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		return strings.TrimSuffix(u.Host, ":"+port)
	}
	return u.Host
}

func (d *decoder) url(n *yaml.Node, p path, out *URL) {
	if n.Kind != yaml.ScalarNode {
		d.errorf(p, "%v, got %s", errWantURL, got(n))
		return
	}
	u, err := parseURL(n.Value)
	if err != nil {
		d.errorf(p, "%v", err)
		return
	}
	out.URL = u
}

var errWantURL = errors.New("want a URL like http://host:8000")

// parseURL never repeats s in an error: it may hold a password or a key.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errWantURL
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("want a URL that begins with http:// or https://")
	case u.User != nil:
		return nil, errors.New("a user or password in the URL; use http.basic_auth")
	case u.Hostname() == "":
		return nil, errors.New("a URL without a host")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(s, "#"):
		return nil, errors.New("a query or fragment in the URL; for a key use http.authorization or http.http_headers")
	case !isPort(u):
		return nil, errors.New("a port that is not 1 to 65535")
	}
	return u, nil
}

func isPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && port > 0
}
