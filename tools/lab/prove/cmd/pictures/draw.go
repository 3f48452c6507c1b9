package main

import (
	"image/color"
	"os"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Sizes, in points: a picture is as wide as a page of text.
const (
	width       = vg.Length(980)
	panelHeight = vg.Length(220)
	headHeight  = vg.Length(44)
	footHeight  = vg.Length(30)
	margin      = vg.Length(12)
	legendWidth = vg.Length(122)
	columns     = 2
	dpi         = 100
)

// caption says what the picture is.
const caption = "Drawn from the same queries, not a Grafana screenshot. Simulated servers, probed every second."

// Colors: of the page, of a panel, of text, of lines of a grid.
var (
	page   = color.RGBA{0xf4, 0xf5, 0xf7, 0xff}
	paper  = color.RGBA{0xff, 0xff, 0xff, 0xff}
	ink    = color.RGBA{0x24, 0x29, 0x2e, 0xff}
	faint  = color.RGBA{0x6a, 0x73, 0x7d, 0xff}
	ruling = color.RGBA{0xe5, 0xe7, 0xeb, 0xff}
)

// drawPanels draws panels below a title into a PNG file.
func drawPanels(file, title string, panels []panel) error {
	rows := (len(panels) + columns - 1) / columns
	height := headHeight + vg.Length(rows)*panelHeight + footHeight
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(page))
	whole := draw.New(canvas)
	whole.FillText(style(16, ink, xfont.WeightBold), vg.Point{X: margin, Y: height - 28}, title)
	whole.FillText(style(9, faint, xfont.WeightNormal), vg.Point{X: margin, Y: 11}, caption)
	for i, p := range panels {
		box := draw.Canvas{Canvas: canvas, Rectangle: place(i, height)}
		box.SetColor(paper)
		box.Fill(box.Rectangle.Path())
		box.FillText(style(11, ink, xfont.WeightBold), vg.Point{X: box.Min.X + 12, Y: box.Max.Y - 18}, p.title)
		plotted, legend, err := plotPanel(p)
		if err != nil {
			return err
		}
		plotted.Draw(draw.Crop(box, 10, -10-legendWidth, 8, -28))
		legend.Draw(draw.Crop(box, box.Size().X-legendWidth, -4, 8, -30))
	}
	return write(file, canvas)
}

// place returns where a panel goes.
func place(i int, height vg.Length) vg.Rectangle {
	w := (width - margin) / columns
	left := margin + vg.Length(i%columns)*w
	top := height - headHeight - vg.Length(i/columns)*panelHeight
	return vg.Rectangle{
		Min: vg.Point{X: left, Y: top - panelHeight + margin},
		Max: vg.Point{X: left + w - margin, Y: top},
	}
}

// style returns a style of text.
func style(size vg.Length, c color.Color, weight xfont.Weight) text.Style {
	return text.Style{
		Color: c, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size, Weight: weight},
		Handler: plot.DefaultTextHandler,
	}
}

func write(file string, canvas *vgimg.Canvas) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
