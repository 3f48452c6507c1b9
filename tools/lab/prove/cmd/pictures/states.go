package main

import (
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// states draws a row for each line, colored by its value: the code of a state.
type states []line

// newStates returns rows in the order of their names, the first on top.
func newStates(lines []line) states {
	rows := states(slices.Clone(lines))
	slices.Reverse(rows)
	return rows
}

// Plot implements plot.Plotter.
func (s states) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	half := step.Seconds() / 2
	for row, l := range s {
		for _, point := range l.points {
			at := float64(point.Time.Unix())
			box := vg.Rectangle{
				Min: vg.Point{X: max(c.Min.X, x(at-half)), Y: y(float64(row) - 0.3)},
				Max: vg.Point{X: min(c.Max.X, x(at+half)+0.3), Y: y(float64(row) + 0.3)},
			}
			c.SetColor(stateColor(point.Value))
			c.Fill(box.Path())
		}
	}
}

// addStates explains the colors.
func addStates(l *plot.Legend) {
	for _, s := range known() {
		l.Add(s.name, swatch{s.color})
	}
}

// swatch is a color in a legend.
type swatch struct{ color color.Color }

// Thumbnail implements plot.Thumbnailer.
func (s swatch) Thumbnail(c *draw.Canvas) {
	c.SetColor(s.color)
	c.Fill(c.Rectangle.Path())
}

// state is a state of an endpoint by its code on the boards.
type state struct {
	code  float64
	name  string
	color color.Color
}

// known returns the states that the test setup has.
func known() []state {
	return []state{
		{2, "up", color.RGBA{0x3c, 0xa6, 0x5e, 0xff}},
		{4, "slow", color.RGBA{0xf2, 0xcc, 0x3d, 0xff}},
		{5, "degraded", color.RGBA{0xe8, 0x8a, 0x3d, 0xff}},
		{6, "flapping", color.RGBA{0x8f, 0x1f, 0x1f, 0xff}},
		{7, "down", alarm},
		{9, "waiting", color.RGBA{0x8f, 0xb8, 0xde, 0xff}},
	}
}

func stateColor(code float64) color.Color {
	for _, s := range known() {
		if s.code == code {
			return s.color
		}
	}
	return ruling
}

// names marks each row with the first word of its legend.
type names []line

// Ticks implements plot.Ticker.
func (n names) Ticks(low, high float64) []plot.Tick {
	ticks := make([]plot.Tick, len(n))
	for i, l := range n {
		name, _, _ := strings.Cut(l.legend, " ")
		ticks[i] = plot.Tick{Value: float64(i), Label: name}
	}
	return ticks
}
