package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

// datasourceRef is the data source that the reader chose.
func datasourceRef() *common.DataSourceRef {
	return &common.DataSourceRef{Type: ptr("prometheus"), Uid: ptr("${datasource}")}
}

// emit turns a board into Grafana's JSON.
func emit(b Board) ([]byte, error) {
	d := dashboard.NewDashboard()
	d.Uid, d.Title, d.Description = ptr(b.UID), ptr(b.Title), ptr(b.Question)
	d.Tags, d.Timezone, d.Editable = []string{boardTag}, ptr("browser"), ptr(false)
	d.GraphTooltip = ptr(dashboard.DashboardCursorSyncCrosshair)
	d.Time = &dashboard.DashboardDashboardTime{From: b.From, To: "now"}
	d.Refresh = ptr(cmp.Or(b.Refresh, "30s"))
	for _, other := range boards() {
		if other.UID != b.UID {
			d.Links = append(d.Links, links([]Link{toBoard(b, other)})...)
			d.Links[len(d.Links)-1].KeepTime = true
		}
	}
	for _, v := range b.Variables {
		d.Templating.List = append(d.Templating.List, emitVariable(v))
	}
	for _, m := range b.Marks {
		d.Annotations.List = append(d.Annotations.List, dashboard.AnnotationQuery{
			Name: m.Name, Datasource: datasourceRef(), Enable: !m.Off, IconColor: m.Color, Expr: ptr("1000 * (" + m.Expr + ")"),
			TitleFormat: ptr(m.Title), TextFormat: ptr(m.Text), TagKeys: ptr(m.Tags), Step: ptr("60s"), UseValueForTime: ptr(true),
		})
	}
	d.Panels = place(b.Rows)
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("validate board %s: %w", b.UID, err)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		return nil, fmt.Errorf("encode board %s: %w", b.UID, err)
	}
	return out.Bytes(), nil
}

// columns is the width of Grafana's grid.
const columns = 24

// place puts the panels of each row from left to right, and numbers them.
func place(rows []Row) []dashboard.PanelOrRowPanel {
	var out []dashboard.PanelOrRowPanel
	var id, y uint32
	for _, r := range rows {
		var heading *dashboard.RowPanel
		if r.Title != "" {
			id++
			heading = &dashboard.RowPanel{
				Type: "row", Title: ptr(r.Title), Collapsed: r.Collapsed, Id: id, Panels: []dashboard.Panel{},
				GridPos: &dashboard.GridPos{H: 1, W: columns, Y: y},
			}
			out = append(out, dashboard.PanelOrRowPanel{RowPanel: heading})
			y++
		}
		top := y
		var x, height uint32
		for _, p := range r.Panels {
			if x+p.Width > columns {
				x, y, height = 0, y+height, 0
			}
			id++
			panel := emitPanel(p, id, dashboard.GridPos{X: x, Y: y, W: p.Width, H: p.Height})
			x, height = x+p.Width, max(height, p.Height)
			if r.Collapsed {
				heading.Panels = append(heading.Panels, panel)
			} else {
				out = append(out, dashboard.PanelOrRowPanel{Panel: &panel})
			}
		}
		y += height
		if r.Collapsed { // closed, it takes no room
			y = top
		}
	}
	return out
}

// emitVariable turns a variable into Grafana's form.
func emitVariable(v Variable) dashboard.VariableModel {
	out := dashboard.VariableModel{Name: v.Name, Label: ptr(v.Label)}
	if v.Query == "" {
		out.Type = dashboard.VariableTypeDatasource
		out.Query = &dashboard.StringOrMap{String: ptr("prometheus")}
		return out
	}
	out.Type = dashboard.VariableTypeQuery
	out.Datasource = datasourceRef()
	out.Query = &dashboard.StringOrMap{Map: map[string]any{"qryType": 1, "query": v.Query, "refId": "variable"}}
	out.Definition = ptr(v.Query)
	out.Refresh = ptr(dashboard.VariableRefreshOnTimeRangeChanged)
	out.Sort = ptr(dashboard.VariableSortNaturalAsc)
	if v.Single {
		return out
	}
	out.Multi, out.IncludeAll, out.AllValue = ptr(true), ptr(true), ptr(".+")
	if v.OrNone {
		out.AllValue = ptr(".*")
	}
	out.Current = &dashboard.VariableOption{
		Text:  dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
		Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
	}
	return out
}

// instant reports whether a panel shows only the latest values.
func (p *Panel) instant() bool {
	return p.Viz == Table || p.Viz == Stat && !p.Spark
}

// absent is the state of a figure with its course where there is no value now:
// Grafana would show the latest one that there was.
var absent = State{"-1", "–", "text"}

// emitQuery turns the query with number i of a panel into Grafana's form.
func emitQuery(p *Panel, i int) variants.Dataquery {
	q := p.Queries[i]
	if p.Spark {
		q.Expr += " or on () vector(" + absent.Value + ")"
	}
	format := prometheus.PromQueryFormatTimeSeries
	switch p.Viz {
	case Table:
		format = prometheus.PromQueryFormatTable
	case Heatmap:
		format = prometheus.PromQueryFormatHeatmap
	}
	return prometheus.Dataquery{
		Datasource: datasourceRef(), EditorMode: ptr(prometheus.QueryEditorModeCode), Expr: q.Expr, Format: &format,
		Instant: ptr(p.instant()), Range: ptr(!p.instant()), LegendFormat: ptr(q.Legend), RefId: ptr(refID(i)),
	}
}

// refID is the name of the query with number i: A, B, C.
func refID(i int) string { return string(rune('A' + i)) }
