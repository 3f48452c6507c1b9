package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"

	promconfig "github.com/prometheus/common/config"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/inference-exporter/inference_exporter/config"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipeListener is a network in memory, so that a bubble of synctest can hold
// both ends.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// spanReceiver is an OTLP receiver of spans that keeps what it gets.
type spanReceiver struct {
	t        *testing.T
	listener *pipeListener

	mu      sync.Mutex
	down    bool             // refuses connections
	answer  http.HandlerFunc // instead of 200
	batches []*tracepb.ResourceSpans
	headers []http.Header
	paths   []string
}

// newSpanReceiver serves until the test, or the bubble of it, ends.
func newSpanReceiver(t *testing.T) *spanReceiver {
	t.Helper()
	v := &spanReceiver{t: t, listener: &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}}
	server := &http.Server{Handler: v, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(v.listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return v
}

func (v *spanReceiver) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	v.mu.Lock()
	down := v.down
	v.mu.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	client, server := net.Pipe()
	select {
	case v.listener.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (v *spanReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	spans := v.decode(r)
	v.mu.Lock()
	answer := v.answer
	v.headers = append(v.headers, r.Header)
	v.paths = append(v.paths, r.Method+" "+r.URL.Path)
	if answer == nil {
		v.batches = append(v.batches, spans...)
	}
	v.mu.Unlock()
	if answer != nil {
		answer(w, r)
	}
}

func (v *spanReceiver) decode(r *http.Request) []*tracepb.ResourceSpans {
	body, err := gzip.NewReader(r.Body)
	if err != nil {
		v.t.Errorf("request is not gzip: %v", err)
		return nil
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		v.t.Errorf("read request: %v", err)
	}
	var req tracepb.TracesData // has the form of ExportTraceServiceRequest, without gRPC
	if err := proto.Unmarshal(raw, &req); err != nil {
		v.t.Errorf("request is not OTLP: %v", err)
	}
	return req.ResourceSpans
}

// partialSuccess returns an ExportMetricsServiceResponse or ExportTraceServiceResponse of
// opentelemetry-proto, whose partial_success = 1 has rejected_data_points or rejected_spans = 1, and
// error_message = 2.
func partialSuccess(rejected uint64, message string) []byte {
	var partial []byte
	if rejected > 0 {
		partial = protowire.AppendVarint(protowire.AppendTag(partial, 1, protowire.VarintType), rejected)
	}
	partial = protowire.AppendString(protowire.AppendTag(partial, 2, protowire.BytesType), message)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)
}

func (v *spanReceiver) set(change func(*spanReceiver)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(v)
}

// respond answers from now on as answer does.
func (v *spanReceiver) respond(answer http.HandlerFunc) {
	v.set(func(v *spanReceiver) { v.answer = answer })
}

// spans returns what was received so far.
func (v *spanReceiver) spans() []*tracepb.Span {
	v.mu.Lock()
	defer v.mu.Unlock()
	var spans []*tracepb.Span
	for _, b := range v.batches {
		for _, s := range b.ScopeSpans {
			spans = append(spans, s.Spans...)
		}
	}
	return spans
}

// requests returns how many requests came so far.
func (v *spanReceiver) requests() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.paths)
}

// logBuffer is a log that the test can read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// urlOf returns a URL that is one.
func urlOf(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// newSpans returns an export to a URL, and its log.
func newSpans(t *testing.T, endpoint string, headers map[string]promconfig.Secret) (*Spans, *logBuffer) {
	t.Helper()
	text := &logBuffer{}
	e := NewSpans("1.2.3", slog.New(slog.NewTextHandler(text, nil)))
	e.Use(config.Tracing{OTLPEndpoint: config.URL{URL: urlOf(t, endpoint)}, Headers: headers})
	return e, text
}

// spansTo returns an export that reaches the receiver, and its log.
func spansTo(t *testing.T, v *spanReceiver, headers map[string]promconfig.Secret) (*Spans, *logBuffer) {
	t.Helper()
	e, text := newSpans(t, "http://receiver:4318", headers)
	e.receiver.Load().client.Transport = &http.Transport{DialContext: v.dial, DisableKeepAlives: true, DisableCompression: true}
	return e, text
}

// start runs the exporter; the returned function ends it and waits for it.
func startSpans(t *testing.T, e *Spans) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}
