package main

import (
	"fmt"
	"image/color"
	"math"
	"strings"
	"time"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// palette returns the color of the i-th line of a panel.
func palette(i int) color.Color {
	colors := []color.RGBA{
		{0x1f, 0x77, 0xb4, 0xff},
		{0xe3, 0x77, 0x22, 0xff},
		{0x2c, 0x9f, 0x5b, 0xff},
		{0x8e, 0x5b, 0xbf, 0xff},
		{0x17, 0x9c, 0xa8, 0xff},
		{0xb5, 0x7a, 0x1e, 0xff},
		{0xc2, 0x4f, 0x8a, 0xff},
		{0x55, 0x60, 0x6b, 0xff},
		{0x8f, 0xb8, 0xde, 0xff},
		{0x9a, 0xc2, 0x4e, 0xff},
	}
	return colors[i%len(colors)]
}

// alarm is the color of what is to be stayed below.
var alarm = color.RGBA{0xd1, 0x3b, 0x3b, 0xff}

// plotPanel returns the plot of a panel and its legend.
func plotPanel(p panel) (*plot.Plot, *plot.Legend, error) {
	out, legend := newPlot(p), newLegend()
	if strings.HasPrefix(p.title, "State") {
		rows := newStates(p.lines)
		out.Add(rows)
		out.Y.Min, out.Y.Max = -0.5, float64(len(rows))-0.5
		out.Y.Tick.Marker = names(rows)
		addStates(legend)
		return out, legend, nil
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = ruling, ruling
	out.Add(grid)
	drawn := 0
	for _, l := range p.lines {
		line, err := plotter.NewLine(points(l))
		if err != nil {
			return nil, nil, err
		}
		line.Width, line.Color = vg.Points(1.5), palette(drawn)
		if l.target {
			line.Color, line.Dashes = alarm, []vg.Length{5, 3}
		} else {
			drawn++
		}
		out.Add(line)
		legend.Add(l.legend, line)
	}
	out.Y.Min = 0
	out.Y.Max *= 1.08
	out.Y.Tick.Marker = unitTicks{p.unit}
	return out, legend, nil
}

// newPlot returns a plot with a time axis.
func newPlot(p panel) *plot.Plot {
	out := plot.New()
	out.BackgroundColor = paper
	for _, axis := range []*plot.Axis{&out.X, &out.Y} {
		label := &axis.Tick.Label
		label.Font, label.Color = style(8.5, faint, xfont.WeightNormal).Font, faint
		axis.Color, axis.Tick.Color = ruling, ruling
		axis.Padding = 4
	}
	out.X.Min, out.X.Max = float64(p.from.Unix()), float64(p.to.Unix())
	out.X.Tick.Marker = clock{p.to}
	return out
}

// newLegend returns an empty legend.
func newLegend() *plot.Legend {
	l := plot.NewLegend()
	l.Top, l.Left = true, true
	l.TextStyle = style(8.5, ink, xfont.WeightNormal)
	l.ThumbnailWidth, l.Padding = 14, 2
	return &l
}

// points returns the numbers of a line.
func points(l line) plotter.XYs {
	var xys plotter.XYs
	for _, p := range l.points {
		if !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) {
			xys = append(xys, plotter.XY{X: float64(p.Time.UnixMilli()) / 1000, Y: p.Value})
		}
	}
	return xys
}

// clock marks full minutes before the end.
type clock struct{ end time.Time }

// Ticks implements plot.Ticker.
func (c clock) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	end := float64(c.end.Unix())
	for minutes := 0; end-float64(60*minutes) >= low; minutes++ {
		name := "now"
		if minutes > 0 {
			name = fmt.Sprintf("-%d min", minutes)
		}
		ticks = append(ticks, plot.Tick{Value: end - float64(60*minutes), Label: name})
	}
	return ticks
}

// unitTicks writes values with a unit of Grafana.
type unitTicks struct{ unit string }

// Ticks implements plot.Ticker.
func (u unitTicks) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = withUnit(t.Value, u.unit)
		}
	}
	return ticks
}

// withUnit writes one value.
func withUnit(v float64, unit string) string {
	suffix, isSuffix := strings.CutPrefix(unit, "suffix:")
	switch {
	case unit == "s" && v != 0 && v < 1:
		return fmt.Sprintf("%.4g ms", v*1000)
	case unit == "s":
		return fmt.Sprintf("%.4g s", v)
	case unit == "percentunit":
		return fmt.Sprintf("%.4g %%", v*100)
	case unit == "cpm":
		return fmt.Sprintf("%.4g/min", v)
	case isSuffix:
		return fmt.Sprintf("%.4g %s", v, strings.TrimSpace(suffix))
	}
	return fmt.Sprintf("%.4g", v)
}
