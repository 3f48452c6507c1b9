package discovery

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// Reason is why a target is no endpoint. The set is closed: it is a label value.
type Reason string

const (
	// Invalid is a target of which no valid endpoint can be made.
	Invalid Reason = "invalid"
	// NotAllowed is a target at a host that the configuration does not allow.
	NotAllowed Reason = "not_allowed"
	// DuplicateName is a target with the name of another endpoint.
	DuplicateName Reason = "duplicate_name"
	// TooMany is a target of a source that has found more than it may; those found before stay.
	TooMany Reason = "too_many"
)

// Reasons lists the closed set.
func Reasons() []Reason { return []Reason{Invalid, NotAllowed, DuplicateName, TooMany} }

// Set is the set of endpoints that are known.
type Set struct {
	// Endpoints are those of the configuration in their order, then the discovered ones by name. What stays
	// as it was keeps its pointer as long as it is found.
	Endpoints []*config.Endpoint
	// Rejected is how many targets are no endpoints, but for those that relabelling drops.
	Rejected map[Reason]int
	// Waiting is how many sources have said nothing yet: one that fails from the start, or has nothing to
	// find (files that do not exist, an empty Kubernetes namespace).
	Waiting int
}

// maxComplaints bounds how many different complaints there are at a time.
const maxComplaints = 100

// complaint is what is logged of targets that are rejected, once while it lasts.
type complaint struct {
	source string
	reason Reason
	text   string
}

// Endpoints returns the endpoints of cfg, as of now. It logs what it rejects
// when that is new. Nothing in the set may be changed.
func (f *Finder) Endpoints(cfg *config.Config) Set {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := merging{
		set:    Set{Endpoints: slices.Clone(cfg.Endpoints), Rejected: map[Reason]int{}},
		named:  make(map[string]*config.Endpoint, len(cfg.Endpoints)),
		logged: map[complaint]bool{},
	}
	for _, e := range cfg.Endpoints {
		m.named[e.Name] = e
	}
	for i, item := range cfg.Discovery {
		s := find(f.sources, item.Sources())
		if s == nil {
			m.set.Waiting += len(item.Sources())
			continue
		}
		m.set.Waiting += s.waiting()
		if s.refused > 0 {
			m.set.Rejected[TooMany] += s.refused
		}
		for _, t := range f.cache.targets(item, s.groups) {
			f.merge(&m, t, i, s)
		}
		for _, t := range f.cache.targets(item, s.before) {
			if t.endpoint != nil {
				m.add(t.endpoint) // it was found before
			}
		}
	}
	f.cache.sweep()
	f.logged = m.logged
	found := m.set.Endpoints[len(cfg.Endpoints):]
	slices.SortFunc(found, func(a, b *config.Endpoint) int { return cmp.Compare(a.Name, b.Name) })
	return m.set
}

// merging is a set in the making.
type merging struct {
	set    Set
	named  map[string]*config.Endpoint
	logged map[complaint]bool
}

// merge adds what was made of a target of discovery[item] to the set.
func (f *Finder) merge(m *merging, t *target, item int, s *source) {
	if t.endpoint == nil {
		if t.reason != "" {
			f.reject(m, t, item, complaint{s.name, t.reason, t.text})
		}
		return
	}
	if other := m.add(t.endpoint); other != t.endpoint && !reflect.DeepEqual(*other, *t.endpoint) {
		f.reject(m, t, item, complaint{s.name, DuplicateName, fmt.Sprintf("%q is the name of another endpoint", other.Name)})
	}
}

// add adds an endpoint to the set, unless one has its name, and returns the one that has it.
func (m *merging) add(e *config.Endpoint) *config.Endpoint {
	if m.named[e.Name] == nil {
		m.named[e.Name] = e
		m.set.Endpoints = append(m.set.Endpoints, e)
	}
	return m.named[e.Name]
}

// reject counts a target and logs the complaint, unless it is one of those that last.
func (f *Finder) reject(m *merging, t *target, item int, c complaint) {
	m.set.Rejected[c.reason]++
	if m.logged[c] || len(m.logged) == maxComplaints {
		return
	}
	m.logged[c] = true
	if !f.logged[c] {
		f.options.Logger.Warn("discovered target rejected",
			"discovery", fmt.Sprintf("discovery[%d]", item), "config", c.source, "reason", string(c.reason), "err", c.text, "target", t.address)
	}
}

// target is a target after relabelling: an endpoint, or a reason why there is none,
// or neither where relabelling drops it.
type target struct {
	key      string
	endpoint *config.Endpoint
	reason   Reason
	text     string // what is wrong with it
	address  string // for logs; "" where it may hold more than an address
}

// cache keeps what was made of targets, by template, so that an endpoint that stays keeps its pointer.
type cache struct {
	secrets   *safetext.Secrets // that no target may repeat
	templates []*template
	builder   *labels.Builder
	key       []byte
}

// template is the cache of the items of the configuration that make the same of a target.
type template struct {
	item *config.Discovery
	made map[string]*target // by the labels before relabelling
	used map[string]*target // those that are still there; nil when none was asked for
}

// targets returns the targets of all groups under the template of item, in an order of their own.
func (c *cache) targets(item *config.Discovery, groups []*targetgroup.Group) []*target {
	t := c.template(item)
	if t.used == nil {
		t.used = make(map[string]*target, len(t.made))
	}
	var all []*target
	seen := map[string]bool{}
	for _, group := range groups {
		for _, one := range group.Targets {
			if made := c.resolve(t, c.join(group.Labels, one)); !seen[made.key] {
				seen[made.key] = true
				all = append(all, made)
			}
		}
	}
	slices.SortFunc(all, func(a, b *target) int { return strings.Compare(a.key, b.key) })
	return all
}

// resolve returns a target under the template, which it makes only once.
func (c *cache) resolve(t *template, found labels.Labels) *target {
	c.key = found.Bytes(c.key)
	if made := t.used[string(c.key)]; made != nil {
		return made
	}
	made := t.made[string(c.key)]
	if made == nil {
		made = c.make(t.item, found)
		made.key = string(c.key)
	}
	t.used[made.key] = made
	return made
}

// join is the labels of a target: its own, then those of its group.
func (c *cache) join(shared, one model.LabelSet) labels.Labels {
	c.builder.Reset(labels.EmptyLabels())
	for name, value := range shared {
		c.builder.Set(string(name), string(value))
	}
	for name, value := range one {
		c.builder.Set(string(name), string(value))
	}
	return c.builder.Labels()
}

func (c *cache) make(item *config.Discovery, found labels.Labels) *target {
	t := &target{address: addressOf(found)}
	c.builder.Reset(found)
	if !relabel.ProcessBuilder(c.builder, item.RelabelConfigs...) {
		return t
	}
	clean, err := cleaned(c.builder.Labels(), c.secrets)
	if err != nil {
		t.address, t.reason, t.text = "", Invalid, err.Error()
		return t
	}
	if t.endpoint, err = item.Endpoint(clean); err != nil {
		t.reason, t.text = Invalid, err.Error()
	}
	if errors.Is(err, config.ErrNotAllowed) {
		t.reason = NotAllowed
	}
	return t
}

// cleaned returns labels whose values repeat no secret and are one line of printable
// characters. A secret in the name of a label, or in what makes the URL, is an error.
func cleaned(all labels.Labels, secrets *safetext.Secrets) (labels.Labels, error) {
	clean := labels.NewScratchBuilder(all.Len())
	err := all.Validate(func(l labels.Label) error {
		switch {
		case strings.HasPrefix(l.Name, model.MetaLabelPrefix): // is shown nowhere
			return nil
		case slices.Contains([]string{config.LabelURL, model.SchemeLabel, model.AddressLabel, config.LabelPath}, l.Name):
			if secrets.InURL(l.Value) {
				return fmt.Errorf("%s: repeats a secret of the configuration", l.Name)
			}
		case secrets.In(l.Name):
			return errors.New("labels: the name of one repeats a secret of the configuration")
		default:
			if l.Value = secrets.Redact(l.Value); !safetext.Printable(l.Value) {
				l.Value = safetext.Line(l.Value, len(l.Value))
			}
		}
		clean.Add(l.Name, l.Value)
		return nil
	})
	clean.Sort()
	return clean.Labels(), err
}

// plainAddress is a host with or without its port, and never a URL with a password.
var plainAddress = regexp.MustCompile(`^[0-9A-Za-z_.:\[\]-]{1,128}$`)

func addressOf(found labels.Labels) string {
	if a := found.Get(model.AddressLabel); plainAddress.MatchString(a) {
		return a
	}
	return ""
}

// template is that of the item; a new one where none makes the same.
func (c *cache) template(item *config.Discovery) *template {
	for _, t := range c.templates {
		if t.item == item || t.item.MakesSame(item) {
			t.item = item // so that an old configuration can be freed
			return t
		}
	}
	t := &template{item: item}
	c.templates = append(c.templates, t)
	return t
}

// sweep forgets what no call of targets has asked for since the last sweep.
func (c *cache) sweep() {
	c.templates = slices.DeleteFunc(c.templates, func(t *template) bool { return t.used == nil })
	for _, t := range c.templates {
		t.made, t.used = t.used, nil
	}
}
