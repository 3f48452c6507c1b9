package engine

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// labEpoch is when the first page is read.
var labEpoch = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// pageLab reads pages with a mapping of its own, the engine acme.
type pageLab struct {
	*testing.T
	reader *Reader
	now    time.Time
	want   Want
}

func newPageLab(t *testing.T, mapping string) *pageLab {
	t.Helper()
	m, err := newMappings(nil, map[string]*config.Engine{"acme": parseMapping(t, mapping)})
	if err != nil {
		t.Fatal(err)
	}
	return &pageLab{T: t, reader: m.NewReader(), now: labEpoch}
}

func parseMapping(tb testing.TB, text string) *config.Engine {
	tb.Helper()
	e, err := config.ParseEngine([]byte(text), "acme.yml")
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// read reads the next page, 15 s after the one before it.
func (l *pageLab) read(page string) *Snapshot {
	l.Helper()
	l.now = l.now.Add(15 * time.Second)
	s, err := l.reader.Read([]byte(page), "text/plain; version=0.0.4", l.now, l.want)
	if err != nil {
		l.Fatalf("Read: %v", err)
	}
	return s
}

// reason reads a page that must be refused, and returns why it was.
func (l *pageLab) reason(page, contentType string) (Reason, string) {
	l.Helper()
	s, err := l.reader.Read([]byte(page), contentType, l.now, l.want)
	if err == nil {
		l.Fatalf("Read: no error, and %+v", s)
	}
	return err.(*PageError).Reason, err.Error()
}

// wantValue compares a number; want < 0 is for none.
func (l *pageLab) wantValue(s *Snapshot, q config.Quantity, want float64) {
	l.Helper()
	got, ok := s.Values[q]
	switch {
	case want < 0 && ok:
		l.Errorf("%s = %v, want none", q, got)
	case want >= 0 && !ok:
		l.Errorf("%s is absent, want %v", q, want)
	case want >= 0 && got != want:
		l.Errorf("%s = %v, want %v", q, got, want)
	}
}

func (l *pageLab) wantHistogram(s *Snapshot, q config.Quantity, want *Histogram) {
	l.Helper()
	got := s.Histograms[q]
	switch {
	case got == nil && want == nil:
	case got == nil || want == nil:
		l.Errorf("%s = %+v, want %+v", q, got, want)
	case !slices.Equal(got.Bounds, want.Bounds) || !slices.Equal(got.Counts, want.Counts) || got.Count != want.Count || got.Sum != want.Sum:
		l.Errorf("%s = %+v, want %+v", q, *got, *want)
	}
}

func (l *pageLab) wantRequests(s *Snapshot, want map[string]float64) {
	l.Helper()
	if !maps.Equal(s.Requests, want) {
		l.Errorf("requests %v, want %v", s.Requests, want)
	}
}
