package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// emitPanel turns a panel into Grafana's form.
func emitPanel(p Panel, id uint32, at dashboard.GridPos) dashboard.Panel {
	out := dashboard.Panel{
		Type: string(p.Viz), Id: ptr(id), Title: ptr(p.Title), Description: ptr(description(p)),
		Datasource: datasourceRef(), GridPos: &at, Options: options(p),
		FieldConfig: &dashboard.FieldConfigSource{Defaults: field(p), Overrides: overrides(p)},
	}
	for i := range p.Queries {
		out.Targets = append(out.Targets, emitQuery(&p, i))
	}
	if p.TimeFrom != "" {
		out.TimeFrom = ptr(p.TimeFrom)
	}
	if p.Viz == Table {
		out.Transformations = transformations(p)
	}
	return out
}

// description is what a reader sees who hovers over the corner of a panel.
func description(p Panel) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n**Measured by** %s.\n\n**Worry when** %s", p.What, p.By, p.Worry)
	if len(p.Sets) > 0 {
		fmt.Fprintf(&b, "\n\n**Needs** the rules of %s: `inference_exporter rules --set=%s`.", strings.Join(p.Sets, " and "), strings.Join(p.Sets, ","))
	}
	for i, a := range p.Alerts {
		sep := ", "
		if i == 0 {
			sep = "\n\n**Runbooks**: "
		}
		fmt.Fprintf(&b, "%s[%s](%s%s.md)", sep, a, runbooks, a)
	}
	return b.String()
}

// field is how the values of a panel look.
func field(p Panel) dashboard.FieldConfig {
	if p.Spark {
		p.States = append(slices.Clone(p.States), absent)
	}
	if p.Unit == "percentunit" && p.Max == nil && p.SoftMax == nil {
		p.Max = ptr(1.0) // else the axis of a line at 0 ends at 10,000 %
	}
	f := dashboard.FieldConfig{
		Unit: ptr(unit(p.Unit)), Min: p.Min, Max: p.Max, Mappings: mappings(p.States), Thresholds: thresholds(p.Steps, base(p.Viz)),
		Color: &dashboard.FieldColor{Mode: dashboard.FieldColorModeIdThresholds}, Links: links(p.Links), Custom: custom(p),
	}
	if p.NoValue != "" {
		f.NoValue = ptr(noValue(p))
	}
	switch p.Viz {
	case StateTimeline:
		// With mergeValues, Grafana draws the colours of mappings only in a
		// palette mode. The thresholds have the same colours.
		f.Thresholds = thresholds(stateSteps(p.States), "text")
		fallthrough
	case TimeSeries:
		f.Color.Mode = dashboard.FieldColorModeIdPaletteClassic
	}
	return f
}

// noValue is what a panel without data shows.
func noValue(p Panel) string {
	if len(p.Sets) == 0 {
		return p.NoValue
	}
	return p.NoValue + "; or the rules of " + strings.Join(p.Sets, " and ") + " are not loaded"
}

// stateSteps are thresholds with the colours of states, which are in the order
// of the boards: best or worst first.
func stateSteps(states []State) []Step {
	steps := make([]Step, 0, len(states))
	for _, s := range states {
		if from, err := strconv.ParseFloat(s.Value, 64); err == nil {
			steps = append(steps, Step{from, s.Color})
		}
	}
	slices.SortFunc(steps, func(a, b Step) int { return cmp.Compare(a.From, b.From) })
	return steps
}

// unit is Grafana's name of a unit; plain numbers have one as well.
func unit(u string) string {
	if u == "" {
		return "none"
	}
	return u
}

// custom are the options of a field that only one plugin has.
func custom(p Panel) any {
	switch p.Viz {
	case TimeSeries:
		c := common.GraphFieldConfig{
			DrawStyle: ptr(common.GraphDrawStyleLine), LineWidth: ptr(1.0), FillOpacity: ptr(0.0),
			ShowPoints: ptr(common.VisibilityModeAuto), PointSize: ptr(4.0), SpanNulls: &common.BoolOrFloat64{Bool: ptr(false)},
			AxisSoftMax: p.SoftMax,
		}
		if p.SoftMax == nil && (p.Unit == "none" || p.Unit == "cpm") {
			c.AxisSoftMax = ptr(1.0) // else the axis of a line at 0 ends at 100
		}
		if p.Log {
			c.ScaleDistribution = &common.ScaleDistributionConfig{Type: common.ScaleDistributionLog, Log: ptr(10.0)}
		}
		if p.Stacked {
			c.FillOpacity = ptr(30.0)
			c.Stacking = &common.StackingConfig{Mode: ptr(common.StackingModeNormal), Group: ptr("A")}
		}
		if len(p.Steps) > 0 {
			c.ThresholdsStyle = &common.GraphThresholdsStyleConfig{Mode: common.GraphThresholdsStyleModeDashed}
		}
		return c
	case StateTimeline:
		return statetimeline.FieldConfig{LineWidth: ptr(uint32(0)), FillOpacity: ptr(uint32(70))}
	case Heatmap:
		return heatmap.FieldConfig{ScaleDistribution: &common.ScaleDistributionConfig{Type: common.ScaleDistributionLog, Log: ptr(10.0)}}
	case Table:
		return common.TableFieldOptions{Align: common.FieldTextAlignmentAuto, CellOptions: cell(len(p.Steps) > 0)}
	}
	return nil
}

// cell is how a cell is drawn.
func cell(coloured bool) *common.TableCellOptions {
	if coloured {
		return &common.TableCellOptions{TableColoredBackgroundCellOptions: &common.TableColoredBackgroundCellOptions{
			Type: common.TableCellDisplayModeColorBackground, Mode: ptr(common.TableCellBackgroundDisplayModeBasic),
		}}
	}
	return &common.TableCellOptions{TableAutoCellOptions: &common.TableAutoCellOptions{Type: common.TableCellDisplayModeAuto}}
}

// gauge is a cell with a bar as long as its value.
func gauge() *common.TableCellOptions {
	return &common.TableCellOptions{TableBarGaugeCellOptions: &common.TableBarGaugeCellOptions{
		Type: common.TableCellDisplayModeGauge, Mode: ptr(common.BarGaugeDisplayModeBasic), ValueDisplayMode: ptr(common.BarGaugeValueModeText),
	}}
}

// latest reduces a series to its last value.
func latest() common.ReduceDataOptions {
	return common.ReduceDataOptions{Calcs: []string{"lastNotNull"}, Values: ptr(false), Fields: ptr("")}
}

// legend names the series with their last values, the highest first: beside a
// wide panel, and below a narrow one.
func legend(p Panel) common.VizLegendOptions {
	o := common.VizLegendOptions{
		DisplayMode: common.LegendDisplayModeTable, Placement: common.LegendPlacementBottom, ShowLegend: true, Calcs: []string{"lastNotNull"},
		SortBy: ptr("Last *"), SortDesc: ptr(true),
	}
	if p.Width >= columns/2 {
		o.Placement = common.LegendPlacementRight
	}
	return o
}

// options are the options of a panel's plugin.
func options(p Panel) any {
	switch p.Viz {
	case TimeSeries:
		return timeseries.Options{Legend: legend(p), Tooltip: common.VizTooltipOptions{Mode: common.TooltipDisplayModeMulti, Sort: common.SortOrderDescending}}
	case Stat:
		o := stat.Options{
			GraphMode: common.BigValueGraphModeNone, ColorMode: common.BigValueColorModeValue, JustifyMode: common.BigValueJustifyModeAuto,
			TextMode: common.BigValueTextModeValueAndName, WideLayout: true, ReduceOptions: latest(), Orientation: common.VizOrientationAuto,
			PercentChangeColorMode: common.PercentChangeColorModeStandard,
			Text:                   &common.VizTextDisplayOptions{TitleSize: ptr(14.0), ValueSize: ptr(28.0)},
		}
		if p.Spark {
			o.GraphMode = common.BigValueGraphModeArea
		}
		return o
	case Table:
		o := table.Options{ShowHeader: true, CellHeight: ptr(common.TableCellHeightSm)}
		for _, s := range p.Sort {
			o.SortBy = append(o.SortBy, common.TableSortByFieldState{DisplayName: s.Title, Desc: ptr(s.Desc)})
		}
		return o
	case StateTimeline:
		return statetimeline.Options{
			ShowValue: common.VisibilityModeNever, RowHeight: 0.8, MergeValues: ptr(true), PerPage: ptr(float64(p.MaxRows)),
			Legend:  common.VizLegendOptions{DisplayMode: common.LegendDisplayModeList, Placement: common.LegendPlacementBottom, ShowLegend: true, Calcs: []string{}},
			Tooltip: common.VizTooltipOptions{Mode: common.TooltipDisplayModeSingle, Sort: common.SortOrderNone},
		}
	default:
		return heatmapOptions(p)
	}
}

// heatmapOptions are those of a histogram over time; the darker the more.
func heatmapOptions(p Panel) heatmap.Options {
	return heatmap.Options{
		Calculate: ptr(false),
		Color: heatmap.HeatmapColorOptions{
			Mode: ptr(heatmap.HeatmapColorModeScheme), Scheme: "Blues", Fill: "blue", Scale: ptr(heatmap.HeatmapColorScaleExponential), Exponent: 0.5, Steps: 64,
		},
		FilterValues: &heatmap.FilterValueRange{Le: ptr(float32(1e-9))},
		ShowValue:    common.VisibilityModeNever, CellGap: ptr(uint8(1)),
		CellValues: &heatmap.CellValues{Unit: ptr("none")},
		YAxis:      heatmap.YAxisConfig{Unit: ptr(unit(p.Unit)), AxisPlacement: ptr(common.AxisPlacementLeft)},
		Legend:     heatmap.HeatmapLegend{Show: true},
		Tooltip:    heatmap.HeatmapTooltip{Mode: common.TooltipDisplayModeSingle, ShowColorScale: ptr(true)},
		Exemplars:  heatmap.ExemplarConfig{Color: "rgba(255,0,255,0.7)"},
	}
}

// base is the colour of no value. That of a cell is its background.
func base(v Viz) string {
	if v == Table {
		return "transparent"
	}
	return "text"
}

// thresholds turns steps into Grafana's form. The base is the colour of what has
// no value, so it is never that of a state.
func thresholds(steps []Step, base string) *dashboard.ThresholdsConfig {
	t := &dashboard.ThresholdsConfig{Mode: dashboard.ThresholdsModeAbsolute, Steps: []dashboard.Threshold{{Color: base}}}
	for _, s := range steps {
		t.Steps = append(t.Steps, dashboard.Threshold{Value: ptr(s.From), Color: s.Color})
	}
	return t
}

// mappings turns states into Grafana's form.
func mappings(states []State) []dashboard.ValueMapping {
	if len(states) == 0 {
		return nil
	}
	m := dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: map[string]dashboard.ValueMappingResult{}}
	for i, s := range states {
		m.Options[s.Value] = dashboard.ValueMappingResult{Text: ptr(s.Text), Color: ptr(s.Color), Index: ptr(int32(i))}
	}
	return []dashboard.ValueMapping{{ValueMap: &m}}
}

// links turns links into Grafana's form.
func links(list []Link) []dashboard.DashboardLink {
	var out []dashboard.DashboardLink
	for _, l := range list {
		out = append(out, dashboard.DashboardLink{Title: l.Title, Type: dashboard.DashboardLinkTypeLink, Url: ptr(l.URL), Tags: []string{}})
	}
	return out
}

// property is one setting of an override.
func property(id string, value any) dashboard.DynamicConfigValue {
	return dashboard.DynamicConfigValue{Id: id, Value: value}
}

// override sets properties of the fields that a matcher finds.
func override(matcher, of string, properties ...dashboard.DynamicConfigValue) dashboard.DashboardFieldConfigSourceOverrides {
	return dashboard.DashboardFieldConfigSourceOverrides{Matcher: dashboard.MatcherConfig{Id: matcher, Options: of}, Properties: properties}
}

// fixed is a colour that does not depend on values.
func fixed(color string) dashboard.DynamicConfigValue {
	return property("color", dashboard.FieldColor{Mode: dashboard.FieldColorModeIdFixed, FixedColor: ptr(color)})
}

// overrides are what differs for single fields: single values that are missing,
// fixed colours, dashed lines for limits, and the columns of a table.
func overrides(p Panel) []dashboard.DashboardFieldConfigSourceOverrides {
	out := []dashboard.DashboardFieldConfigSourceOverrides{}
	switch p.Viz {
	case Heatmap:
	case StateTimeline: // whose legend would name a gap like a state
		out = append(out, override("byRegexp", "/.*/", property("noValue", "")))
	default:
		out = append(out, override("byRegexp", "/.*/", property("noValue", "–")))
	}
	for i, q := range p.Queries {
		if len(q.Steps) > 0 {
			out = append(out, override("byFrameRefID", refID(i), property("thresholds", thresholds(q.Steps, base(p.Viz)))))
		}
		if q.Color != "" {
			out = append(out, override("byFrameRefID", refID(i), fixed(q.Color)))
		}
		if q.Unit != "" {
			out = append(out, override("byFrameRefID", refID(i), property("unit", q.Unit)))
		}
		switch {
		case q.Limit:
			out = append(out, dashed(i, "red"))
		case q.Reference:
			out = append(out, dashed(i, "#808080"))
		}
	}
	for _, n := range p.Named {
		out = append(out, override("byName", n.Name, fixed(n.Color)))
	}
	for _, c := range p.Columns {
		out = append(out, override("byName", c.field(len(p.Queries)), c.properties()...))
	}
	return out
}

// dashed draws the series of the query with number i as a dashed line that is not
// stacked.
func dashed(i int, color string) dashboard.DashboardFieldConfigSourceOverrides {
	return override(
		"byFrameRefID", refID(i),
		property("custom.lineStyle", map[string]any{"fill": "dash", "dash": []int{8, 8}}),
		property("custom.fillOpacity", 0),
		property("custom.stacking", common.StackingConfig{Mode: ptr(common.StackingModeNone), Group: ptr("A")}),
		fixed(color),
	)
}

// field is the name that Grafana gives to the column of a panel with a number
// of queries.
func (c *Column) field(queries int) string {
	switch {
	case c.Label != "":
		return c.Label
	case queries == 1:
		return "Value"
	default:
		return "Value #" + refID(c.Query)
	}
}

// width is the width of a column in pixels; 0 for what is left. A heading has
// some 8 pixels for each letter, and room for the arrow of a sorted column and the
// filter of one that can be filtered.
func (c *Column) width() float64 {
	if c.Label != "" && c.Width == 0 {
		return 0
	}
	return max(70, c.Width, 45+8*float64(len([]rune(c.Title))))
}

// properties are the settings of a column.
func (c *Column) properties() []dashboard.DynamicConfigValue {
	out := []dashboard.DynamicConfigValue{property("displayName", c.Title)}
	if c.Unit != "" {
		out = append(out, property("unit", c.Unit))
	}
	if w := c.width(); w > 0 {
		out = append(out, property("custom.width", w))
	}
	if c.Label != "" {
		out = append(out, property("custom.filterable", true))
	}
	if c.Hidden {
		out = append(out, property("custom.hidden", true))
	}
	if len(c.States) > 0 {
		out = append(out, property("mappings", mappings(c.States)))
	}
	if c.Gauge {
		out = append(out, property("custom.cellOptions", gauge()))
		if len(c.Steps) > 0 {
			out = append(out, property("thresholds", thresholds(c.Steps, "text")))
		} else {
			out = append(out, fixed("blue"))
		}
	} else if len(c.States)+len(c.Steps) > 0 {
		out = append(out, property("thresholds", thresholds(c.Steps, base(Table))), property("custom.cellOptions", cell(true)))
	}
	if len(c.Links) > 0 {
		out = append(out, property("links", links(c.Links)))
	}
	return out
}

// transformations make one table of the results of all queries, with the
// columns in their order and without the others.
func transformations(p Panel) []dashboard.DataTransformerConfig {
	if p.Matrix != nil {
		return []dashboard.DataTransformerConfig{{Id: "groupingToMatrix", Options: map[string]any{
			"rowField": p.Matrix.Row, "columnField": p.Matrix.Column, "valueField": "Value", "emptyValue": "null",
		}}}
	}
	order, names := map[string]int{}, []string{}
	for i, c := range p.Columns {
		n := c.field(len(p.Queries))
		order[n] = i
		names = append(names, n)
	}
	return []dashboard.DataTransformerConfig{
		{Id: "merge", Options: map[string]any{}},
		{Id: "filterFieldsByName", Options: map[string]any{"include": map[string]any{"names": names}}},
		{Id: "organize", Options: map[string]any{"indexByName": order, "excludeByName": map[string]bool{}, "renameByName": map[string]string{}}},
	}
}

// Colours of series whose names mean the same on every board.
var (
	// outcomeColors: blue is the network, yellow the account, orange the server's
	// answer, red a timeout and purple the stream.
	outcomeColors = []Named{
		{"dns_error", "super-light-blue"},
		{"connect_error", "light-blue"},
		{"tls_error", "blue"},
		{"timeout_connect", "dark-blue"},
		{"unauthorized", "dark-yellow"},
		{"rate_limited", "yellow"},
		{"overloaded", "orange"},
		{"http_error", "dark-orange"},
		{"check_failed", "light-orange"},
		{"timeout_first_token", "light-red"},
		{"timeout_stall", "red"},
		{"timeout_total", "dark-red"},
		{"empty", "super-light-purple"},
		{"truncated", "light-purple"},
		{"stream_error", "purple"},
		{"protocol_error", "dark-purple"},
		{"too_large", "semi-dark-purple"},
	}
	// phaseColors: blue is the network, orange waiting and green tokens.
	phaseColors = []Named{
		{"dns", "super-light-blue"},
		{"connect", "light-blue"},
		{"tls", "blue"},
		{"write", "dark-blue"},
		{"queue", "orange"},
		{"first_byte", "orange"},
		{"first_token", "light-orange"},
		{"prefill", "light-orange"},
		{"decode", "green"},
		{"close", "dark-blue"},
	}
	finishColors = []Named{
		{"stop", "green"},
		{"success", "light-green"},
		{"length", "blue"},
		{"abort", "orange"},
		{"error", "red"},
		{"other", "purple"},
		{"unknown", "light-purple"},
	}
	pageColors    = []Named{{"up", "green"}, {"down", "red"}, {"unreadable", "orange"}, {"unmapped", "yellow"}}
	verdictColors = []Named{
		{"wrong", "red"},
		{"wrong_format", "orange"},
		{"refused", "yellow"},
		{"repetition", "purple"},
		{"bad_json", "dark-red"},
		{"bad_schema", "dark-orange"},
		{"wrong_tool", "dark-yellow"},
		{"no_call", "blue"},
		{"leaked_into_content", "dark-purple"},
		{"truncated", "dark-blue"},
	}
)
