// Package tracing exports each result of a probe as the root span of the
// trace that the probe announced to the server, over OTLP/HTTP. It sees what a
// Result says and nothing of prompts and answers.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

const (
	// queueSize is how many spans wait for the receiver at most; batchSize
	// how many go out at once, and batchInterval how long the first of them
	// waits for the others.
	queueSize     = 1024
	batchSize     = 128
	batchInterval = 5 * time.Second
	// exportTimeout limits one request to the receiver.
	exportTimeout = 5 * time.Second
	// flushTimeout is how long what is left may take to go out at the end.
	flushTimeout = 2 * time.Second
	// maxReceiverText bounds what a log line quotes of the receiver, in bytes.
	maxReceiverText = 512
	// maxReply bounds what is read of the receiver's replies, in bytes.
	maxReply = 64 << 10
)

// Options say where the spans go.
type Options struct {
	// Endpoint is the receiver's base URL, as in http://host:4318. The path
	// /v1/traces is added unless the URL ends in it.
	Endpoint string
	// Headers are sent with each request; their values may be secrets.
	Headers map[string]string
	// Version is the exporter's own, for the attribute service.version.
	Version string
	// Dropped counts the spans that were lost: the queue was full or the receiver
	// did not take them. Exporters may share it.
	Dropped *atomic.Uint64
	// Logger logs when the receiver fails and when it is back.
	Logger *slog.Logger
}

// Exporter exports spans in batches. A span that cannot be sent at once, with
// its batch, is dropped and counted, and never held against a probe.
type Exporter struct {
	spans     *otlptrace.Exporter
	transport *http.Transport
	resource  *resource.Resource
	secrets   *safetext.Secrets // in the headers
	logger    *slog.Logger

	queue   chan sdktrace.ReadOnlySpan
	dropped *atomic.Uint64
	failing bool // the last batch was lost; used by Run only
}

// New returns an exporter, which sends nothing until Run. The error is a
// receiver's URL that cannot be used; it does not repeat the URL.
func New(ctx context.Context, o Options) (*Exporter, error) {
	target, err := SignalURL(o.Endpoint, "/v1/traces")
	if err != nil {
		return nil, fmt.Errorf("set up trace export: %w", err)
	}
	client, transport := NewClient()
	e := &Exporter{
		transport: transport,
		resource: resource.NewWithAttributes(semconv.SchemaURL,
			semconv.ServiceName("inference_exporter"), semconv.ServiceVersion(o.Version)),
		secrets: SecretsIn(o.Headers),
		dropped: o.Dropped,
		logger:  o.Logger,
		queue:   make(chan sdktrace.ReadOnlySpan, queueSize),
	}
	e.spans, err = otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(target),
		otlptracehttp.WithHeaders(o.Headers),
		otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithMaxResponseSize(maxReply),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}),
		otlptracehttp.WithHTTPClient(client),
	)
	if err != nil {
		return nil, fmt.Errorf("set up trace export: %w", err)
	}
	return e, nil
}

// NewClient returns a client for requests to a receiver, and its transport.
func NewClient() (*http.Client, *http.Transport) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	return &http.Client{
		Transport: transport,
		Timeout:   exportTimeout,
		// A redirect would carry the headers to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, transport
}

// SignalURL returns where a signal is posted, by the rule of the OTLP/HTTP
// specification for a base URL: under it at path, as in /v1/traces, unless it ends in
// that. The error does not repeat the URL.
func SignalURL(endpoint, path string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || u.RawQuery != "" {
		return "", errors.New("want a URL like http://host:4318, without user and query")
	}
	if !strings.HasSuffix(strings.TrimRight(u.Path, "/"), path) {
		u = u.JoinPath(path)
	}
	return u.String(), nil
}

// Observe takes the result of a probe. It never blocks: when the queue is
// full, the span is dropped. It may be called by many goroutines, also while
// Run does not run.
func (e *Exporter) Observe(t Target, r *result.Result) {
	select {
	case e.queue <- newSpan(e.resource, t, r):
	default:
		e.dropped.Add(1)
	}
}

// Run sends what is observed until ctx ends, and what is left within two
// seconds after that. It returns nil. It must be called once.
func (e *Exporter) Run(ctx context.Context) error {
	defer e.transport.CloseIdleConnections()
	// A request that runs when ctx ends may use the time that is left, too.
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(flushTimeout, cancel) })()

	tick := time.NewTicker(batchInterval)
	defer tick.Stop()
	batch := make([]sdktrace.ReadOnlySpan, 0, batchSize)
	for ctx.Err() == nil {
		select {
		case s := <-e.queue:
			if batch = append(batch, s); len(batch) < batchSize {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
		}
		e.send(sending, batch)
		batch = batch[:0]
	}
	e.flush(sending, batch)
	return nil
}

// flush sends a batch that was begun and what waits in the queue.
func (e *Exporter) flush(ctx context.Context, batch []sdktrace.ReadOnlySpan) {
	for range len(e.queue) {
		if batch = append(batch, <-e.queue); len(batch) == batchSize {
			e.send(ctx, batch)
			batch = batch[:0]
		}
	}
	e.send(ctx, batch)
}

// send exports a batch or drops it. It logs changes of state only.
func (e *Exporter) send(ctx context.Context, batch []sdktrace.ReadOnlySpan) {
	if len(batch) == 0 {
		return
	}
	err := e.spans.ExportSpans(ctx, batch)
	if err != nil {
		e.dropped.Add(uint64(len(batch)))
	}
	switch {
	case err != nil && !e.failing:
		e.logger.Warn("trace export failing", "spans", len(batch), "err", e.clean(err))
	case err == nil && e.failing:
		e.logger.Info("trace export recovered", "dropped", e.dropped.Load())
	}
	e.failing = err != nil
}

// clean returns the text of an error, which may quote the receiver at length
// and with it the headers that it got.
func (e *Exporter) clean(err error) string {
	return e.secrets.Line(err.Error(), maxReceiverText)
}

// SecretsIn returns the values of headers, to be kept out of texts.
func SecretsIn(headers map[string]string) *safetext.Secrets {
	secrets := safetext.NewSecrets()
	for _, value := range headers {
		secrets = secrets.With(value).With(safetext.InHeader(value)...)
	}
	return secrets
}
