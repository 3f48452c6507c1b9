package incidents

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/inference-exporter/inference_exporter/alerts"
)

const (
	scrapeInterval = 15 * time.Second
	job            = "inference_exporter"
	// resendDelay is the default of --rules.alert.resend-delay.
	resendDelay = time.Minute
	// groupInterval is the evaluation_interval of groups that set none.
	groupInterval = 30 * time.Second
)

// prometheus is a Prometheus that keeps what its rules need.
type prometheus struct {
	head   *tsdb.Head
	query  parser.Parser
	rules  *rulefmt.RuleGroups
	wanted map[string]bool // names of metrics
}

// newPrometheus returns a Prometheus with rules for probes at the given
// intervals.
func newPrometheus(t *testing.T, intervals map[string]time.Duration) *prometheus {
	t.Helper()
	o := tsdb.DefaultHeadOptions()
	o.ChunkDirRoot, o.ChunkWriteQueueSize, o.IsolationDisabled, o.StripeSize = t.TempDir(), 0, true, 1<<10
	head, err := tsdb.NewHead(nil, nil, nil, nil, o, nil)
	if err == nil {
		err = head.Init(0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := head.Close(); err != nil {
			t.Error(err)
		}
	})
	p := &prometheus{head: head, query: parser.NewParser(parser.Options{}), wanted: map[string]bool{}}
	p.loadRules(t, alerts.Options{Modules: intervals, Sets: alerts.Sets()})
	return p
}

// loadRules takes the alerts and what they need; what is recorded for dashboards
// alone is left out.
func (p *prometheus) loadRules(t *testing.T, o alerts.Options) {
	t.Helper()
	all := &rulefmt.RuleGroups{}
	for _, groups := range [][]alerts.Group{alerts.Recording(o), alerts.Alerts(o)} {
		file, err := alerts.Marshal(groups)
		if err != nil {
			t.Fatal(err)
		}
		parsed, errs := rulefmt.Parse(file, false, model.UTF8Validation, p.query, slog.New(slog.DiscardHandler))
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		all.Groups = append(all.Groups, parsed.Groups...)
	}
	for again := true; again; {
		before := len(p.wanted)
		for _, g := range all.Groups {
			for _, r := range g.Rules {
				if r.Alert != "" || p.wanted[r.Record] {
					p.want(t, r.Expr)
				}
			}
		}
		again = len(p.wanted) > before
	}
	for i := range all.Groups {
		g := &all.Groups[i]
		g.Rules = slices.DeleteFunc(g.Rules, func(r rulefmt.Rule) bool { return r.Alert == "" && !p.wanted[r.Record] })
	}
	all.Groups = slices.DeleteFunc(all.Groups, func(g rulefmt.RuleGroup) bool { return len(g.Rules) == 0 })
	p.rules = all
}

// want adds the metrics that an expression names.
func (p *prometheus) want(t *testing.T, query string) {
	t.Helper()
	expr, err := p.query.ParseExpr(query)
	if err != nil {
		t.Fatal(err)
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			p.wanted[s.Name] = true
		}
		return nil
	})
}

// Querier implements storage.Queryable.
func (p *prometheus) Querier(from, to int64) (storage.Querier, error) {
	return tsdb.NewBlockQuerier(tsdb.NewRangeHead(p.head, from, to), from, to)
}

// recorded returns the rules whose past alerts look at: those of groups that are
// evaluated once a minute or less, and record only.
func (p *prometheus) recorded() *rulefmt.RuleGroups {
	slow := &rulefmt.RuleGroups{}
	for _, g := range p.rules.Groups {
		alerts := slices.ContainsFunc(g.Rules, func(r rulefmt.Rule) bool { return r.Alert != "" })
		if !alerts && time.Duration(g.Interval) >= time.Minute {
			slow.Groups = append(slow.Groups, g)
		}
	}
	return slow
}

// evaluate evaluates rules at their times from the moment that the test loads
// them, and sends alerts, until the test stops it.
func (p *prometheus) evaluate(t *testing.T, to rules.Sender) (load func(*rulefmt.RuleGroups), stop func()) {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 50e6, Timeout: 2 * time.Minute, LookbackDelta: 5 * time.Minute, Parser: p.query})
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	loader := &loader{query: p.query}
	m := rules.NewManager(&rules.ManagerOptions{
		Context: t.Context(), Logger: logger, GroupLoader: loader, Parser: p.query,
		QueryFunc: rules.EngineQueryFunc(engine, p), Appendable: p.head, Queryable: p,
		NotifyFunc: rules.SendAlerts(to, ""), ResendDelay: resendDelay,
	})
	go m.Run()
	load = func(g *rulefmt.RuleGroups) {
		loader.rules = g
		if err := m.Update(groupInterval, []string{"rules.yml"}, labels.EmptyLabels(), "", nil); err != nil {
			t.Fatal(err)
		}
	}
	return load, func() {
		m.Stop()
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}
}

// loader gives a rule manager rules that are in no file.
type loader struct {
	query parser.Parser
	rules *rulefmt.RuleGroups
}

// Load implements rules.GroupLoader.
func (l *loader) Load(string, bool, model.ValidationScheme) (*rulefmt.RuleGroups, []error) {
	return l.rules, nil
}

// Parse implements rules.GroupLoader.
func (l *loader) Parse(query string) (parser.Expr, error) { return l.query.ParseExpr(query) }

// target is an exporter as a Prometheus sees it, scrape after scrape.
type target struct {
	*prometheus
	labels labels.Labels
	series map[string]*scraped // by their text on the page
}

// scraped is a series that the latest page had.
type scraped struct {
	ref    storage.SeriesRef
	labels labels.Labels
	at     int64
}

func (p *prometheus) target(instance string) *target {
	return &target{p, labels.FromStrings("job", job, "instance", instance), map[string]*scraped{}}
}

// scrape stores a page; nil is none. Series that are gone are marked as stale.
func (s *target) scrape(t *testing.T, page []byte) {
	t.Helper()
	now := time.Now().UnixMilli()
	app := s.head.Appender(t.Context())
	up := 0.0
	if page != nil {
		up = 1
		s.read(t, app, page, now)
	}
	s.append(t, app, "up", labels.NewBuilder(s.labels).Set(labels.MetricName, "up").Labels(), now, up)
	for text, of := range s.series {
		if of.at == now {
			continue
		}
		if _, err := app.Append(of.ref, of.labels, now, math.Float64frombits(value.StaleNaN)); err != nil {
			t.Fatal(err)
		}
		delete(s.series, text)
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
}

// read stores the samples of a page.
func (s *target) read(t *testing.T, app storage.Appender, page []byte, now int64) {
	t.Helper()
	p := textparse.NewPromParser(page, labels.NewSymbolTable(), false)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		text, _, v := p.Series()
		name, _, _ := bytes.Cut(text, []byte("{"))
		if !s.wanted[string(name)] {
			continue
		}
		var lset labels.Labels
		if s.series[string(text)] == nil {
			p.Labels(&lset)
			b := labels.NewBuilder(lset)
			s.labels.Range(func(l labels.Label) { b.Set(l.Name, l.Value) })
			lset = b.Labels()
		}
		s.append(t, app, string(text), lset, now, v)
	}
}

// append stores a sample of the series with a text, which has these labels if it is
// new.
func (s *target) append(t *testing.T, app storage.Appender, text string, lset labels.Labels, now int64, v float64) {
	t.Helper()
	of := s.series[text]
	if of == nil {
		of = &scraped{labels: lset}
		s.series[text] = of
	}
	ref, err := app.Append(of.ref, of.labels, now, v)
	if err != nil {
		t.Fatal(err)
	}
	of.ref, of.at = ref, now
}
