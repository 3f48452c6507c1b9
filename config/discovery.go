package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
)

// Discovery finds endpoints with the service discovery of Prometheus. In addition to the keys below it has those of an
// endpoint except `url` and `name`, which apply to every endpoint that is found. At least one source of targets is
// required.
type Discovery struct {
	// Template is what all endpoints that are found have in common.
	Template Endpoint `yaml:",inline"`
	// Static are targets in this file.
	Static Sources `yaml:"static_configs,omitempty"`
	// File are files with targets, which are read again when they change. Write them elsewhere and rename them: a YAML
	// file that is empty for a moment has no targets for that moment, and a half-written one is an error in the log.
	File Sources `yaml:"file_sd_configs,omitempty"`
	// HTTP are URLs that answer with targets. The URL is shown, but for the values
	// in its query, and logged: a key belongs under `authorization`.
	HTTP Sources `yaml:"http_sd_configs,omitempty"`
	// DNS are names whose records are targets.
	DNS Sources `yaml:"dns_sd_configs,omitempty"`
	// Kubernetes are the objects of a cluster; not in every build, see below.
	Kubernetes Sources `yaml:"kubernetes_sd_configs,omitempty"`
	// Consul are the services of a catalog; not in every build, see below.
	Consul Sources `yaml:"consul_sd_configs,omitempty"`
	// RelabelConfigs change the labels of a target, or drop it, before an endpoint is made of it.
	RelabelConfigs []*relabel.Config `yaml:"relabel_configs,omitempty"`
	// Allow lists the hosts that endpoints may have, written as under [`probe`](#probe), or as networks like
	// `10.0.0.0/8` and `fd00::/8` for URLs with IP addresses; nothing else is then allowed. Required where the template
	// has credentials. Default: any host but those of link-local addresses and of the metadata services of clouds.
	Allow []string `yaml:"allow,omitempty"`

	allow   []hostRule         // Allow, parsed
	modules map[string]*Module // those that a target may name

	gateways map[string]*MetricsPages // the same
	budget   Budget                   // of all endpoints
}

// Format writes the discovery as printYAML does.
func (d Discovery) Format(f fmt.State, _ rune) { printYAML(f, d) }

// Sources returns all sources of targets.
func (d *Discovery) Sources() Sources {
	return slices.Concat(d.Static, d.File, d.HTTP, d.DNS, d.Kubernetes, d.Consul)
}

// StaticLabels returns the names of the labels of the static targets, before relabelling.
func (d *Discovery) StaticLabels() []string {
	var names []string
	for _, c := range d.Static {
		static, _ := c.(promdiscovery.StaticConfig)
		for _, group := range static {
			for name := range group.Labels {
				if !strings.HasPrefix(string(name), "__") {
					names = append(names, string(name))
				}
			}
		}
	}
	return names
}

// MakesSame reports whether both make the same endpoints of the same targets, from whatever sources.
func (d *Discovery) MakesSame(other *Discovery) bool {
	return reflect.DeepEqual(d.Template, other.Template) &&
		reflect.DeepEqual(d.RelabelConfigs, other.RelabelConfigs) &&
		slices.Equal(d.Allow, other.Allow) &&
		maps.EqualFunc(d.modules, other.modules, func(a, b *Module) bool { return reflect.DeepEqual(a.Load, b.Load) }) &&
		d.budget == other.budget &&
		slices.Equal(slices.Sorted(maps.Keys(d.gateways)), slices.Sorted(maps.Keys(other.gateways)))
}

func (d *Discovery) check(r *report, p path) {
	if r.written(p.key("name")) {
		r.errorf(p.key("name"), "each endpoint has its own: set the label __endpoint__ by relabel_configs")
	}
	if r.written(p.key("url")) {
		r.errorf(p.key("url"), "each endpoint has its own: it is made from __scheme__, __address__ and __path__, or set the label __url__ by relabel_configs")
	}
	writtenWrongly := slices.ContainsFunc(sourceKeys, func(key string) bool { return r.failed[p.key(key)] })
	if len(d.Sources()) == 0 && !writtenWrongly {
		r.errorf(p, "no source of targets; want at least one of %s", strings.Join(sourceKeys, ", "))
	}
	at := p.key("allow")
	for i, s := range d.Allow {
		rule, ok := parseHostRule(s)
		if !ok {
			r.errorf(at.index(i), "expected a host like vllm.internal, *.internal or 10.0.0.7:8000, or a network like 10.0.0.0/8, got %s", quote(s))
		}
		d.allow = append(d.allow, rule)
	}
	if key := d.Template.credentials(); len(d.Allow) == 0 && key != "" && !r.failed[at] {
		r.errorf(at, "missing, but required by the credentials under %s, which any discovered host would get: list the hosts that may have them", key)
	}
}

// Bounds of a target.
const (
	maxURLBytes     = 2048
	maxTargetLabels = 64
)

// The labels of a target that configure its endpoint: its URL, or the path of one, beside those
// of Prometheus, and others.
const (
	LabelURL      = "__url__"
	LabelPath     = "__path__"
	labelEndpoint = "__endpoint__"
	labelModel    = "__model__"
	labelAPI      = "__api__"
	labelEngine   = "__engine__"
	labelModules  = "__modules__"
	labelGateway  = "__gateway__"
)

// ErrNotAllowed is the error of a target whose host the discovery does not allow.
var ErrNotAllowed = errors.New("the host is not allowed; see allow")

// Endpoint makes an endpoint from the template and the labels of a target after relabelling, with the
// checks of an endpoint of the file. It shares with the template what the target does not change. An
// error is ErrNotAllowed or describes the mistake without repeating a URL or an address.
func (d *Discovery) Endpoint(target labels.Labels) (*Endpoint, error) {
	r := newReport("")
	e := d.Template
	e.URL.URL = targetURL(r, target)
	if e.URL.URL != nil {
		e.Name = cmp.Or(target.Get(labelEndpoint), e.URL.nameWithPath())
		checkText(r, labelEndpoint, e.Name, maxNameBytes)
		checkEndpointName(r, labelEndpoint, e.Name)
	}
	if e.Model = cmp.Or(target.Get(labelModel), e.Model); e.Model != "" {
		checkText(r, labelModel, e.Model, maxModelBytes)
	}
	if e.API = cmp.Or(target.Get(labelAPI), e.API); e.API != "" {
		if problem := formOf("protocol").problem(e.API); problem != "" {
			r.errorf(labelAPI, "%s", problem)
		}
	}
	if e.Servers.Engine = cmp.Or(target.Get(labelEngine), e.Servers.Engine); e.Servers.Engine != "" {
		checkText(r, labelEngine, e.Servers.Engine, maxNameBytes)
	}
	if names := target.Get(labelModules); names != "" {
		e.Modules = strings.Split(strings.ReplaceAll(names, " ", ""), ",")
		e.checkModules(r, labelModules, d.modules, d.budget)
	}
	e.Gateway = cmp.Or(target.Get(labelGateway), e.Gateway)
	checkGateway(r, labelGateway, e.Gateway, d.gateways)
	e.addLabels(r, target)
	if len(r.errs) > 0 {
		return nil, errors.New(r.joined())
	}
	if !d.Allows(e.URL.URL) {
		return nil, ErrNotAllowed
	}
	e.Servers.PagePorts = d.pagePorts(e.URL.URL)
	return &e, nil
}

func (e *Endpoint) addLabels(r *report, target labels.Labels) {
	own := map[string]string{}
	target.Range(func(l labels.Label) {
		if !strings.HasPrefix(l.Name, "__") {
			own[l.Name] = l.Value
		}
	})
	if len(own) > maxTargetLabels {
		r.errorf("labels", "%d labels, more than %d", len(own), maxTargetLabels)
		return
	}
	validateLabels(r, "labels", own)
	e.Labels = mergeLabels(e.Labels, own)
}

// targetURL is the URL of a target; nil with a mistake.
func targetURL(r *report, target labels.Labels) *url.URL {
	at, text := path(LabelURL), target.Get(LabelURL)
	if text == "" {
		at = model.AddressLabel
		address, rest := target.Get(model.AddressLabel), target.Get(LabelPath)
		switch {
		case address == "":
			r.errorf(at, "missing, and so is __url__")
			return nil
		case strings.ContainsAny(address, "/?#@"):
			r.errorf(at, "want host:port; a URL belongs into __url__")
			return nil
		case rest != "" && !isPath(rest):
			r.errorf(LabelPath, "want a path like /custom, without query and fragment")
			return nil
		}
		text = cmp.Or(target.Get(model.SchemeLabel), "http") + "://" + address + rest
	}
	if len(text) > maxURLBytes {
		r.errorf(at, "URL of %d bytes, more than %d", len(text), maxURLBytes)
		return nil
	}
	u, err := parseURL(text)
	if err != nil {
		r.errorf(at, "%v", err)
	}
	return u
}

// nameWithPath is the default name of a discovered endpoint: host, port, and the path but a bare version.
func (u URL) nameWithPath() string {
	at := strings.TrimRight(u.Path, "/")
	if at == "/v1" {
		at = ""
	}
	return u.hostPort() + at
}

// joined returns all mistakes on one line, in the order in which they were found.
func (r *report) joined() string {
	var lines []string
	for _, e := range r.errs {
		lines = append(lines, fmt.Sprintf("%s: %s", e.Path, e.Msg))
	}
	return strings.Join(lines, "; ")
}
