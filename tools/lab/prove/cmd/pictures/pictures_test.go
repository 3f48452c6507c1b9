package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/tools/lab/prove/board"
	"github.com/inference-exporter/inference_exporter/tools/lab/prove/stand"
)

func TestWithUnit(t *testing.T) {
	for _, c := range []struct {
		value      float64
		unit, want string
	}{
		{0.25, "s", "250 ms"},
		{2.5, "s", "2.5 s"},
		{0, "s", "0 s"},
		{0.144, "percentunit", "14.4 %"},
		{30, "cpm", "30/min"},
		{14.4, "suffix: x", "14.4 x"},
		{7, "none", "7"},
	} {
		if got := withUnit(c.value, c.unit); got != c.want {
			t.Errorf("%v %s: %s, want %s", c.value, c.unit, got, c.want)
		}
	}
}

func TestAdd(t *testing.T) {
	at := time.Unix(60, 0)
	series := func(module string, value float64) stand.Series {
		return stand.Series{Labels: map[string]string{"module": module}, Points: []stand.Point{{Time: at, Value: value}}}
	}
	var p panel
	p.add("median {{module}}", []stand.Series{series("b", 0), series("a", 1)})
	p.add("objective {{module}}", []stand.Series{series("a", 1), series("b", 1)})
	want := []line{{legend: "median a"}, {legend: "median b"}, {legend: "objective", target: true}}
	if len(p.lines) != len(want) {
		t.Fatalf("%+v", p.lines)
	}
	for i, l := range p.lines {
		if l.legend != want[i].legend || l.target != want[i].target {
			t.Errorf("line %d: %q %t, want %q %t", i, l.legend, l.target, want[i].legend, want[i].target)
		}
	}
	counts := panel{unit: "cpm"}
	counts.add("{{module}}", []stand.Series{series("never", 0), series("often", 3)})
	if len(counts.lines) != 1 || counts.lines[0].legend != "often" {
		t.Errorf("%+v", counts.lines)
	}
}

// TestPicturesExist looks for the panels of the pictures on the boards.
func TestPicturesExist(t *testing.T) {
	for _, p := range pictures() {
		b, err := board.Read(filepath.Join("../../../../../dashboards", p.board+".json"))
		if err != nil {
			t.Fatal(err)
		}
		titles := map[string]bool{}
		for _, q := range b.Queries {
			titles[q.Panel] = true
		}
		for _, title := range p.panels {
			if !titles[title] {
				t.Errorf("%s has no panel %s", p.board, title)
			}
		}
	}
}

func TestDraw(t *testing.T) {
	from := time.Unix(0, 0)
	points := []stand.Point{{Time: from, Value: 0}, {Time: from.Add(time.Minute), Value: 1}}
	file := filepath.Join(t.TempDir(), "a.png")
	err := drawPanels(file, "Title", []panel{
		{title: "State", lines: []line{{legend: "a b", points: points}}, from: from, to: from.Add(time.Minute)},
		{title: "Lines", unit: "s", lines: []line{{legend: "a", points: points}, {legend: "empty"}}, from: from, to: from.Add(time.Minute)},
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || len(text) < 1000 || string(text[1:4]) != "PNG" {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
