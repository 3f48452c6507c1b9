package discovery

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/common/model"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	promfile "github.com/prometheus/prometheus/discovery/file"
	promhttp "github.com/prometheus/prometheus/discovery/http"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// source is all that one item of the configuration looks at, or several with the same sources.
type source struct {
	name   string // the set in the manager, and the label `config`
	parts  []*part
	groups []*targetgroup.Group // what was found, in the order of their names
	fixed  bool                 // groups are in the configuration and never change
	// refused is how many targets were found at last, where these are too many.
	refused int
	// before is what the sources found that this one replaces. It counts until this
	// one has had the time to say what there is: leave ends it.
	before  []*targetgroup.Group
	leave   *time.Timer // nil without before
	leaving bool        // soon, as all parts have reported
}

// part wraps one mechanism of a source in the manager, to know whether it has reported anything.
type part struct {
	id int // no two are equal to the manager, which would run only one of them
	promdiscovery.Config
	found promdiscovery.Discoverer
	said  atomic.Bool // something, to the manager
	known bool        // what it said has come from the manager; under the Finder's lock
}

// NewDiscoverer returns the part itself: what finds its targets was made before.
func (p *part) NewDiscoverer(promdiscovery.DiscovererOptions) (promdiscovery.Discoverer, error) {
	return p, nil
}

// Run passes on what is found until ctx ends.
func (p *part) Run(ctx context.Context, up chan<- []*targetgroup.Group) {
	found := make(chan []*targetgroup.Group)
	go p.found.Run(ctx, found)
	for {
		select {
		case groups, ok := <-found:
			if !ok {
				return // it has said all that it ever will
			}
			// DNS leaves out the names whose lookup failed: then there may be nothing in an update.
			if len(groups) > 0 || p.Name() != "dns" {
				p.said.Store(true)
			}
			select {
			case up <- groups:
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// sourcesOf returns the sources of a configuration, those that are there already as they are.
func (f *Finder) sourcesOf(cfg *config.Config) ([]*source, error) {
	var all []*source
	var errs []error
	for i, item := range cfg.Discovery {
		configs := item.Sources()
		if find(all, configs) != nil {
			continue
		}
		s := find(f.sources, configs)
		if s == nil {
			var err error
			if s, err = f.newSource(configs, slices.Concat(f.sources, all)); err != nil {
				errs = append(errs, fmt.Errorf("discovery[%d]: %w", i, err))
				continue
			}
		}
		all = append(all, s)
	}
	return all, errors.Join(errs...)
}

// find is the source that looks at just this; nil for none.
func find(sources []*source, configs config.Sources) *source {
	for _, s := range sources {
		if slices.EqualFunc(s.parts, configs, func(p *part, c promdiscovery.Config) bool { return reflect.DeepEqual(p.Config, c) }) {
			return s
		}
	}
	return nil
}

// newSource makes a source with a name that none of the others has.
func (f *Finder) newSource(configs config.Sources, others []*source) (*source, error) {
	name, err := nameOf(configs)
	if err != nil {
		return nil, err
	}
	s := &source{name: name}
	for n := 2; slices.ContainsFunc(others, func(o *source) bool { return o.name == s.name }); n++ {
		s.name = name + "-" + strconv.Itoa(n) // they differ in secrets alone
	}
	for _, c := range configs {
		found, err := f.newDiscoverer(c, s.name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name(), err)
		}
		f.made++
		s.parts = append(s.parts, &part{id: f.made, Config: c, found: found})
	}
	s.fix()
	return s, nil
}

// newDiscoverer returns what finds the targets of a configuration.
func (f *Finder) newDiscoverer(c promdiscovery.Config, name string) (promdiscovery.Discoverer, error) {
	logger := f.options.Logger.With("discovery", c.Name(), "config", name)
	switch c := c.(type) {
	case *promfile.SDConfig:
		return &fileSource{SDConfig: c, finder: f, logger: logger}, nil
	case *promhttp.SDConfig:
		return f.newHTTP(c, name, logger)
	}
	return c.NewDiscoverer(promdiscovery.DiscovererOptions{
		Logger: logger, Metrics: f.metrics.MechanismMetrics[c.Name()], SetName: name,
	})
}

// fix takes the static targets, where there are no others, so that they are known at once.
func (s *source) fix() {
	var all []*targetgroup.Group
	for _, p := range s.parts {
		static, ok := p.Config.(promdiscovery.StaticConfig)
		if !ok {
			return
		}
		all = append(all, static...)
	}
	s.take(all)
	s.fixed = true
	for _, p := range s.parts {
		p.known = true
	}
}

// nameOf is a name for sources that is the same in every run of the program.
func nameOf(configs config.Sources) (string, error) {
	var kinds []string
	hash := xxhash.New()
	for _, c := range configs {
		if !slices.Contains(kinds, c.Name()) {
			kinds = append(kinds, c.Name())
		}
	}
	text, err := yaml.Marshal(configs)
	if err != nil {
		return "", fmt.Errorf("name the sources: %w", err)
	}
	_, _ = hash.Write(text)
	return fmt.Sprintf("%s-%08x", strings.Join(kinds, "-"), uint32(hash.Sum64())), nil
}

// take keeps what was found, and reports whether that is news.
func (s *source) take(groups []*targetgroup.Group) bool {
	news := false
	for _, p := range s.parts {
		if !p.known && p.said.Load() {
			p.known, news = true, true
		}
	}
	slices.SortStableFunc(groups, func(a, b *targetgroup.Group) int { return strings.Compare(a.Source, b.Source) })
	if !slices.EqualFunc(s.groups, groups, sameGroup) {
		s.groups, news = groups, true
	}
	return news
}

func sameGroup(a, b *targetgroup.Group) bool {
	return a == b || a.Source == b.Source && a.Labels.Equal(b.Labels) && slices.EqualFunc(a.Targets, b.Targets, model.LabelSet.Equal)
}

// waiting is how many parts have said nothing yet.
func (s *source) waiting() int {
	return stats.Count(s.parts, func(p *part) bool { return !p.known })
}

// patience is how long a source that says nothing, as some always do, goes on with what the one before it
// found: two refreshes of most mechanisms.
const patience = 2 * time.Minute

// succeed gives new sources what was found by those that they replace, so that endpoints stay when only the place
// changes where they are looked for. Only those of the same template do: others may have other credentials.
func (f *Finder) succeed(cfg *config.Config, sources []*source) {
	for _, item := range cfg.Discovery {
		s := find(sources, item.Sources())
		if s.fixed || slices.Contains(f.sources, s) {
			continue
		}
		for _, before := range f.items {
			old := find(f.sources, before.Sources())
			if !slices.Contains(sources, old) && before.MakesSame(item) {
				s.before = slices.Concat(s.before, old.groups, old.before)
			}
		}
		if s.before != nil && s.leave == nil {
			s.leave = time.AfterFunc(patience, func() { f.forget(s) })
		}
	}
	for _, old := range f.sources {
		if old.leave != nil && !slices.Contains(sources, old) {
			old.leave.Stop()
		}
	}
}

// settle ends the succession of a source whose parts have all reported, a little
// later, as the manager may be about to pass on the last of what they said.
func (f *Finder) settle(s *source) {
	if s.before != nil && !s.leaving && s.waiting() == 0 {
		s.leaving = true
		s.leave.Reset(2 * f.options.Throttle)
	}
}

// forget ends the succession of a source.
func (f *Finder) forget(s *source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.before = nil
	f.notify()
}
