package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/proto"

	"github.com/inference-exporter/inference_exporter/config"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// metricsReceiver is an OTLP receiver in place of a connection, which keeps what it gets.
type metricsReceiver struct {
	t *testing.T

	mu       sync.Mutex
	err      error  // of the connection
	status   int    // 0 is 200
	reply    []byte // the body of the answer
	takes    time.Duration
	requests []*http.Request
	got      []*metricspb.ResourceMetrics
}

func (v *metricsReceiver) RoundTrip(r *http.Request) (*http.Response, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-time.After(v.takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	v.requests = append(v.requests, r)
	if v.err != nil {
		return nil, v.err
	}
	if v.status == 0 {
		v.got = append(v.got, decodeRequest(v.t, r.Body).ResourceMetrics...)
	}
	return &http.Response{StatusCode: max(v.status, 200), Status: http.StatusText(max(v.status, 200)), Body: io.NopCloser(bytes.NewReader(v.reply))}, nil
}

func decodeRequest(t *testing.T, body io.Reader) *metricspb.MetricsData {
	t.Helper()
	unzipped, err := gzip.NewReader(body)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	var req metricspb.MetricsData // has the form of ExportMetricsServiceRequest, without gRPC
	if err := proto.Unmarshal(raw, &req); err != nil {
		t.Fatalf("request is not OTLP: %v", err)
	}
	return &req
}

func (v *metricsReceiver) set(change func(*metricsReceiver)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(v)
}

// value returns the latest value of a metric of one point.
func (v *metricsReceiver) value(name string) (value float64, found bool) {
	for _, resource := range v.got {
		for _, scope := range resource.ScopeMetrics {
			for _, m := range scope.Metrics {
				if m.Name == name {
					value, found = m.GetSum().DataPoints[0].GetAsDouble(), true
				}
			}
		}
	}
	return value, found
}

// pageOf returns what writes the page of a registry.
func pageOf(g prometheus.Gatherer) func(io.Writer) error {
	return func(w io.Writer) error {
		families, err := g.Gather()
		if err != nil {
			return err
		}
		e := expfmt.NewEncoder(w, expfmt.FmtProtoDelim)
		for _, f := range families {
			if err := e.Encode(f); err != nil {
				return err
			}
		}
		return nil
	}
}

// newExporter returns an exporter of a registry every minute, and its log.
func newExporter(t *testing.T, g prometheus.Gatherer, to http.RoundTripper) (*Metrics, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	e := NewMetrics("1.2.3", pageOf(g), slog.New(slog.NewTextHandler(&log, nil)))
	e.Use(config.Metrics{
		OTLPEndpoint: config.URL{URL: urlOf(t, "http://receiver:4318")}, Headers: map[string]promconfig.Secret{"X-Key": "secret-3141"},
		Interval: model.Duration(time.Minute),
	})
	e.active.Load().receiver.client.Transport = to
	return e, &log
}

func start(t *testing.T, e *Metrics) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

// A receiver that is away for an hour gets the latest state afterwards in one push, and
// nothing waits for it: neither what is observed, nor a next push.
func TestReceiverIsDownForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "c_total", Help: "h"})
		registry := prometheus.NewRegistry()
		registry.MustRegister(counter)
		v := &metricsReceiver{t: t, err: errors.New("connection refused, with secret-3141")}
		e, log := newExporter(t, registry, v)
		stop := start(t, e)
		for range 60 {
			began := time.Now()
			e.Observe(Target{Endpoint: "e", Module: "m", URL: urlOf(t, "http://h")}, answered())
			if d := time.Since(began); d != 0 {
				t.Errorf("a result was held up for %v", d)
			}
			counter.Inc()
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		if n, failed := e.pushes.Load(), e.failures.Load(); n != 0 || failed != 60 {
			t.Errorf("%d pushes and %d failures, want 0 and 60", n, failed)
		}
		if text := log.String(); strings.Count(text, "failing") != 1 || strings.Contains(text, "3141") {
			t.Errorf("the log of the outage: %s", text)
		}
		requests := len(v.requests)
		v.set(func(v *metricsReceiver) { v.err = nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, found := v.value("c_total"); !found || got != 60 || e.pushes.Load() != 1 {
			t.Errorf("after the outage: %v (%v), %d pushes", got, found, e.pushes.Load())
		}
		if n := len(v.requests) - requests; n != 1 { // with the page and the metrics beside it
			t.Errorf("%d requests after the outage, want the one of one push", n)
		}
		counter.Inc()
		stop()
		if got, _ := v.value("c_total"); got != 61 {
			t.Errorf("the last push has %v, want 61", got)
		}
	})
}

// A receiver that does not answer is given up.
func TestReceiverHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &metricsReceiver{t: t, takes: time.Hour}
		registry := prometheus.NewRegistry()
		registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "c_total", Help: "h"}))
		e, _ := newExporter(t, registry, v)
		stop := start(t, e)
		time.Sleep(10*time.Minute + 30*time.Second)
		if n := e.failures.Load(); n != 10 {
			t.Errorf("%d failures in 10 minutes, want 10", n)
		}
		began := time.Now()
		stop()
		if d := time.Since(began); d > flushTimeout {
			t.Errorf("the end took %v", d)
		}
	})
}

func TestRefusals(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "c_total", Help: "h"}))
	f := func(status int, reply []byte, failures uint64, says string) {
		t.Helper()
		v := &metricsReceiver{t: t, status: status, reply: reply}
		e, log := newExporter(t, registry, v)
		e.push(t.Context(), e.active.Load())
		if got := e.failures.Load(); got != failures || !strings.Contains(log.String(), says) {
			t.Errorf("status %d: %d failures, log %s", status, got, log)
		}
		r := v.requests[0]
		if r.URL.String() != "http://receiver:4318/v1/metrics" || r.Header.Get("X-Key") != "secret-3141" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("request to %s with %v", r.URL, r.Header)
		}
	}
	f(0, nil, 0, "")
	f(0, partialSuccess(0, "m"), 0, "")
	f(0, partialSuccess(3, "m"), 1, "rejects 3: m")
	f(0, []byte("\xff\xff"), 0, "") // no message
	f(0, append(make([]byte, 64<<10), partialSuccess(3, "m")...), 1, "too large")
	f(http.StatusServiceUnavailable, nil, 1, "Service Unavailable")
	f(http.StatusTemporaryRedirect, nil, 1, "Temporary Redirect")
}
