package discovery

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"go.uber.org/goleak"

	"github.com/inference-exporter/inference_exporter/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parse reads a configuration. The names of its files count from dir.
func parse(t testing.TB, dir, text string) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte(text), dir+"/test.yml")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// journal keeps what is logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
	grew chan struct{}
}

func newJournal() *journal { return &journal{grew: make(chan struct{}, 1)} }

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case j.grew <- struct{}{}:
	default:
	}
	return j.text.Write(b)
}

// take returns the lines that are new and have these words.
func (j *journal) take(words string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var lines []string
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, words) {
			lines = append(lines, line)
		}
	}
	j.text.Reset()
	return lines
}

// lab is a Finder that runs.
type lab struct {
	*Finder
	t        testing.TB
	cfg      *config.Config
	log      *journal
	registry *prometheus.Registry
}

// newLab starts a Finder with a configuration. It ends with the test.
func newLab(t testing.TB, cfg *config.Config) *lab {
	t.Helper()
	l := &lab{t: t, log: newJournal(), registry: prometheus.NewRegistry()}
	l.Finder = New(Options{
		Registerer: l.registry, Logger: slog.New(slog.NewTextHandler(l.log, nil)), Throttle: 50 * time.Millisecond,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	l.apply(cfg)
	return l
}

func (l *lab) apply(cfg *config.Config) {
	l.t.Helper()
	if err := l.Apply(cfg); err != nil {
		l.t.Fatal(err)
	}
	l.cfg = cfg
}

// names are those of the endpoints as of now.
func (l *lab) names() string {
	var names []string
	for _, e := range l.Endpoints(l.cfg).Endpoints {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

// await waits until all sources have spoken and the endpoints have these names.
func (l *lab) await(want string) {
	l.t.Helper()
	late := time.After(20 * time.Second)
	for {
		if got := l.names(); got == want && l.Endpoints(l.cfg).Waiting == 0 {
			return
		}
		select {
		case <-l.Changed():
		case <-late:
			l.t.Fatalf("got %q, want %q", l.names(), want)
		}
	}
}

// awaitLog waits until something with these words is logged.
func (l *lab) awaitLog(words string) {
	l.t.Helper()
	late := time.After(20 * time.Second)
	for len(l.log.take(words)) == 0 {
		select {
		case <-l.log.grew:
		case <-late:
			l.t.Fatalf("nothing is logged with %q", words)
		}
	}
}

// fake is a mechanism that finds what a test sends.
type fake struct {
	Key string
	up  chan []*targetgroup.Group
}

func newFake(key string) *fake { return &fake{key, make(chan []*targetgroup.Group)} }

func (*fake) Name() string { return "fake" }

func (f *fake) NewDiscoverer(promdiscovery.DiscovererOptions) (promdiscovery.Discoverer, error) {
	return f, nil
}

func (*fake) NewDiscovererMetrics(prometheus.Registerer, promdiscovery.RefreshMetricsInstantiator) promdiscovery.DiscovererMetrics {
	return nil
}

func (f *fake) Run(ctx context.Context, up chan<- []*targetgroup.Group) {
	for {
		select {
		case groups := <-f.up:
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

// find has the mechanism find these addresses, each with the label n, under the
// name of a group.
func (f *fake) find(group string, addresses ...string) {
	g := &targetgroup.Group{Source: group, Labels: model.LabelSet{"group": model.LabelValue(group)}}
	for i, a := range addresses {
		g.Targets = append(g.Targets, model.LabelSet{"__address__": model.LabelValue(a), "n": model.LabelValue(fmt.Sprint(i))})
	}
	f.up <- []*targetgroup.Group{g}
}

// with is a configuration whose discoveries find what these mechanisms do, with
// these keys.
func with(t testing.TB, keys string, mechanisms ...*fake) *config.Config {
	t.Helper()
	text := "endpoints: [{url: http://listed}]\ndiscovery:\n"
	for range mechanisms {
		text += "- {static_configs: [{targets: [x]}], " + keys + "}\n"
	}
	c := parse(t, t.TempDir(), text)
	for i, m := range mechanisms {
		c.Discovery[i].Static = config.Sources{m}
	}
	return c
}
