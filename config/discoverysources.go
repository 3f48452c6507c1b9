package config

import (
	"bytes"
	"cmp"
	"errors"
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
	"github.com/prometheus/prometheus/model/relabel"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

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
