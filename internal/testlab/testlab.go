// Package testlab holds what the tests of the fleet and those of the whole program share: a page of metrics to look
// things up in, and servers that know what they were asked.
package testlab

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
)

// Page is a page of metrics.
type Page map[string]*dto.MetricFamily

// ParsePage reads a page in the text format.
func ParsePage(t *testing.T, text []byte) Page {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	got, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Sum adds the samples of a family whose labels include the given pairs, with the counts for histograms and summaries.
func (p Page) Sum(name string, labels ...string) float64 {
	total := 0.0
	for _, m := range p[name].GetMetric() {
		if HasLabels(m, labels) {
			total += m.GetGauge().GetValue() + m.GetCounter().GetValue() +
				float64(m.GetHistogram().GetSampleCount()) + float64(m.GetSummary().GetSampleCount())
		}
	}
	return total
}

// Has reports whether a family has a sample with the given labels.
func (p Page) Has(name string, labels ...string) bool {
	return slices.ContainsFunc(p[name].GetMetric(), func(m *dto.Metric) bool { return HasLabels(m, labels) })
}

// HasLabels reports whether a metric has these labels: names and values in turn.
func HasLabels(m *dto.Metric, pairs []string) bool {
	for pair := range slices.Chunk(pairs, 2) {
		is := func(l *dto.LabelPair) bool { return l.GetName() == pair[0] && l.GetValue() == pair[1] }
		if !slices.ContainsFunc(m.GetLabel(), is) {
			return false
		}
	}
	return true
}

// Probes returns how many probes of an endpoint have ended.
func (p Page) Probes(endpoint string) float64 {
	return p.Sum("inference_probe_results_total", "endpoint", endpoint)
}

// WantSum compares the one sample of a family with the truth, within 1 %.
func WantSum(t *testing.T, p Page, family string, want float64) {
	t.Helper()
	if got := p.Sum(family); !p.Has(family) || math.Abs(got-want) > 0.01*want {
		t.Errorf("%s is %v (there: %t), want %v", family, got, p.Has(family), want)
	}
}

// memories has the network in memory of each test that Virtual runs.
var memories sync.Map

// Virtual runs f with testing/synctest: no time passes while anything runs, and when all wait it is later at once. The
// network of the test is one in memory, as waiting for a real one is no waiting there; Context leads to it.
func Virtual(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		memories.Store(t, &memory{listeners: map[string]*memoryListener{}})
		t.Cleanup(func() { memories.Delete(t) })
		f(t)
	})
}

// Context returns the context of a test, under which the program connects through the network of the test.
func Context(t testing.TB) context.Context {
	if m, ok := memories.Load(t); ok {
		return foreign.Through(t.Context(), m.(*memory).dial)
	}
	return t.Context()
}

// Listener returns what listens, as net.Listen does, on the network of a test.
func Listener(t testing.TB) func(network, address string) (net.Listener, error) {
	if m, ok := memories.Load(t); ok {
		return m.(*memory).listen
	}
	return net.Listen
}

// memory is a network of one host. What one write sends is read by itself, as with a packet.
type memory struct {
	mu        sync.Mutex
	listeners map[string]*memoryListener // by address
}

func (m *memory) listen(_, address string) (net.Listener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if strings.HasSuffix(address, ":0") {
		address = fmt.Sprintf("192.0.2.1:%d", 1024+len(m.listeners)) // an address for documentation
	}
	l := &memoryListener{address: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)), conns: make(chan net.Conn)}
	l.open, l.end = context.WithCancel(context.Background())
	m.listeners[address] = l
	return l, nil
}

func (m *memory) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if host, _, _ := net.SplitHostPort(address); net.ParseIP(host) == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	m.mu.Lock()
	l := m.listeners[address]
	m.mu.Unlock()
	if l != nil {
		ours, theirs := net.Pipe()
		select {
		case l.conns <- memoryConn{theirs}:
			return memoryConn{ours}, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-l.open.Done():
		}
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

type memoryListener struct {
	address net.Addr
	conns   chan net.Conn
	open    context.Context //nolint:containedctx // lives as long as the listener
	end     func()
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.open.Done():
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Addr() net.Addr { return l.address }

func (l *memoryListener) Close() error {
	l.end()
	return nil
}

// memoryConn has the errors of TCP.
type memoryConn struct{ net.Conn }

func (c memoryConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, io.ErrClosedPipe) {
		err = net.ErrClosed
	}
	return n, err
}

func (c memoryConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if errors.Is(err, io.ErrClosedPipe) {
		err = syscall.EPIPE
	}
	return n, err
}

// patience is how long a witness waits for requests to end before it gives up.
const patience = 30 * time.Second

// Quick is a healthy server that answers a probe within milliseconds.
func Quick() simulator.Options {
	return simulator.Options{DecodeStep: time.Millisecond, PrefillTokensPerSecond: 1e6, Seed: 1}
}

// Brisk is a healthy server: each token takes 5 ms, 1000 tokens of a prompt 25 ms.
func Brisk() simulator.Options {
	return simulator.Options{PrefillTokensPerSecond: 40_000, DecodeStep: 5 * time.Millisecond, DecodeStepPerSequence: -1, Seed: 1}
}

// Swift is a server whose answers of some words take no time to speak of.
func Swift() simulator.Options {
	return simulator.Options{PrefillTokensPerSecond: 1e6, DecodeStep: time.Millisecond, DecodeStepPerSequence: -1, Seed: 1}
}

// NewServer returns a server on the network of the test. It is to be started, and is closed when the test ends.
func NewServer(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	l, err := Listener(t)("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(Context(t))
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h, BaseContext: func(net.Listener) context.Context { return ctx }}}
	t.Cleanup(s.Close)
	return s
}

// Serve serves h until the test ends, on the network of the test.
func Serve(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	s := NewServer(t, h)
	s.Start()
	return s.URL
}

// ServeSimulator serves s on a port of its own until the test ends.
func ServeSimulator(t *testing.T, s *simulator.Server) (base string, stop func()) {
	t.Helper()
	l, err := Listener(t)("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(Context(t)))
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return "http://" + l.Addr().String(), stop
}

// Witness is a simulated server that knows the requests of probes in the order of their arrival.
type Witness struct {
	*simulator.Server
	t   testing.TB
	URL string

	mu  sync.Mutex
	ids []string
}

// NewWitness serves a simulated server until the test ends.
func NewWitness(t *testing.T, o simulator.Options) *Witness {
	t.Helper()
	w := &Witness{Server: simulator.New(o), t: t}
	w.URL = Serve(t, w)
	return w
}

// ServeHTTP passes a request on, and remembers those of probes.
func (w *Witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if parts := strings.Split(r.Header.Get("Traceparent"), "-"); len(parts) == 4 {
		w.mu.Lock()
		w.ids = append(w.ids, parts[1])
		w.mu.Unlock()
	}
	w.Handler().ServeHTTP(rw, r)
}

// Requests is how many requests of probes have arrived.
func (w *Witness) Requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ids)
}

// Records returns the truth about all requests of probes, when all have ended.
func (w *Witness) Records() []simulator.Record {
	w.t.Helper()
	w.mu.Lock()
	ids := slices.Clone(w.ids)
	w.mu.Unlock()
	all := make([]simulator.Record, len(ids))
	for i, id := range ids {
		deadline := time.Now().Add(patience)
		for {
			record, ok := w.Request(id)
			if all[i] = record; ok && record.Complete {
				break
			}
			if time.Now().After(deadline) {
				w.t.Fatalf("request %d of %d has not ended, known: %t", i, len(ids), ok)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return all
}

// Tokens is what the requests of probes took from the server, prompts and answers together.
func (w *Witness) Tokens() (sum int) {
	w.t.Helper()
	for _, r := range w.Records() {
		sum += r.PromptTokens + r.OutputTokens
	}
	return sum
}

// Counts serves chat completions whose usage is what count returns for the number of words of the prompt.
func Counts(t *testing.T, count func(words int) int) (url string) {
	t.Helper()
	return Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Messages []struct{ Content string } }
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&body) != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one\"},\"finish_reason\":\"stop\"}]}\n\n"+
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n",
			count(len(strings.Fields(body.Messages[0].Content))))
	}))
}

// Truncating is a server whose model has a context of 4096 tokens, to which it cuts
// longer prompts in silence, as Ollama does. A word is a token.
func Truncating(t *testing.T) (url string) {
	return Counts(t, func(words int) int { return min(words, 4096) })
}

// Section holds the part of a document between the comments <!-- NAME --> and
// <!-- end of NAME --> to a text, or rewrites it.
func Section(t *testing.T, file, name, want string, rewrite bool) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(string(data), begin)
	got, after, closed := strings.Cut(rest, end)
	switch {
	case !ok || !closed:
		t.Fatalf("%s has no part %s", file, name)
	case got == want:
	case rewrite:
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: the part %s is not current; -update rewrites it. Want:\n%s", file, name, want)
	}
}

// Linear measures work on ten inputs and on one of ten times their size in turn, so that both
// take about as long, and reports how many times as long as one of the ten the large one takes,
// as "time-of-10x": what is linear in its input has about 10.
func Linear(b *testing.B, one, ten func()) {
	b.Helper()
	var small, large time.Duration
	for b.Loop() {
		start := time.Now()
		for range 10 {
			one()
		}
		small += time.Since(start)
		start = time.Now()
		ten()
		large += time.Since(start)
	}
	b.ReportMetric(10*float64(large)/float64(small), "time-of-10x")
}

// Sysfs makes a sysfs of recorded AMD GPUs in a new directory, with the links that the kernel
// makes. The files are those of gpu/testdata/amd.
func Sysfs(t testing.TB, files ...string) string {
	t.Helper()
	sys := t.TempDir()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(file)
		device := filepath.Join(sys, "devices", strings.TrimSuffix(base, ".txt"))
		for _, part := range strings.Split(string(text), "\n-- ")[1:] {
			name, content, _ := strings.Cut(part, " --\n")
			card, name, _ := strings.Cut(name, "/device/")
			WriteFile(t, filepath.Join(device, name), fromText(t, name, content))
			// The length makes the names of cards of several files differ.
			link := filepath.Join(sys, "class", "drm", card+fmt.Sprint(len(base)), "device")
			if _, err := os.Lstat(link); err != nil {
				symlink(t, device, link)
				symlink(t, device, filepath.Join(sys, "bus/pci/devices", filepath.Base(device)))
			}
		}
	}
	WriteFile(t, filepath.Join(sys, "module/amdgpu/version"), []byte("6.12.12\n"))
	return sys
}

func fromText(t testing.TB, name, content string) []byte {
	t.Helper()
	if name != "gpu_metrics" {
		return []byte(content)
	}
	data, err := hex.DecodeString(strings.ReplaceAll(content, "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// WriteFile writes a file and makes the directories that it is in.
func WriteFile(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func symlink(t testing.TB, target, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}
