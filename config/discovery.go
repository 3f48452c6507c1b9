package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	// These add the keys file_sd_configs, http_sd_configs and dns_sd_configs to
	// what promdiscovery.Configs decodes; static_configs is always there.
	_ "github.com/prometheus/prometheus/discovery/dns"
	_ "github.com/prometheus/prometheus/discovery/file"
	_ "github.com/prometheus/prometheus/discovery/http"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/stats"
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

// The labels of a target that configure its endpoint: its URL or path, beside those of Prometheus, and others.
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
		r.mistake(labelEndpoint, labelProblem(e.Name, maxNameBytes))
		checkEndpointName(r, labelEndpoint, e.Name)
	}
	if e.Model = cmp.Or(target.Get(labelModel), e.Model); e.Model != "" {
		r.mistake(labelModel, labelProblem(e.Model, maxModelBytes))
	}
	if e.API = cmp.Or(target.Get(labelAPI), e.API); e.API != "" {
		r.mistake(labelAPI, formOf("protocol").problem(e.API))
	}
	if e.Servers.Engine = cmp.Or(target.Get(labelEngine), e.Servers.Engine); e.Servers.Engine != "" {
		r.mistake(labelEngine, labelProblem(e.Servers.Engine, maxNameBytes))
	}
	if names := target.Get(labelModules); names != "" {
		e.Modules = strings.Split(strings.ReplaceAll(names, " ", ""), ",")
		e.checkModules(r, labelModules, d.modules, d.budget)
	}
	e.Gateway = cmp.Or(target.Get(labelGateway), e.Gateway)
	checkGateway(r, labelGateway, e.Gateway, d.gateways)
	e.addLabels(r, target)
	if len(r.errs) > 0 {
		return nil, errors.New(strings.Join(stats.Map(r.errs, func(e *Error) string { return e.Path + ": " + e.Msg }), "; "))
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
	r.mistake(at, err)
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

// sourceKeys are the keys of a discovery that name sources of targets.
var sourceKeys = []string{staticKey, "file_sd_configs", "http_sd_configs", "dns_sd_configs", "kubernetes_sd_configs", "consul_sd_configs"}

const staticKey = "static_configs"

// Sources are sources of targets, each with the keys that Prometheus has for it.
type Sources promdiscovery.Configs

// MarshalYAML renders the sources with their secrets hidden.
func (s Sources) MarshalYAML() (any, error) {
	var items []any
	for _, c := range s {
		if static, ok := c.(promdiscovery.StaticConfig); ok {
			for _, group := range static {
				items = append(items, group)
			}
			continue
		}
		items = append(items, printableSource(c))
	}
	return items, nil
}

// printableSource returns a source with the secrets hidden that its types do not hide.
func printableSource(c promdiscovery.Config) any {
	own := reflect.New(reflect.TypeOf(c).Elem())
	own.Elem().Set(reflect.ValueOf(c).Elem())
	if h := fieldOf[promconfig.HTTPClientConfig](own, "HTTPClientConfig"); h != nil {
		*h = printable(*h)
	}
	if u := fieldOf[string](own, "URL"); u != nil {
		*u = hideQuery(*u)
	}
	return own.Interface()
}

// sources decodes the list under the last key of p. Its items are Prometheus' own types, which decode themselves.
func (d *decoder) sources(n *yaml.Node, p path, out *Sources) {
	key := string(p[strings.LastIndexByte(string(p), '.')+1:])
	mechanism := strings.TrimSuffix(key, "_sd_configs")
	if key != staticKey && !slices.Contains(promdiscovery.RegisteredConfigNames(), mechanism) {
		d.errorf(p, "this build has no discovery by %s; the container image and the releases have it; build with -tags kubernetes_sd,consul_sd,clouds", mechanism)
		return
	}
	if !d.is(yaml.SequenceNode, n, p) {
		return
	}
	items := func() { *out = Sources(d.sourceItems(n, p, key)) }
	if key == staticKey || mechanism == "file" || mechanism == "dns" {
		items()
	} else {
		d.inSecret(items)
	}
}

func (d *decoder) sourceItems(n *yaml.Node, p path, key string) promdiscovery.Configs {
	var found promdiscovery.Configs
	for i, c := range n.Content {
		at := p.index(i)
		d.lines[at] = c.Line
		var item promdiscovery.Configs
		ok := d.foreign(c, at, key, &item)
		item.SetDirectory(d.dir)
		if !ok || !d.validateSources(at, item) {
			d.failed[p] = true // so that none is not said to be missing
			continue
		}
		found = append(found, item...)
	}
	if key != staticKey || len(found) == 0 {
		return found
	}
	// One source of all that are static, as Prometheus makes it, each of its groups under a name of its own.
	var all promdiscovery.StaticConfig
	for _, c := range found {
		all = append(all, c.(promdiscovery.StaticConfig)...)
	}
	for i, group := range all {
		group.Source = strconv.Itoa(i)
	}
	return promdiscovery.Configs{all}
}

// validateSources checks what Prometheus leaves unchecked: an interval of 0 would end the program, a
// password in a URL is logged, and unusable certificates would be found only at the start. It turns off
// redirects for a source with credentials, unless the file turns them on.
func (d *decoder) validateSources(p path, found promdiscovery.Configs) bool {
	before := len(d.errs)
	for _, c := range found {
		v := reflect.ValueOf(c)
		if v.Kind() != reflect.Pointer {
			continue // static
		}
		if interval := fieldOf[model.Duration](v, "RefreshInterval"); interval != nil && *interval <= 0 {
			d.errorf(p.key("refresh_interval"), "want a duration above 0")
		}
		if h := fieldOf[promconfig.HTTPClientConfig](v, "HTTPClientConfig"); h != nil {
			d.validateProxy(p.key("proxy_url"), h.ProxyURL)
			(&HTTPClient{*h}).eachFile(p, func(p path, name string) { d.file(p, name, maxSecretBytes) })
			if len(d.errs) == before {
				d.validateClient(p, h)
			}
			// Prometheus sends credentials to the target of a redirect.
			if !d.written(p.key("follow_redirects")) && (&HTTPClient{*h}).hasCredentials() {
				h.FollowRedirects = false
			}
		}
		for _, name := range []string{"URL", "Server"} {
			if place := fieldOf[string](v, name); place != nil {
				d.validateOpenURL(p.key(strings.ToLower(name)), *place, "basic_auth, authorization or http_headers")
			}
		}
	}
	return len(d.errs) == before
}

// fieldOf points to the field of a struct that v points to, if it has one of that name and type.
func fieldOf[T any](v reflect.Value, name string) *T {
	f := v.Elem().FieldByName(name)
	if !f.IsValid() {
		return nil
	}
	field, _ := f.Addr().Interface().(*T)
	return field
}

func (d *decoder) relabel(n *yaml.Node, p path, out *relabel.Config) {
	if !d.foreign(n, p, "", out) {
		return
	}
	if err := out.Validate(model.UTF8Validation); err != nil {
		d.errorf(p, "%s", safetext.Line(err.Error(), maxQuoted))
	}
}

// foreign decodes n, or a list of it alone under key, by the strict decoder of the yaml package, for types
// that decode themselves. False is a mistake, which it has reported.
func (d *decoder) foreign(n *yaml.Node, p path, key string, out any) bool {
	before := len(d.errs)
	if n = target(n); !d.is(yaml.MappingNode, n, p) {
		return false
	}
	if n = d.plain(n, p); len(d.errs) > before {
		return false
	}
	doc := n
	if key != "" {
		doc = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
			{Kind: yaml.ScalarNode, Value: key},
			{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}},
		}}
	}
	text, err := yaml.Marshal(doc)
	if err == nil {
		dec := yaml.NewDecoder(bytes.NewReader(text))
		dec.KnownFields(true)
		err = dec.Decode(out)
	}
	if err == nil {
		return true
	}
	d.reportForeign(n, p, err)
	return false
}

// plain copies n without aliases and merges, and records the lines of its values.
func (d *decoder) plain(n *yaml.Node, p path) *yaml.Node {
	n = target(n)
	out := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Value: n.Value, Style: n.Style}
	if !d.enter(n, p) {
		return out
	}
	defer d.leave()
	switch n.Kind {
	case yaml.MappingNode:
		for _, e := range d.pairs(n, p) {
			at := p.key(e.key)
			d.lines[at] = e.line
			key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: e.key}
			out.Content = append(out.Content, key, d.plain(e.value, at))
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			d.lines[p.index(i)] = c.Line
			out.Content = append(out.Content, d.plain(c, p.index(i)))
		}
	}
	return out
}

var (
	unknownField = regexp.MustCompile(`(?s)^line \d+: field (.+) not found in type `)
	wrongType    = regexp.MustCompile(`(?s)^line \d+: cannot unmarshal !!(\w+) .*into (.+)$`)
	quoted       = regexp.MustCompile("(?s)\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`")
)

// reportForeign reports an error of a type that decodes itself from n, in our words.
func (d *decoder) reportForeign(n *yaml.Node, p path, err error) {
	typeErr, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		msg := err.Error()
		if d.secret {
			msg = d.hideValues(quoted.ReplaceAllString(msg, `"..."`), n)
		}
		d.errorf(p, "%s", safetext.Line(msg, maxQuoted))
		return
	}
	for _, msg := range typeErr.Errors {
		field, kind := unknownField.FindStringSubmatch(msg), wrongType.FindStringSubmatch(msg)
		switch {
		case field != nil && d.isKeyLike(field[1]):
			d.errorf(d.find(p, field[1]), "unknown key %s", quote(field[1]))
		case field != nil:
			at := d.find(p, field[1])
			d.hidden[at] = at[:len(at)-len(path("x").key(field[1]))+1]
			d.errorf(at, "unknown key")
		case kind != nil:
			d.errorf(p, "expected %s, got %s", kindWanted(kind[2]), cmp.Or(map[string]string{"map": "a mapping", "seq": "a list"}[kind[1]], "a plain value"))
		default:
			d.errorf(p, "not in the form that Prometheus reads")
		}
	}
}

// hideValues takes out of a message what may be a secret in n: values, unless they are too short, and keys.
func (d *decoder) hideValues(msg string, n *yaml.Node) string {
	const short = 4
	if n.Kind == yaml.ScalarNode && len(n.Value) >= short {
		return strings.ReplaceAll(msg, n.Value, "...")
	}
	for i, c := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 || !d.isKeyLike(c.Value) {
			msg = d.hideValues(msg, c)
		}
	}
	return msg
}

// find returns the first path under p that ends with key, or p with that key.
func (d *decoder) find(p path, key string) path {
	best := p.key(key)
	if _, ok := d.lines[best]; ok {
		return best
	}
	line := 0
	for at, l := range d.lines {
		inside := strings.HasPrefix(string(at), string(p)) && strings.HasSuffix(string(at), string(path("x").key(key)[1:]))
		if inside && (line == 0 || l < line || l == line && at < best) {
			best, line = at, l
		}
	}
	return best
}

func kindWanted(t string) string {
	switch {
	case strings.HasPrefix(t, "[]"), strings.HasSuffix(t, "Names"):
		return "a list"
	case strings.HasPrefix(t, "int"), strings.HasPrefix(t, "uint"):
		return "a whole number"
	}
	words := map[string]string{"float64": "a number", "bool": "true or false", "string": "a string"}
	return cmp.Or(words[t], "another form") // many kinds of value have types of their own
}
