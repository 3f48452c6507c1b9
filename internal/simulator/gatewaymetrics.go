package simulator

import (
	"bytes"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// gatewayMetrics is the page of a gateway: some of the metrics of the endpoint picker of
// kubernetes-sigs/gateway-api-inference-extension, with its names, labels and buckets
// (pkg/epp/metrics/metrics.go).
type gatewayMetrics struct {
	registry *prometheus.Registry
	requests prometheus.Counter
	errors   *prometheus.CounterVec // by error_code
	duration prometheus.Observer
	queue    *prometheus.HistogramVec // by outcome
	waiting  prometheus.Gauge
	attempts *prometheus.CounterVec // by status
}

func newGatewayMetrics(g *Gateway) *gatewayMetrics {
	model := prometheus.Labels{"model_name": "", "target_model_name": ""}
	if len(g.replicas) > 0 {
		name := g.replicas[0].o.withDefaults().Model
		model = prometheus.Labels{"model_name": name, "target_model_name": name}
	}
	flow := with(with(with(model, "fairness_id", "default-flow"), "priority", "0"), "inference_pool", g.o.Pool)
	m := &gatewayMetrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "inference_objective_request_total", Help: "Requests.", ConstLabels: model,
		}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "inference_objective_request_error_total", Help: "Requests that failed.", ConstLabels: model,
		}, []string{"error_code"}),
		queue: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "inference_extension_flow_control_request_queue_duration_seconds",
			Help: "Time in the flow control layer.", ConstLabels: flow,
			Buckets: []float64{.0001, .0005, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"outcome"}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "inference_extension_flow_control_queue_size", Help: "Requests in the flow control layer.", ConstLabels: flow,
		}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "inference_extension_scheduler_attempts_total", Help: "Scheduling attempts.",
		}, []string{"status"}),
	}
	duration := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "inference_objective_request_duration_seconds", Help: "Duration of requests.", ConstLabels: model,
		Buckets: []float64{.005, .025, .05, .1, .2, .4, .6, .8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 120, 180, 240, 300, 600, 1200, 3600},
	})
	m.duration = duration
	ready := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "inference_pool_ready_pods", Help: "Ready engines.", ConstLabels: prometheus.Labels{"name": g.o.Pool},
	}, func() float64 { return float64(len(g.ready())) })
	m.registry.MustRegister(m.requests, m.errors, m.queue, m.waiting, m.attempts, duration, ready)
	return m
}

// queued counts a request that left the queue.
func (m *gatewayMetrics) queued(outcome string, waited time.Duration) {
	m.queue.WithLabelValues(outcome).Observe(waited.Seconds())
}

func (m *gatewayMetrics) serve(w http.ResponseWriter, _ *http.Request) {
	page, err := textOf(m.registry)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(page) // the client is gone
}

// textOf returns the page of a registry in the text format.
func textOf(r *prometheus.Registry) ([]byte, error) {
	families, err := r.Gather()
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&page, f); err != nil {
			return nil, err
		}
	}
	return page.Bytes(), nil
}
