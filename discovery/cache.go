package discovery

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"

	"github.com/inference-exporter/inference_exporter/config"
)

// target is what became of the labels of a target: an endpoint, or a reason why
// there is none, or neither where relabelling drops it.
type target struct {
	key      string
	endpoint *config.Endpoint
	reason   Reason
	text     string // what is wrong with it
	address  string // for logs; "" where it may hold more than an address
}

// cache keeps what was made of targets, by template, so that an endpoint that
// stays keeps its pointer.
type cache struct {
	templates []*template
	builder   *labels.Builder
	key       []byte
}

// template is the cache of the items of the configuration that make the same of
// a target.
type template struct {
	item *config.Discovery
	made map[string]*target // by the labels before relabelling
	used map[string]*target // those that are still there; nil when none was asked for
}

// targets returns what item makes of all that was found, in an order that does
// not depend on that of the groups.
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

// resolve makes of a target what the template says, unless it was made before.
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
	e, err := item.Endpoint(c.builder.Labels())
	switch {
	case err == nil:
		t.endpoint = e
	case errors.Is(err, config.ErrNotAllowed):
		t.reason, t.text = NotAllowed, err.Error()
	default:
		t.reason, t.text = Invalid, err.Error()
	}
	return t
}

// plainAddress is a host with or without its port, and never a URL with a
// password.
var plainAddress = regexp.MustCompile(`^[0-9A-Za-z_.:\[\]-]{1,128}$`)

func addressOf(found labels.Labels) string {
	if a := found.Get(model.AddressLabel); plainAddress.MatchString(a) {
		return a
	}
	return ""
}

// template is that of the item; a new one where none makes the same.
func (c *cache) template(item *config.Discovery) *template {
	if c.builder == nil {
		c.builder = labels.NewBuilder(labels.EmptyLabels())
	}
	for _, t := range c.templates {
		if t.item == item || t.item.MakesSame(item) {
			t.item = item // lets go of a configuration that is no longer in force
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
