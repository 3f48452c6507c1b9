package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/collector"
)

// The rules below hold what a real Grafana of the 10.0 line drew badly. They look
// at the files.

type (
	step struct {
		Value *float64
		Color string
	}
	look struct {
		Title, Type string
		GridPos     struct{ W, H int }
		Collapsed   bool
		Panels      []look
		Targets     []struct{ Expr, RefID string }
		FieldConfig struct {
			Defaults struct {
				Unit, NoValue string
				Min, Max      *float64
				Color         struct{ Mode string }
				Mappings      []struct {
					Type    string
					Options map[string]struct{ Text, Color string }
				}
				Thresholds struct{ Steps []step }
				Custom     struct {
					AxisSoftMax       *float64
					ScaleDistribution struct{ Type string }
				}
			}
			Overrides []struct {
				Matcher    struct{ ID, Options string }
				Properties []struct {
					ID    string
					Value json.RawMessage
				}
			}
		}
		Options struct {
			PerPage float64
			Text    struct{ ValueSize float64 }
			Legend  json.RawMessage
			SortBy  []struct {
				DisplayName string
				Desc        bool
			}
		}
	}
)

// looks returns the panels of each board, those of closed rows too.
func looks(t *testing.T) map[string][]look {
	t.Helper()
	all := map[string][]look{}
	for _, b := range boards() {
		text, err := os.ReadFile(filepath.Join(folder, fileName(b)))
		if err != nil {
			t.Fatal(err)
		}
		var board struct{ Panels []look }
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatal(err)
		}
		for _, p := range board.Panels {
			if p.Type == "row" {
				all[b.UID] = append(all[b.UID], p.Panels...)
			} else {
				all[b.UID] = append(all[b.UID], p)
			}
		}
	}
	return all
}

// property returns the value of a property that an override sets, decoded.
func (p *look) property(t *testing.T, matcher, of, id string, value any) bool {
	t.Helper()
	for _, o := range p.FieldConfig.Overrides {
		if o.Matcher.ID != matcher || o.Matcher.Options != of {
			continue
		}
		for _, property := range o.Properties {
			if property.ID == id {
				if err := json.Unmarshal(property.Value, value); err != nil {
					t.Fatal(err)
				}
				return true
			}
		}
	}
	return false
}

// Grafana 11.5 and earlier draw palette-classic-by-name in one colour.
func TestColorModes(t *testing.T) {
	want := map[string]string{"timeseries": "palette-classic", "state-timeline": "palette-classic"}
	for uid, panels := range looks(t) {
		for _, p := range panels {
			mode := want[p.Type]
			if mode == "" {
				mode = "thresholds"
			}
			if got := p.FieldConfig.Defaults.Color.Mode; got != mode {
				t.Errorf("%s: %s: colours by %s, want %s", uid, p.Title, got, mode)
			}
		}
	}
}

// Values with a closed set of names have a colour each, the same on every board.
func TestNamedColors(t *testing.T) {
	values := map[string][]string{}
	for _, f := range collector.Catalogue() {
		values[f.Name] = f.Values
	}
	fixed := func(p *look, name string) bool {
		var c struct{ Mode, FixedColor string }
		return p.property(t, "byName", name, "color", &c) && c.Mode == "fixed" && c.FixedColor != ""
	}
	found := 0
	for _, panels := range looks(t) {
		for _, p := range panels {
			var family string
			switch p.Title {
			case "Failures by outcome":
				family = "inference_probe_results_total"
			case "Phases of a probe":
				family = "inference_probe_phase_seconds"
			case "The server's own account":
				family = "inference_probe_server_time_seconds"
			case "Servers by the state of their page":
				family = "inference_endpoint_servers"
			case "Requests a second":
				family = "inference_server_requests_total"
			case "Answers that are not right":
				family = "inference_probe_checks_total"
			default:
				continue
			}
			found++
			for _, v := range values[family] {
				if !slices.Contains([]string{"success", "canceled", "correct", "valid"}, v) && !fixed(&p, v) {
					t.Errorf("%s: %s has no colour of its own", p.Title, v)
				}
			}
		}
	}
	if found != 7 {
		t.Errorf("found %d panels, want 7", found)
	}
}

// What has no value has the colour of text, or none behind a cell, and never that
// of a state.
func TestNoValueHasNoColor(t *testing.T) {
	check := func(where, kind string, steps []step) {
		want := "text"
		if kind == "table" {
			want = "transparent"
		}
		if len(steps) == 0 || steps[0].Value != nil || steps[0].Color != want {
			t.Errorf("%s: the base of the thresholds is not %s: %+v", where, want, steps)
			return
		}
		last := math.Inf(-1)
		for _, s := range steps[1:] {
			if s.Value == nil || *s.Value <= last {
				t.Errorf("%s: thresholds do not rise: %+v", where, steps)
				return
			}
			last = *s.Value
		}
	}
	for uid, panels := range looks(t) {
		for _, p := range panels {
			check(uid+": "+p.Title, p.Type, p.FieldConfig.Defaults.Thresholds.Steps)
			for _, o := range p.FieldConfig.Overrides {
				for _, property := range o.Properties {
					if property.ID == "thresholds" {
						var th struct{ Steps []step }
						if err := json.Unmarshal(property.Value, &th); err != nil {
							t.Fatal(err)
						}
						check(uid+": "+p.Title+": "+o.Matcher.Options, p.Type, th.Steps)
					}
				}
			}
			if size := p.Options.Text.ValueSize; p.Type == "stat" && (size < 14 || size > 32) {
				t.Errorf("%s: %s: text of %v pixels", uid, p.Title, size)
			}
		}
	}
}

// A state has its word and its colour whether its value comes as a number or as
// text, and the thresholds have the same colours.
func TestStateTimelines(t *testing.T) {
	found := 0
	for uid, panels := range looks(t) {
		for _, p := range panels {
			if p.Type != "state-timeline" {
				continue
			}
			found++
			d := p.FieldConfig.Defaults
			if len(d.Mappings) != 1 || d.Mappings[0].Type != "value" || len(d.Mappings[0].Options) < 2 {
				t.Errorf("%s: %s: mappings %+v", uid, p.Title, d.Mappings)
				continue
			}
			for text, state := range d.Mappings[0].Options {
				number, err := strconv.ParseFloat(text, 64)
				if err != nil || strconv.FormatFloat(number, 'g', -1, 64) != text {
					t.Errorf("%s: %s: the number %v is not found as %q", uid, p.Title, number, text)
				}
				if state.Text == "" || state.Color == "" || colorAt(d.Thresholds.Steps, number) != state.Color {
					t.Errorf("%s: %s: %s is %+v, and %s by the thresholds", uid, p.Title, text, state, colorAt(d.Thresholds.Steps, number))
				}
			}
		}
	}
	if found != 6 {
		t.Errorf("%d state timelines, want 6", found)
	}
}

// colorAt is the colour of a value by thresholds.
func colorAt(steps []step, value float64) (color string) {
	for _, s := range steps {
		if s.Value == nil || *s.Value <= value {
			color = s.Color
		}
	}
	return color
}

// However many endpoints, servers or GPUs there are, a row of a state timeline is
// high enough for its name, and bars are few.
func TestRowsAreBounded(t *testing.T) {
	const rowPixels, around, gridPixels = 20, 100, 38
	for uid, panels := range looks(t) {
		for _, p := range panels {
			switch p.Type {
			case "state-timeline":
				rows := int(p.Options.PerPage)
				if rows < 1 || !strings.Contains(p.Targets[0].Expr, "topk("+strconv.Itoa(rows)+",") {
					t.Errorf("%s: %s: %d rows on a page, but the query is not bounded by it", uid, p.Title, rows)
				}
				if p.GridPos.H*gridPixels < around+rows*rowPixels {
					t.Errorf("%s: %s: %d rows in a height of %d", uid, p.Title, rows, p.GridPos.H)
				}
			case "bargauge":
				for _, q := range p.Targets {
					if !strings.Contains(q.Expr, "topk(") && !strings.Contains(q.Expr, "bottomk(") && !strings.HasPrefix(q.Expr, "min by (slo) ") {
						t.Errorf("%s: %s: any number of bars", uid, p.Title)
					}
				}
			}
		}
	}
}

// Where a panel is empty it says why; a single value that is missing is a dash.
func TestEmptyPanelsAndCells(t *testing.T) {
	for uid, panels := range looks(t) {
		for _, p := range panels {
			if p.FieldConfig.Defaults.NoValue == "" {
				t.Errorf("%s: %s says nothing where it is empty", uid, p.Title)
			}
			var dash string
			if p.Type != "heatmap" && (!p.property(t, "byRegexp", "/.*/", "noValue", &dash) || dash != "–") {
				t.Errorf("%s: %s: a missing value is %q", uid, p.Title, dash)
			}
			if p.Type == "heatmap" && p.FieldConfig.Defaults.Custom.ScaleDistribution.Type != "log" {
				t.Errorf("%s: %s: the axis is not logarithmic", uid, p.Title)
			}
		}
	}
}

// A line at 0 on an axis of percents without an upper end is drawn on one up to
// 10,000 %.
func TestPercentAxes(t *testing.T) {
	for uid, panels := range looks(t) {
		for _, p := range panels {
			d := p.FieldConfig.Defaults
			if d.Unit != "percentunit" || p.Type == "table" {
				continue
			}
			soft := d.Custom.AxisSoftMax
			if (d.Max == nil || *d.Max != 1) && (soft == nil || *soft > 1) {
				t.Errorf("%s: %s: no upper end", uid, p.Title)
			}
		}
	}
}

// Legends take little height and no value but the last.
func TestLegends(t *testing.T) {
	for uid, panels := range looks(t) {
		for _, p := range panels {
			if p.Type != "timeseries" {
				continue
			}
			var l struct {
				DisplayMode, Placement string
				Calcs                  []string
			}
			if err := json.Unmarshal(p.Options.Legend, &l); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(l.Calcs, []string{"lastNotNull"}) || l.DisplayMode == "table" && l.Placement != "right" {
				t.Errorf("%s: %s: legend %+v", uid, p.Title, l)
			}
		}
	}
}

// Headings are not cut, the columns fit on a screen of 1366 pixels, and the rows
// are sorted by columns that exist: worst first.
func TestTables(t *testing.T) {
	const letter, columnPixels, least = 8, 55, 60
	for _, b := range boards() {
		for _, r := range b.Rows {
			for _, p := range r.Panels {
				if p.Viz != Table || p.Matrix != nil {
					continue
				}
				where := b.UID + ": " + p.Title
				var titles []string
				var sum float64
				for _, c := range p.Columns {
					titles = append(titles, c.Title)
					sum += max(c.width(), least)
					if w := c.width(); w > 0 && w < 20+letter*float64(len([]rune(c.Title))) {
						t.Errorf("%s: the heading %q does not fit into %v pixels", where, c.Title, w)
					}
				}
				if room := columnPixels * float64(p.Width); sum > room {
					t.Errorf("%s: columns of %v pixels in %v", where, sum, room)
				}
				if len(p.Sort) == 0 {
					t.Errorf("%s is not sorted", where)
				}
				for _, s := range p.Sort {
					if !slices.Contains(titles, s.Title) {
						t.Errorf("%s is sorted by %q, which is no column", where, s.Title)
					}
				}
			}
		}
	}
	for uid, panels := range looks(t) {
		for _, p := range panels {
			if p.Type == "table" && p.Title != "Failed probes by model and prober" && len(p.Options.SortBy) == 0 {
				t.Errorf("%s: %s is not sorted", uid, p.Title)
			}
		}
	}
}

// Marks are lines at one moment and of what the reader chose; where a board shows
// many endpoints they are off.
func TestMarks(t *testing.T) {
	for _, b := range boards() {
		text, err := os.ReadFile(filepath.Join(folder, fileName(b)))
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Annotations struct {
				List []struct {
					Name, Expr      string
					Enable          bool
					UseValueForTime bool
				}
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatal(err)
		}
		many := b.UID == uidFleet || b.UID == uidCapacity
		for _, m := range board.Annotations.List {
			if !m.UseValueForTime || !strings.HasPrefix(m.Expr, "1000 * (") {
				t.Errorf("%s: %s can be a region", b.UID, m.Name)
			}
			if m.Enable == many {
				t.Errorf("%s: %s: on: %t", b.UID, m.Name, m.Enable)
			}
			if strings.Contains(m.Expr, `endpoint=~"|`) || strings.Contains(m.Expr, `instance=~"|`) {
				t.Errorf("%s: %s marks what was not chosen: %s", b.UID, m.Name, m.Expr)
			}
		}
	}
}

// Without a GPU there is one line that says so: what else there is asks for
// nothing until it is opened.
func TestBoardWithoutGPUs(t *testing.T) {
	b := gpuBoard()
	first := b.Rows[0].Panels[0]
	if first.Viz != Stat || first.Width != columns || first.Height > 3 || !strings.HasPrefix(first.NoValue, noGPU) {
		t.Errorf("the first panel is no line: %+v", first)
	}
	for i, r := range b.Rows {
		if i > 0 && !r.Collapsed {
			t.Errorf("the row %s is open", r.Title)
		}
	}
	for _, p := range b.Rows[0].Panels {
		if p.Viz == StateTimeline {
			t.Errorf("%s warns of a missing time field where there is no GPU", p.Title)
		}
	}
}
