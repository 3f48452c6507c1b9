package main

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/util/teststorage"
)

// source is a Prometheus that has every series that boards may ask for.
type source struct {
	storage *teststorage.TestStorage
	engine  *promql.Engine
	t       *testing.T
}

// newSource returns a source with each series twice: of an endpoint whose model is
// known, and of one whose model is not, as after a restart during an outage. Some alerts have no
// endpoint.
func newSource(t *testing.T, c *checker) *source {
	script := "load 1m\n"
	for _, name := range slices.Sorted(maps.Keys(c.known)) {
		s := c.known[name]
		values := "1x60"
		if s.counter {
			values = "0+60x60"
		}
		for _, alternative := range alternatives(s) {
			for _, without := range []string{"none", "model", "endpoint"} {
				if without == "endpoint" && !strings.HasPrefix(name, "ALERTS") {
					continue
				}
				script += "\t" + name + "{" + labelsOf(s.labels, alternative, without) + "} " + values + "\n"
			}
		}
	}
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, promqltest.DefaultMaxSamplesPerQuery)
	return &source{promqltest.LoadedStorage(t, script), engine, t}
}

// alternatives are labels with each of their values, for one series each.
func alternatives(s series) []map[string]string {
	switch {
	case s.labels["le"]:
		return []map[string]string{{"le": "1"}, {"le": "+Inf"}}
	case s.labels["alertstate"]:
		return []map[string]string{{"alertstate": "firing"}}
	case s.closed == "":
		return []map[string]string{{}}
	}
	var all []map[string]string
	for _, v := range s.values {
		all = append(all, map[string]string{s.closed: v})
	}
	return all
}

// labelsOf writes labels, each with a value of its own but for those given, and one left out.
func labelsOf(names labelSet, given map[string]string, without string) string {
	fixed := map[string]string{"alertname": "InferenceEndpointDown", "severity": "critical", "prefix": "cold", "job": "inference_exporter"}
	if without == "model" {
		fixed["endpoint"] = "unknown model"
	}
	maps.Copy(fixed, given)
	var all []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		value, ok := fixed[name]
		if !ok {
			value = "a " + name
		}
		if name != without && name != "concurrency" {
			all = append(all, fmt.Sprintf("%s=%q", name, value))
		}
	}
	return strings.Join(all, ",")
}

// ask returns the labels of the result of a query with all values of the variables.
func (s *source) ask(expr string) (all []map[string]string) {
	s.t.Helper()
	variables := strings.NewReplacer("$job", ".+", "$model", ".*", "$endpoint", ".+", "$instance", ".+", "$gpu", ".+")
	q, err := s.engine.NewInstantQuery(s.t.Context(), s.storage, nil, grafana.Replace(variables.Replace(expr)), time.Unix(3600, 0))
	if err != nil {
		s.t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	result := q.Exec(s.t.Context())
	vector, err := result.Vector()
	if err != nil {
		s.t.Fatalf("%s: %v", expr, err)
	}
	for _, sample := range vector {
		all = append(all, sample.Metric.Map())
	}
	return all
}

// options returns what a variable offers.
func (s *source) options(v Variable) (all []string) {
	m := labelValues.FindStringSubmatch(v.Query)
	if m == nil {
		return []string{"prometheus"}
	}
	for _, labels := range s.ask(m[1]) {
		if value := labels[m[2]]; value != "" {
			all = append(all, value)
		}
	}
	return all
}

var (
	boardLink = regexp.MustCompile(`^/d/([a-z-]+)\?(.*)$`)
	carried   = regexp.MustCompile(`\$\{(\w+):queryparam\}`)
	template  = regexp.MustCompile(`\$\{__(?:field\.labels|data\.fields)\.(\w+)\}`)
)

// follow checks that a link of a board, filled in for labels, leads to a board that offers the
// values that it carries.
func (s *source) follow(from Board, l Link, labels map[string]string) error {
	filled := template.ReplaceAllStringFunc(l.URL, func(found string) string {
		return url.QueryEscape(labels[template.FindStringSubmatch(found)[1]])
	})
	if rest, ok := strings.CutPrefix(filled, runbooks); ok {
		_, err := os.Stat("../../../docs/runbooks/" + rest)
		return err
	}
	m := boardLink.FindStringSubmatch(filled)
	if m == nil {
		return fmt.Errorf("leads to no board: %s", filled)
	}
	at := slices.IndexFunc(boards(), func(b Board) bool { return b.UID == m[1] })
	if at < 0 {
		return fmt.Errorf("there is no board %s", m[1])
	}
	target := boards()[at]
	variable := func(b Board, name string) *Variable {
		if i := slices.IndexFunc(b.Variables, func(v Variable) bool { return v.Name == name }); i >= 0 {
			return &b.Variables[i]
		}
		return nil
	}
	for _, v := range carried.FindAllStringSubmatch(m[2], -1) {
		own, other := variable(from, v[1]), variable(target, v[1])
		if own == nil || other == nil || *own != *other {
			return fmt.Errorf("carries %s, of which %s does not have all values", v[1], target.UID)
		}
	}
	query, err := url.ParseQuery(m[2])
	if err != nil {
		return err
	}
	for name, values := range query {
		name, ok := strings.CutPrefix(name, "var-")
		v := variable(target, name)
		if ok && v != nil && !slices.Contains(s.options(*v), values[0]) {
			return fmt.Errorf("%s=%q, which %s does not offer", name, values[0], target.UID)
		}
	}
	return nil
}

// Links lead to boards that offer what they carry, with each value that a panel has.
func TestLinks(t *testing.T) {
	c := newTestChecker(t)
	s := newSource(t, c)
	for _, b := range boards() {
		for _, other := range boards() {
			if err := s.follow(b, toBoard(b, other), nil); err != nil {
				t.Errorf("link from %s to %s: %v", b.UID, other.UID, err)
			}
		}
		for _, row := range b.Rows {
			for _, p := range row.Panels {
				if err := s.followPanel(c, b, p); err != nil {
					t.Errorf("board %s, panel %q: %v", b.UID, p.Title, err)
				}
			}
		}
	}
}

// followPanel follows the links of a panel from each of its values.
func (s *source) followPanel(c *checker, b Board, p Panel) error {
	for _, a := range p.Alerts {
		if err := s.follow(b, Link{URL: runbooks + a + ".md"}, nil); err != nil {
			return err
		}
	}
	list := slices.Clone(p.Links)
	for _, col := range p.Columns {
		list = append(list, col.Links...)
	}
	for _, l := range list {
		followed := !template.MatchString(l.URL)
		if followed {
			if err := s.follow(b, l, nil); err != nil {
				return err
			}
		}
		for _, q := range p.Queries {
			has, err := c.labelsOf(q.Expr)
			if err != nil {
				return err
			}
			carries := template.FindAllStringSubmatch(l.URL, -1)
			if q.Limit || slices.ContainsFunc(carries, func(m []string) bool { return !has[m[1]] }) {
				continue
			}
			for _, labels := range s.ask(q.Expr) {
				followed = true
				if err := s.follow(b, l, labels); err != nil {
					return fmt.Errorf("link %s from %v: %w", l.Title, labels, err)
				}
			}
		}
		if !followed {
			s.t.Logf("board %s, panel %q: no value to follow link %s from", b.UID, p.Title, l.Title)
		}
	}
	return nil
}
