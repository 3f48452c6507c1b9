package main

import (
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
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
	fmt.Fprintf(&b, "%s\n\n**Told by** %s.\n\n**Worry when** %s", p.What, p.By, p.Worry)
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
	f := dashboard.FieldConfig{
		Unit: ptr(unit(p.Unit)), Min: p.Min, Max: p.Max, Mappings: mappings(p.States), Thresholds: thresholds(p.Steps),
		Color: &dashboard.FieldColor{Mode: dashboard.FieldColorModeIdPaletteClassicByName}, Links: links(p.Links), Custom: custom(p),
	}
	if p.NoValue != "" {
		f.NoValue = ptr(p.NoValue)
	}
	if p.Viz != TimeSeries {
		f.Color.Mode = dashboard.FieldColorModeIdThresholds
	}
	return f
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
		return heatmap.FieldConfig{ScaleDistribution: &common.ScaleDistributionConfig{Type: common.ScaleDistributionLinear}}
	case Table:
		return tableField(len(p.Steps) > 0, 0)
	}
	return nil
}

// tableField is how a cell looks: coloured by its value, or plain.
func tableField(coloured bool, width float64) common.TableFieldOptions {
	f := common.TableFieldOptions{Align: common.FieldTextAlignmentAuto, Filterable: ptr(true), CellOptions: cell(coloured)}
	if width > 0 {
		f.Width = ptr(width)
	}
	return f
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

// latest reduces a series to its last value.
func latest() common.ReduceDataOptions {
	return common.ReduceDataOptions{Calcs: []string{"lastNotNull"}, Values: ptr(false), Fields: ptr("")}
}

// legend is a table below the panel with the values that are asked for first.
func legend() common.VizLegendOptions {
	return common.VizLegendOptions{
		DisplayMode: common.LegendDisplayModeTable, Placement: common.LegendPlacementBottom, ShowLegend: true,
		Calcs: []string{"lastNotNull", "max"}, SortBy: ptr("Max"), SortDesc: ptr(true),
	}
}

// options are the options of a panel's plugin.
func options(p Panel) any {
	switch p.Viz {
	case TimeSeries:
		return timeseries.Options{Legend: legend(), Tooltip: common.VizTooltipOptions{Mode: common.TooltipDisplayModeMulti, Sort: common.SortOrderDescending}}
	case Stat:
		o := stat.Options{
			GraphMode: common.BigValueGraphModeNone, ColorMode: common.BigValueColorModeValue, JustifyMode: common.BigValueJustifyModeAuto,
			TextMode: common.BigValueTextModeValueAndName, WideLayout: true, ReduceOptions: latest(), Orientation: common.VizOrientationAuto,
			PercentChangeColorMode: common.PercentChangeColorModeStandard,
		}
		if p.Names {
			o.TextMode = common.BigValueTextModeName
		}
		return o
	case BarGauge:
		return bargauge.Options{
			DisplayMode: common.BarGaugeDisplayModeBasic, ValueMode: common.BarGaugeValueModeColor, NamePlacement: common.BarGaugeNamePlacementAuto,
			ShowUnfilled: true, Sizing: common.BarGaugeSizingAuto, MinVizWidth: 8, MinVizHeight: 16, MaxVizHeight: 300,
			ReduceOptions: latest(), Orientation: common.VizOrientationHorizontal,
			Legend: common.VizLegendOptions{DisplayMode: common.LegendDisplayModeList, Placement: common.LegendPlacementBottom, Calcs: []string{}},
		}
	case Table:
		return table.Options{ShowHeader: true, CellHeight: ptr(common.TableCellHeightSm)}
	case StateTimeline:
		return statetimeline.Options{
			ShowValue: common.VisibilityModeNever, RowHeight: 0.8, MergeValues: ptr(true), PerPage: ptr(20.0),
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

// thresholds turns steps into Grafana's form. Without any, values have the
// colour of text: colour is for states only.
func thresholds(steps []Step) *dashboard.ThresholdsConfig {
	t := &dashboard.ThresholdsConfig{Mode: dashboard.ThresholdsModeAbsolute}
	for i, s := range steps {
		if i == 0 {
			t.Steps = append(t.Steps, dashboard.Threshold{Color: s.Color})
			continue
		}
		t.Steps = append(t.Steps, dashboard.Threshold{Value: ptr(s.From), Color: s.Color})
	}
	if len(steps) == 0 {
		t.Steps = []dashboard.Threshold{{Color: "text"}}
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

// overrides are what differs for single fields: dashed lines for limits, and
// the columns of a table.
func overrides(p Panel) []dashboard.DashboardFieldConfigSourceOverrides {
	out := []dashboard.DashboardFieldConfigSourceOverrides{}
	for i, q := range p.Queries {
		if len(q.Steps) > 0 {
			out = append(out, dashboard.DashboardFieldConfigSourceOverrides{
				Matcher:    dashboard.MatcherConfig{Id: "byFrameRefID", Options: refID(i)},
				Properties: []dashboard.DynamicConfigValue{property("thresholds", thresholds(q.Steps))},
			})
		}
		if q.Limit {
			out = append(out, dashboard.DashboardFieldConfigSourceOverrides{
				Matcher: dashboard.MatcherConfig{Id: "byFrameRefID", Options: refID(i)},
				Properties: []dashboard.DynamicConfigValue{
					property("custom.lineStyle", map[string]any{"fill": "dash", "dash": []int{8, 8}}),
					property("custom.fillOpacity", 0),
					property("custom.stacking", common.StackingConfig{Mode: ptr(common.StackingModeNone), Group: ptr("A")}),
					property("color", dashboard.FieldColor{Mode: dashboard.FieldColorModeIdFixed, FixedColor: ptr("red")}),
				},
			})
		}
	}
	for _, c := range p.Columns {
		out = append(out, dashboard.DashboardFieldConfigSourceOverrides{
			Matcher:    dashboard.MatcherConfig{Id: "byName", Options: c.field(len(p.Queries))},
			Properties: c.properties(),
		})
	}
	return out
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

// properties are the settings of a column.
func (c *Column) properties() []dashboard.DynamicConfigValue {
	out := []dashboard.DynamicConfigValue{property("displayName", c.Title)}
	if c.Unit != "" {
		out = append(out, property("unit", c.Unit))
	}
	if c.Width > 0 {
		out = append(out, property("custom.width", c.Width))
	}
	if len(c.States) > 0 {
		out = append(out, property("mappings", mappings(c.States)))
	}
	if len(c.Steps) > 0 {
		out = append(out, property("thresholds", thresholds(c.Steps)))
	}
	if len(c.States)+len(c.Steps) > 0 {
		out = append(out, property("custom.cellOptions", cell(true)))
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
