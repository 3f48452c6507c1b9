// Package otlp pushes over OTLP/HTTP: the page of metrics, beside it the client metrics of OpenTelemetry's semantic
// conventions for generative AI, and each result of a probe as the root span of the trace that the probe announced to
// the server. It sees what a Result says and nothing of prompts and answers.
package otlp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	promconfig "github.com/prometheus/common/config"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
)

const (
	// flushTimeout is how long the last push, or the spans that are left, may take at the end.
	flushTimeout = 500 * time.Millisecond
	// scope names what the points come from.
	scope = "github.com/inference-exporter/inference_exporter"
)

// Metrics pushes the state of all metrics at each interval. They are cumulative, so that a push that
// fails is lost without loss: nothing is queued, and the next one has all.
type Metrics struct {
	version          string
	page             func(io.Writer) error
	logger           *slog.Logger
	resource         *resourcepb.Resource
	settings         config.Metrics // in use
	active           atomic.Pointer[push]
	pushes, failures atomic.Uint64
}

// push is what the settings in use ask for.
type push struct {
	receiver *receiver // nil is none
	interval time.Duration
	client   *clientMetrics // nil without a receiver
	replaced chan struct{}  // closed when other settings are in use
}

// NewMetrics returns an export without a receiver. page writes the metrics in Prometheus' delimited protobuf format.
func NewMetrics(version string, page func(io.Writer) error, logger *slog.Logger) *Metrics {
	resource := newResource(version)
	if host, err := os.Hostname(); err == nil {
		resource.Attributes = append(resource.Attributes, attributeOf(semconv.ServiceInstanceIDKey, host))
	}
	m := &Metrics{version: version, page: page, logger: logger, resource: resource}
	m.active.Store(&push{replaced: make(chan struct{})})
	return m
}

// newResource says what the metrics and the spans come from.
func newResource(version string) *resourcepb.Resource {
	return &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
		attributeOf(semconv.ServiceNameKey, "inference_exporter"), attributeOf(semconv.ServiceVersionKey, version),
	}}
}

// Use pushes by other settings from now on. A receiver that is replaced gets a last push. Calls must not be concurrent.
func (m *Metrics) Use(settings config.Metrics) {
	settings.Compact = false // which concerns the page alone
	if reflect.DeepEqual(settings, m.settings) {
		return
	}
	m.settings = settings
	before := m.active.Load()
	next := &push{
		receiver: newReceiver(settings.OTLPEndpoint, "/v1/metrics", settings.Headers),
		interval: time.Duration(settings.Interval), replaced: make(chan struct{}),
	}
	if next.receiver != nil {
		next.client = cmp.Or(before.client, newClientMetrics())
	}
	m.active.Store(next)
	close(before.replaced)
}

// Observe records the result of a probe for the client metrics. It never waits for the receiver.
func (m *Metrics) Observe(t Target, r *result.Result) {
	if client := m.active.Load().client; client != nil {
		client.observe(t, r)
	}
}

// Retain drops the client metrics of all endpoints but those of the given names.
func (m *Metrics) Retain(endpoints map[string]bool) {
	if client := m.active.Load().client; client != nil {
		client.retain(endpoints)
	}
}

// Pushes counts the pushes that a receiver took as a whole, and the others; exporting reports whether there is a receiver.
func (m *Metrics) Pushes() (succeeded, failed uint64, exporting bool) {
	return m.pushes.Load(), m.failures.Load(), m.active.Load().receiver != nil
}

// Run pushes until ctx ends, and once more within flushTimeout after that. It returns nil. It must be called once.
func (m *Metrics) Run(ctx context.Context) error {
	sending, cancel := outlast(ctx)
	defer cancel()
	for ctx.Err() == nil {
		m.pushEach(ctx, sending, m.active.Load())
	}
	return nil
}

// pushEach pushes to the receiver of p, if there is one, at each interval until ctx ends or p is replaced, and then once more.
func (m *Metrics) pushEach(ctx, sending context.Context, p *push) {
	tick := time.Tick(p.interval)
	for last := false; !last; {
		select {
		case <-tick:
		case <-p.replaced:
			last = true
		case <-ctx.Done():
			last = true
		}
		if p.receiver != nil {
			m.push(sending, p)
		}
	}
}

// outlast returns a context that ends flushTimeout after ctx, so that a request that runs then may use the time left.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(flushTimeout, cancel) })
	return sending, func() {
		stop()
		cancel()
	}
}

// push sends the state of this moment, and counts how that went.
func (m *Metrics) push(ctx context.Context, p *push) {
	requests, err := m.encode(time.Now(), p.client)
	for _, body := range requests {
		if err == nil {
			err = p.receiver.send(ctx, body)
		}
	}
	if err != nil {
		m.failures.Add(1)
	} else {
		m.pushes.Add(1)
	}
	p.receiver.log(m.logger, "metrics export", err, "failures", m.failures.Load())
}

// encode returns the bodies of the requests with the state of now. All of it is read
// before the first one is sent, so that a slow receiver does not make values differ in age.
func (m *Metrics) encode(now time.Time, client *clientMetrics) (requests [][]byte, err error) {
	p := &page{at: uint64(now.UnixNano()), full: func(metrics []*metricspb.Metric) error {
		body, err := m.request(metrics)
		requests = append(requests, body)
		return err
	}}
	if err := m.page(p); err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	if err := client.addTo(p); err != nil {
		return nil, err
	}
	err = p.end() // which may add a request
	return requests, err
}

// request returns the compressed body of a request. MetricsData has the form of ExportMetricsServiceRequest.
func (m *Metrics) request(metrics []*metricspb.Metric) ([]byte, error) {
	return bodyOf(&metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource: m.resource, SchemaUrl: semconv.SchemaURL,
		ScopeMetrics: []*metricspb.ScopeMetrics{{
			Scope: &commonpb.InstrumentationScope{Name: scope, Version: m.version}, Metrics: metrics, SchemaUrl: semconv.SchemaURL,
		}},
	}}})
}

const (
	// exportTimeout limits one request to the receiver.
	exportTimeout = 5 * time.Second
	// maxReply bounds the receiver's reply, in bytes.
	maxReply = 64 << 10
	// maxReceiverText bounds what is quoted of the receiver, in bytes.
	maxReceiverText = 512
)

// receiver takes one signal over OTLP/HTTP.
type receiver struct {
	client  *http.Client
	target  string
	headers map[string]promconfig.Secret
	secrets *safetext.Secrets // in the headers
	failing bool              // it did not take the last request; used by log only
}

// newReceiver returns the receiver of a signal: at path, as in /v1/traces, under the base
// URL, by the rule of the OTLP/HTTP specification, unless the URL ends in it. It is nil without a URL.
func newReceiver(endpoint config.URL, path string, headers map[string]promconfig.Secret) *receiver {
	target := endpoint.URL
	if target == nil {
		return nil
	}
	if !strings.HasSuffix(strings.TrimRight(target.Path, "/"), path) {
		target = target.JoinPath(path)
	}
	secrets := safetext.NewSecrets()
	for _, value := range headers {
		secrets = secrets.With(string(value)).With(safetext.InHeader(string(value))...)
	}
	return &receiver{
		client: foreign.NewClient(foreign.Limits{Time: exportTimeout, Bytes: maxReply}),
		target: target.String(), headers: headers, secrets: secrets,
	}
}

// rejectedError is that of a receiver which took a request in part.
type rejectedError struct {
	number  uint64 // of spans or points that it rejected
	message string // of the receiver
}

func (e *rejectedError) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("the receiver rejects %d: %s", e.number, e.message), ": ")
}

// send posts the compressed body of one request; see bodyOf. The receiver has taken it
// unless there is an error, which is a *rejectedError where it took a part.
func (r *receiver) send(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.target, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL of the receiver is unusable")
	}
	for name, value := range r.headers {
		req.Header.Set(name, string(value))
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "gzip")
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		says, _ := foreign.Start(resp.Body, maxReceiverText)
		return fmt.Errorf("the receiver answers %s %s", resp.Status, says)
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return fmt.Errorf("the receiver answers with content encoding %.32q, which was not asked for", encoding)
	}
	reply, err := foreign.ReadAll(resp.Body, maxReply)
	if err != nil {
		return fmt.Errorf("read the receiver's reply: %w", err)
	}
	return rejection(reply, resp.Header.Get("Content-Type"))
}

// log logs that the receiver fails or is back, once for each, with a count. Errors may quote the receiver
// at length, and with it the headers that it got.
func (r *receiver) log(logger *slog.Logger, what string, err error, counted string, n uint64) {
	switch {
	case err != nil && !r.failing:
		logger.Warn(what+" failing", "err", r.secrets.Line(err.Error(), maxReceiverText))
	case err == nil && r.failing:
		logger.Info(what+" recovered", counted, n)
	}
	r.failing = err != nil
}

func bodyOf(m proto.Message) ([]byte, error) {
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	var body bytes.Buffer
	w := gzip.NewWriter(&body)
	_, _ = w.Write(data) // to memory, which cannot fail
	_ = w.Close()
	return body.Bytes(), nil
}

// rejection returns what a reply says of a part that was not taken; nil is nothing, as in any form but those of OTLP.
func rejection(reply []byte, contentType string) error {
	e := &rejectedError{}
	var err error
	switch media, _, _ := mime.ParseMediaType(contentType); media {
	case "application/json":
		err = e.readJSON(reply)
	case "application/x-protobuf":
		err = e.readProto(reply)
	default:
		if e.readProto(reply) != nil {
			return nil
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("not an OTLP reply: %w", err)
	case e.number > 0:
		return e
	}
	return nil
}

func (e *rejectedError) readJSON(reply []byte) error {
	var r struct {
		PartialSuccess struct {
			RejectedSpans, RejectedDataPoints json.Number
			ErrorMessage                      string
		}
	}
	if len(reply) == 0 {
		return nil
	}
	if err := json.Unmarshal(reply, &r); err != nil {
		return err
	}
	for _, number := range []json.Number{r.PartialSuccess.RejectedSpans, r.PartialSuccess.RejectedDataPoints} {
		if n, err := number.Int64(); err == nil && n > 0 {
			e.number = uint64(n)
		}
	}
	e.message = r.PartialSuccess.ErrorMessage
	return nil
}

// readProto reads an ExportTraceServiceResponse or an ExportMetricsServiceResponse: its
// field 1 has the number in field 1 and the text in field 2. The package of their types needs gRPC.
func (e *rejectedError) readProto(reply []byte) error {
	return eachField(reply, func(number protowire.Number, _, value []byte) error {
		if number != 1 {
			return nil
		}
		partial, _ := protowire.ConsumeBytes(value)
		return eachField(partial, func(number protowire.Number, _, value []byte) error {
			switch n, size := protowire.ConsumeVarint(value); {
			case number == 1 && size > 0 && int64(n) > 0:
				e.number = n
			case number == 2:
				text, _ := protowire.ConsumeBytes(value)
				e.message = string(text)
			}
			return nil
		})
	})
}

// eachField calls use for each field of a message: with all of it, and with its value.
func eachField(message []byte, use func(number protowire.Number, field, value []byte) error) error {
	for len(message) > 0 {
		number, _, size := protowire.ConsumeField(message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		_, _, tag := protowire.ConsumeTag(message)
		if err := use(number, message[:size], message[tag:size]); err != nil {
			return err
		}
		message = message[size:]
	}
	return nil
}
