package web

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/status"
)

// table is a status with a history of its own: each change has a version.
type table struct {
	mu      sync.Mutex
	version uint64
	rows    map[string]uint64 // the version of each endpoint
	gone    map[string]uint64
	asked   []uint64 // since which version changes were asked for
	fleets  int      // how often all was asked for
	details int      // how often an endpoint was
}

func newTable(names ...string) *table {
	t := &table{rows: make(map[string]uint64), gone: make(map[string]uint64)}
	t.change(names...)
	return t
}

// change makes each of the endpoints a new one or a changed one.
func (t *table) change(names ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		t.version++
		t.rows[name] = t.version
		delete(t.gone, name)
	}
}

func (t *table) remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version++
	delete(t.rows, name)
	t.gone[name] = t.version
}

// since returns the endpoints with a newer version.
func (t *table) since(version uint64) []*status.Row {
	var rows []*status.Row
	for _, name := range slices.Sorted(maps.Keys(t.rows)) {
		if t.rows[name] > version {
			rows = append(rows, &status.Row{Name: name, State: health.Up, Since: float64(t.rows[name])})
		}
	}
	return rows
}

func (t *table) Fleet() *status.Fleet {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fleets++
	return &status.Fleet{
		Version: t.version, At: 1000, States: map[health.State]int{health.Up: len(t.rows)}, Endpoints: t.since(0),
	}
}

func (t *table) Changes(since uint64) *status.Update {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = append(t.asked, since)
	u := &status.Update{Version: t.version, At: 1000, States: map[health.State]int{health.Up: len(t.rows)}}
	if since > t.version { // a version of another process
		u.Reset, since = true, 0
	} else {
		for _, name := range slices.Sorted(maps.Keys(t.gone)) {
			if t.gone[name] > since {
				u.Removed = append(u.Removed, name)
			}
		}
	}
	u.Endpoints = t.since(since)
	return u
}

func (t *table) Version(name string) (uint64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	version, ok := t.rows[name]
	return version, ok
}

func (t *table) Detail(name string) (*status.Detail, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.details++
	version, ok := t.rows[name]
	return &status.Detail{Row: status.Row{Name: name, State: health.Up}, At: 1000, Version: version}, ok
}

// questions returns since which versions changes were asked for so far.
func (t *table) questions() []uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.asked)
}

// newStatusSite is a site whose status page shows s; more changes its options.
func newStatusSite(t testing.TB, s Status, more ...func(*Options)) *site {
	return newSiteWith(t, append([]func(*Options){func(o *Options) { o.Status = s }}, more...)...)
}

// eventServer serves the events over connections without a network, so that
// time can be simulated, and by an http.Server with tight limits.
type eventServer struct {
	*site
	t      *testing.T
	http   *http.Server
	conns  chan net.Conn
	served chan error
}

func newEventServer(t *testing.T, s Status) *eventServer {
	t.Helper()
	e := &eventServer{site: newStatusSite(t, s), t: t, conns: make(chan net.Conn), served: make(chan error, 1)}
	e.http = &http.Server{Handler: e.Handler(), ReadTimeout: time.Second, WriteTimeout: time.Second}
	e.http.RegisterOnShutdown(e.Close)
	go func() { e.served <- e.http.Serve(&pipeListener{conns: e.conns}) }()
	return e
}

// stop ends the server and returns how long that took.
func (e *eventServer) stop() time.Duration {
	e.t.Helper()
	start := time.Now()
	if err := e.http.Shutdown(e.t.Context()); err != nil {
		e.t.Error(err)
	}
	<-e.served
	return time.Since(start)
}

// page is the client's end of a stream.
type page struct {
	t    *testing.T
	conn net.Conn
	resp *http.Response
	in   *bufio.Reader
}

// open asks for events with a query. Headers come in pairs.
func (e *eventServer) open(query string, header ...string) *page {
	e.t.Helper()
	client, server := net.Pipe()
	e.conns <- server
	lines := ""
	for pair := range slices.Chunk(header, 2) {
		lines += pair[0] + ": " + pair[1] + "\r\n"
	}
	if _, err := fmt.Fprintf(client, "GET /api/v1/events%s HTTP/1.1\r\nHost: h\r\n%s\r\n", query, lines); err != nil {
		e.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		e.t.Fatal(err)
	}
	return &page{t: e.t, conn: client, resp: resp, in: bufio.NewReader(resp.Body)}
}

// next returns the next block of the stream; "" is its end.
func (p *page) next() string {
	p.t.Helper()
	var block strings.Builder
	for {
		line, err := p.in.ReadString('\n')
		if err != nil {
			return ""
		}
		if line == "\n" {
			return block.String()
		}
		block.WriteString(line)
	}
}

// expect reads blocks of the stream.
func (p *page) expect(want ...string) {
	p.t.Helper()
	for _, w := range want {
		if got := p.next(); got != w {
			p.t.Fatalf("got the event %q, want %q", got, w)
		}
	}
}

func (p *page) close() {
	_ = p.conn.Close()
	_ = p.resp.Body.Close()
}

const (
	begins = "retry: 3000\n"
	alive  = "event: ping\ndata: {}\n"
)

// rowsEvent is an event with endpoints of the given versions.
func rowsEvent(version, endpoints int, more string, rows ...any) string {
	list := ""
	for row := range slices.Chunk(rows, 2) {
		list += fmt.Sprintf(`,{"name":%q,"url":"","state":"up","since":%d}`, row...)
	}
	if list != "" {
		list = `,"endpoints":[` + list[1:] + `]`
	}
	return fmt.Sprintf("id: %[1]d\nevent: update\ndata: {\"version\":%[1]d,\"at\":1000,\"states\":{\"up\":%d}%s%s}\n", version, endpoints, list, more)
}

func newsEvent(version int) string {
	return fmt.Sprintf("id: %[1]d\nevent: endpoint\ndata: {\"version\":%[1]d}\n", version)
}
