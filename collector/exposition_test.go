package collector

import (
	"errors"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// The forms are those of expfmt's text and OpenMetrics writers.
func TestAppendFloat(t *testing.T) {
	f := func(v float64, text, open string) {
		t.Helper()
		if got := string(appendFloat(nil, v, false)); got != text {
			t.Errorf("text form of %v = %s, want %s", v, got, text)
		}
		if got := string(appendFloat(nil, v, true)); got != open {
			t.Errorf("OpenMetrics form of %v = %s, want %s", v, got, open)
		}
	}
	f(0, "0", "0.0")
	f(1, "1", "1.0")
	f(-1, "-1", "-1.0")
	f(0.25, "0.25", "0.25")
	f(999999, "999999", "999999.0")
	f(1e6, "1e+06", "1e+06")
	f(1234567, "1.234567e+06", "1.234567e+06")
	f(1e-5, "1e-05", "1e-05")
	f(math.Inf(1), "+Inf", "+Inf")
	f(math.Inf(-1), "-Inf", "-Inf")
	f(math.NaN(), "NaN", "NaN")
}

func TestConcurrentUse(t *testing.T) {
	p := NewProbes(time.Now)
	e := NewExposition(prometheus.NewRegistry(), p)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			id := result.SeriesID{Endpoint: string(rune('a' + i)), Module: "i"}
			for n := range 50 {
				r := success()
				r.Model = string(rune('a' + n/10))
				s := p.Open(id, SeriesOptions{})
				s.Observe(r)
				s.Skip(result.SkipLimit)
				p.SetEndpoint(EndpointInfo{Endpoint: id.Endpoint, Model: r.Model})
				if n%20 == 19 {
					p.Remove(id)
					p.RemoveEndpoint(id.Endpoint)
				}
			}
		})
	}
	for _, format := range Formats() {
		wg.Go(func() {
			for range 10 {
				if err := e.Write(io.Discard, format); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestWriteErrors(t *testing.T) {
	p, s := newStore()
	s.Observe(success())
	e := NewExposition(prometheus.NewRegistry(), p)
	for _, format := range []expfmt.Format{expfmt.FmtProtoText, expfmt.FmtOpenMetrics_2_0_0, expfmt.FmtUnknown} {
		if err := e.Write(io.Discard, format); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Write(%s) = %v, want unsupported", format, err)
		}
	}
	broken := errors.New("broken")
	for _, format := range Formats() {
		for _, after := range []int{0, 1} {
			if err := e.Write(&brokenWriter{after, broken}, format); !errors.Is(err, broken) {
				t.Errorf("Write(%s) into a broken writer = %v, want %v", format, err, broken)
			}
		}
	}
	failing := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return nil, broken })
	var b strings.Builder
	err := NewExposition(failing, p).Write(&b, expfmt.FmtOpenMetrics_1_0_0)
	if !errors.Is(err, broken) {
		t.Errorf("Write with a failing registry = %v, want %v", err, broken)
	}
	if !strings.HasSuffix(b.String(), "# EOF\n") || !strings.Contains(b.String(), "inference_probe_success") {
		t.Error("a failing registry took the probes' page with it")
	}
}

// brokenWriter fails after some writes.
type brokenWriter struct {
	after int
	err   error
}

func (w *brokenWriter) Write(b []byte) (int, error) {
	if w.after--; w.after < 0 {
		return 0, w.err
	}
	return len(b), nil
}
