package collector

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/testing/protocmp"

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
			e := p.OpenEndpoint(EndpointInfo{Endpoint: id.Endpoint})
			for n := range 50 {
				r := success()
				r.Model = string(rune('a' + n/10))
				if n%20 == 0 {
					e.Close()
					e = p.OpenEndpoint(EndpointInfo{Endpoint: id.Endpoint, Model: r.Model})
				}
				e.SetServed(r)
				s := e.Open(id, SeriesOptions{})
				s.Observe(r)
				s.Skip(result.SkipLimit)
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

// The key k of schema s covers (2^((k-1)/2^s), 2^(k/2^s)], after the
// specification of native histograms.
func TestNativeKey(t *testing.T) {
	f := func(v float64, schema, want int32) {
		t.Helper()
		if got := nativeKey(v, schema); got != want {
			t.Errorf("nativeKey(%v, %d) = %d, want %d", v, schema, got, want)
		}
	}
	f(1, 3, 0)
	f(math.Nextafter(1, 2), 3, 1)
	f(2, 3, 8)
	f(0.5, 3, -8)
	f(math.Nextafter(0.5, 1), 3, -7)
	f(1.09, 3, 1)  // 2^(1/8) is 1.0905
	f(1.091, 3, 2) // just above it
	f(4, 0, 2)
	f(5, 0, 3)
	f(0.25, -1, -1)
	f(0.26, -1, 0)
	f(65536, -4, 1)
	f(65537, -4, 2)

	r := rand.New(rand.NewPCG(1, 2))
	for range 10000 {
		v := math.Exp2(60*r.Float64() - 40)
		for schema := int32(nativeMinSchema); schema <= nativeSchema; schema++ {
			exact := math.Log2(v) * math.Exp2(float64(schema))
			if want := math.Ceil(exact); math.Abs(exact-math.Round(exact)) > 1e-9 {
				f(v, schema, int32(want))
			}
		}
	}
}

// Widening far beyond what durations can reach gives what client_golang gives.
func TestWidening(t *testing.T) {
	bounds := []float64{1}
	for _, octaves := range []float64{10, 50, 100, 500, 2000} {
		h := newHistogram(&bounds)
		ref := prometheus.NewHistogram((&Family{Name: "x", Help: "x"}).histogramOpts(bounds))
		r := rand.New(rand.NewPCG(uint64(octaves), 3))
		for range 2000 {
			v := math.Exp2(octaves * (r.Float64() - 0.5))
			h.observe(v)
			ref.Observe(v)
		}
		want := &dto.Metric{}
		if err := ref.Write(want); err != nil {
			t.Fatal(err)
		}
		clearCreated(want)
		got := protoOf(t, &h)
		clearCreated(got)
		if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
			t.Errorf("%v octaves (-client_golang +store):\n%s", octaves, clip(d))
		}
		if n := len(h.sparse); n > nativeMaxBuckets {
			t.Errorf("%v octaves: %d sparse buckets at schema %d, want at most %d", octaves, n, h.schema, nativeMaxBuckets)
		}
	}
}

// The bucket after the 160th halves the resolution, not the 160th.
func TestBucketLimit(t *testing.T) {
	h := newHistogram(&[]float64{1})
	for i := range nativeMaxBuckets {
		h.observe(math.Exp2((float64(i) + 0.5) / 8)) // one in each bucket from 1 up
	}
	if h.schema != 3 || len(h.sparse) != 160 {
		t.Errorf("after 160 buckets: schema %d, %d buckets; want 3, 160", h.schema, len(h.sparse))
	}
	h.observe(math.Exp2(160.5 / 8))
	if h.schema != 2 || len(h.sparse) != 81 {
		t.Errorf("after 161 buckets: schema %d, %d buckets; want 2, 81", h.schema, len(h.sparse))
	}
}

// protoOf encodes h alone and decodes it.
func protoOf(t *testing.T, h *histogram) *dto.Metric {
	t.Helper()
	e := &protoEncoder{}
	e.begin(newFamily(Family{Name: "x", Type: Histogram}, *h.bounds))
	e.labels(newLabeller().block(nil, nil), time.Unix(0, 0))
	e.histogram(h)
	return decodeOne(t, e).Metric[0]
}

func TestExemplars(t *testing.T) {
	h := newHistogram(&[]float64{1, 2})
	at := time.Unix(100, 0)
	trace := func(b byte) [16]byte { return [16]byte{15: b} }
	h.observeTraced(1.5, trace(1), at)
	h.observeTraced(9, trace(2), at)
	h.observeTraced(1, trace(3), at)
	h.observeTraced(2, trace(4), at)     // replaces the one of 1.5
	h.observeTraced(0.5, [16]byte{}, at) // no trace: the one of 1 stays
	want := []exemplar{
		{1, 100e9, trace(3)}, {2, 100e9, trace(4)}, {9, 100e9, trace(2)},
	}
	if d := cmp.Diff(want, h.exemplars, cmp.AllowUnexported(exemplar{})); d != "" {
		t.Errorf("exemplars (-want +got):\n%s", d)
	}
	if h.count != 5 || h.sum != 14 || !slices.Equal(h.counts, tally{newTallied(0, 2), newTallied(1, 2)}) {
		t.Errorf("count %d, sum %v, buckets %v; want 5, 14, [2 2]", h.count, h.sum, h.counts)
	}
}

// A message longer than its reserved length byte is moved, whatever its size.
func TestProtoLengths(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 129, 16383, 16384, 70000} {
		b := newLabeller().block([]pair{{"endpoint", string(make([]byte, n))}}, nil)
		e := &protoEncoder{}
		e.begin(newFamily(Family{Name: "x", Type: Gauge}, nil))
		e.labels(b, time.Unix(0, 0))
		e.gauge(0, 3)
		m := decodeOne(t, e).Metric[0]
		if got := m.GetGauge().GetValue(); got != 3 {
			t.Errorf("label of %d bytes: value %v, want 3", n, got)
		}
		if n > 0 && len(m.Label[0].GetValue()) != n {
			t.Errorf("label of %d bytes came back with %d", n, len(m.Label[0].GetValue()))
		}
	}
}
