package main

// Viz is how a panel is drawn, by the name of Grafana's panel plugin.
type Viz string

// The plugins in use.
const (
	TimeSeries    Viz = "timeseries"
	Stat          Viz = "stat"
	Table         Viz = "table"
	Heatmap       Viz = "heatmap"
	StateTimeline Viz = "state-timeline"
)

// Source is who measured what a panel shows.
type Source string

// The sources.
const (
	ByProbe      Source = "the prober, from outside, with synthetic requests"
	ByRules      Source = "Prometheus, from the probes, by the recording rules in alerts/"
	ByServer     Source = "the servers, on their own metrics pages, over all their requests"
	ByBoth       Source = "the prober from outside, and the servers on their own metrics pages"
	ByDriver     Source = "the driver of the GPUs"
	ByConfig     Source = "the configuration, or what detection found at the endpoint"
	ByExporter   Source = "the exporter, about itself"
	ByPrometheus Source = "Prometheus"
	ByGateway    Source = "the gateway, on its own metrics page, over all its requests"
)

// Board is one dashboard.
type Board struct {
	UID, Title string
	// Question is what the board answers.
	Question  string
	Variables []Variable
	Marks     []Mark
	Rows      []Row
	// From is the start of the default time range, like now-3h.
	From string
	// Refresh is how often the board asks again, like 5m; empty for every 30 s.
	Refresh string
}

// Row is a heading with the panels below it. Without a title it is only the
// panels.
type Row struct {
	Title string
	// Collapsed panels are neither shown nor asked for until the row is opened.
	Collapsed bool
	Panels    []Panel
}

// Panel is one panel. A reader at night sees its title and, on hovering, what
// the description says of it.
type Panel struct {
	Title string
	Viz   Viz
	// Unit is Grafana's name of the unit; none for plain numbers.
	Unit string
	// Width is in columns of 24, Height in rows of 38 pixels.
	Width, Height uint32
	// What, By and Worry make the description: what it shows, who measured
	// it, and when to act.
	What  string
	By    Source
	Worry string
	// Alerts are the alerts whose runbooks belong to the panel.
	Alerts  []string
	Queries []Query
	// Sets are the sets of rules that the queries need besides the default one.
	Sets []string
	// Steps colour a value by its height. No value, and one below the first
	// step, has the colour of text.
	Steps []Step
	// States turn numbers into words.
	States []State
	Links  []Link
	// NoValue is shown in place of the whole panel where there is no data.
	NoValue string
	Stacked bool
	Min     *float64
	Max     *float64
	// SoftMax is the least upper end of the axis, for values that are far below
	// Max or may exceed it.
	SoftMax *float64
	// Named are fixed colours of series by their name.
	Named []Named
	// MaxRows is the number of series that the queries of a state timeline
	// return at most.
	MaxRows int
	// Sort orders the rows of a table: worst first.
	Sort []Order
	// TimeFrom overrides the time range, like 7d.
	TimeFrom string
	// Columns are those of a table, in their order.
	Columns []Column
	// Matrix makes a table with a row for each value of one label and a
	// column for each value of another.
	Matrix *Matrix
	// Spark draws the time range behind each figure of a stat, whose queries give
	// one series without labels, and nothing below 0.
	Spark bool
	// Log makes the axis logarithmic.
	Log bool
}

// Query is one query of a panel.
type Query struct {
	Expr   string
	Legend string
	// Limit draws the series as a red dashed line: an objective, not a reading.
	Limit bool
	// Reference draws the series as a grey dashed line: what a reading is
	// compared with, such as the past or the bounds of an estimate.
	Reference bool
	// Unit is that of this query only.
	Unit string
	// Color is the colour of all series of the query; empty for the palette.
	Color string
	// Steps colour the values of this query only.
	Steps []Step
}

// Step is a colour from a value upwards.
type Step struct {
	From  float64
	Color string
}

// State is the word and the colour of a value.
type State struct {
	Value string
	Text  string
	Color string
}

// Named is the colour of the series with a name.
type Named struct{ Name, Color string }

// Order sorts a table by the column with a title.
type Order struct {
	Title string
	Desc  bool
}

// Link leads from a value to where one would look next.
type Link struct{ Title, URL string }

// Column is a column of a table: the label Label, or the value of the query
// with the number Query, counted from 0, where Label is empty.
type Column struct {
	Label  string
	Query  int
	Title  string
	Unit   string
	Steps  []Step
	States []State
	Links  []Link
	// Gauge draws a bar as long as the value in each cell.
	Gauge bool
	// Width is in pixels; without one, a value is as wide as its heading and a
	// label takes what is left.
	Width float64
	// Hidden columns are for links.
	Hidden bool
}

// Matrix names the labels that become the rows and the columns of a table.
type Matrix struct{ Row, Column string }

// Variable is a drop-down at the top of a board.
type Variable struct {
	Name, Label string
	// Query lists its values; empty for the data source.
	Query string
	// Single allows one value only, and not all.
	Single bool
	// OrNone makes "All" include series without the label.
	OrNone bool
}

// Mark is an annotation: a line over all panels at each moment that its query
// returns, as Unix time in seconds.
type Mark struct {
	Name, Expr, Title, Text, Color string
	// Tags are labels, separated by commas.
	Tags string
	// Off marks are shown only when the reader turns them on.
	Off bool
}

// ptr returns a pointer to v.
func ptr[T any](v T) *T { return &v }
