//go:build unix

package web

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/status"
)

// BenchmarkWatchers reports what 100 pages that watch 10,000 endpoints cost,
// each endpoint probed every 30 s: the processor time of the whole process,
// as a share of one core. The clients are in the process too, so that the
// server's own share is smaller; what the status costs is not in it.
func BenchmarkWatchers(b *testing.B) {
	const watchers = 100
	period := 10 * time.Second
	if testing.Short() {
		period = time.Second
	}
	o := options("/metrics")
	o.Status = newBusyStatus(10_000, 333)
	s, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	defer s.Close()
	var read atomic.Int64
	var clients sync.WaitGroup
	for range watchers {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		clients.Go(func() { discard(conn, &read) })
	}
	time.Sleep(2 * roundInterval) // all have the table
	var share, perSecond float64
	for b.Loop() {
		start, before, bytes := time.Now(), cpuTime(b), read.Load()
		time.Sleep(period)
		elapsed := time.Since(start).Seconds()
		share = (cpuTime(b) - before).Seconds() / elapsed
		perSecond = float64(read.Load()-bytes) / watchers / elapsed
	}
	s.Close()
	server.CloseClientConnections()
	clients.Wait()
	b.ReportMetric(100*share, "cpu-%")
	b.ReportMetric(perSecond, "B/s/watcher")
	b.ReportMetric(0, "ns/op")
}

// discard asks for the events and counts the bytes.
func discard(conn net.Conn, read *atomic.Int64) {
	_, _ = fmt.Fprint(conn, "GET /api/v1/events HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n")
	buffer := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buffer)
		read.Add(int64(n))
		if err != nil {
			return
		}
	}
}

func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// busyStatus has rows that change one after the other, so many a second.
type busyStatus struct {
	rows  []*status.Row
	rate  float64
	start time.Time
}

func newBusyStatus(endpoints int, rate float64) *busyStatus {
	s := &busyStatus{rate: rate, start: time.Now()}
	for i := range endpoints {
		s.rows = append(s.rows, busyRow(i))
	}
	return s
}

// busyRow is a row with all that a row usually has.
func busyRow(i int) *status.Row {
	random := rand.New(rand.NewPCG(1, uint64(i)))
	v := func(x float64) *float64 { x *= 0.5 + random.Float64(); return &x }
	return &status.Row{
		Name: fmt.Sprintf("endpoint-%d", i), URL: fmt.Sprintf("http://10.0.%d.%d:8000/v1", i/256, i%256),
		Model: "meta-llama/Llama-3.1-70B-Instruct", API: "openai-chat", Engine: "vllm", Module: "chat",
		Labels: map[string]string{"region": "eu", "team": "search"},
		State:  health.Up, Since: 1.7e9, LastAt: 1.7e9 + float64(i),
		Outcomes: repeated(result.Success, 30),
		Times:    status.Times{TTFT: v(0.231), TPOT: v(0.0123), Duration: v(1.09)},
		Window:   &status.Window{Samples: 120, P50: v(0.2), P99: v(0.9), P99Lower: v(0.7), P99Upper: v(1.2)},
		SLO:      &series.Objectives{Share: 0.99, TTFT: time.Second},
		Servers:  &status.Load{Known: 2, Up: 2, Running: v(12), Waiting: v(3), KVUsage: v(0.4), Hits: v(0.6)},
	}
}

func repeated(o result.Outcome, n int) []result.Outcome {
	outcomes := make([]result.Outcome, n)
	for i := range outcomes {
		outcomes[i] = o
	}
	return outcomes
}

func (s *busyStatus) Fleet() *status.Fleet {
	u := s.Changes(0)
	return &status.Fleet{Version: u.Version, At: u.At, States: u.States, Endpoints: u.Endpoints}
}

func (s *busyStatus) Changes(since uint64) *status.Update {
	version := uint64(len(s.rows)) + uint64(s.rate*time.Since(s.start).Seconds())
	u := &status.Update{Version: version, At: 1.7e9, States: map[health.State]int{health.Up: len(s.rows)}}
	for v := max(since, version-uint64(len(s.rows))); v < version; v++ {
		u.Endpoints = append(u.Endpoints, s.rows[v%uint64(len(s.rows))])
	}
	return u
}

func (s *busyStatus) Version(name string) (uint64, bool) {
	return 0, strings.HasPrefix(name, "endpoint-")
}

func (s *busyStatus) Detail(name string) (*status.Detail, bool) {
	return nil, strings.HasPrefix(name, "endpoint-")
}
