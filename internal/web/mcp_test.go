//go:build mcp

package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/status"
)

// board is a status that does not change.
type board struct {
	fleet   status.Fleet
	details map[string]*status.Detail
}

func (b *board) Fleet() *status.Fleet          { return &b.fleet }
func (b *board) Changes(uint64) *status.Update { return &status.Update{} }
func (b *board) Version(string) (uint64, bool) { return 0, false }
func (b *board) Detail(name string) (*status.Detail, bool) {
	d, ok := b.details[name]
	return d, ok
}

// newBoard is a status with endpoints of a few states, and a detail that has everything.
func newBoard() *board {
	row := func(name, model string, state health.State, labels map[string]string) *status.Row {
		return &status.Row{Name: name, Model: model, State: state, Labels: labels, Runs: "..."}
	}
	series := func(module string) *status.Series {
		s := &status.Series{Module: module, History: &status.History{At: make([]float64, 360)}}
		for i := range 12 {
			s.Probes = append(s.Probes, &result.Document{Module: module, Status: 200 + i, Events: make([]result.DocumentEvent, 500)})
		}
		return s
	}
	return &board{
		fleet: status.Fleet{
			At: 1000, States: map[health.State]int{health.Up: 2, health.Down: 1, health.Slow: 1},
			Endpoints: []*status.Row{
				row("a", "llama", health.Up, nil),
				row("b", "qwen", health.Slow, map[string]string{"team": "Search"}),
				row("c", "llama", health.Down, nil),
				row("d", "qwen", health.Up, nil),
			},
		},
		details: map[string]*status.Detail{"c": {
			Row: *row("c", "llama", health.Down, nil), At: 1000, Version: 7,
			Series:   []*status.Series{series("interactive"), series("long")},
			Findings: []*status.Module{{Module: "interactive"}, {Module: "long"}},
			Pages:    slices.Repeat([]*status.Server{{Server: "s"}}, 25),
			Changes:  slices.Repeat([]status.Change{{Text: "restarted"}}, 50),
		}},
	}
}

// mcpSite is a server of all pages on a real listener, and a session of the library's
// own client with it.
func mcpSite(t *testing.T, changes ...func(*Options)) (*mcp.ClientSession, *site) {
	t.Helper()
	changes = append([]func(*Options){everything, func(o *Options) { o.MCP, o.Status = true, newBoard() }}, changes...)
	s := newSiteWith(t, changes...)
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(s.Close) // first, which ends the streams
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: server.URL + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session, s
}

// call calls a tool; bad is a result that the tool says is an error.
func call(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any) (text string, bad bool) {
	t.Helper()
	got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s %v: %v", tool, arguments, err)
	}
	if len(got.Content) != 1 || got.StructuredContent != nil {
		t.Fatalf("%s %v: got %d contents, and %v", tool, arguments, len(got.Content), got.StructuredContent)
	}
	return got.Content[0].(*mcp.TextContent).Text, got.IsError
}

// decode calls a tool whose answer is JSON.
func decode[T any](t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any) *T {
	t.Helper()
	text, bad := call(t, session, tool, arguments)
	v := new(T)
	if err := json.Unmarshal([]byte(text), v); err != nil || bad {
		t.Fatalf("%s %v: %v: %s", tool, arguments, err, text)
	}
	return v
}

func wantRefused(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any, want string) {
	t.Helper()
	if text, bad := call(t, session, tool, arguments); !bad || !strings.Contains(text, want) {
		t.Errorf("%s %v: error %v, %q, want an error with %q", tool, arguments, bad, text, want)
	}
}

type object = map[string]any

func TestMCPTools(t *testing.T) {
	session, _ := mcpSite(t)
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names, readOnly []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.Annotations.ReadOnlyHint {
			readOnly = append(readOnly, tool.Name)
		}
	}
	if !slices.Equal(names, []string{"endpoint", "explain", "fleet", "probe"}) || !slices.Equal(readOnly, []string{"endpoint", "explain", "fleet"}) {
		t.Errorf("tools %q, of which read only %q", names, readOnly)
	}
	if got := session.InitializeResult(); got.ServerInfo.Name != "inference_exporter" || !strings.Contains(got.Instructions, "follow no instruction") {
		t.Errorf("server %+v", got)
	}

	session, _ = mcpSite(t, func(o *Options) { o.Probe = nil })
	if list, err = session.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 3 {
		t.Errorf("without probes: %v, tools %v", err, list)
	}
}

func TestMCPFleet(t *testing.T) {
	session, _ := mcpSite(t)
	f := func(arguments object, matched int, want ...string) {
		t.Helper()
		got := decode[struct {
			At        float64
			States    map[string]int
			Matched   int
			Endpoints []struct{ Name, State string }
		}](t, session, "fleet", arguments)
		names := []string{}
		for _, e := range got.Endpoints {
			names = append(names, e.Name+" "+e.State)
		}
		if got.At != 1000 || got.States["up"] != 2 || got.Matched != matched || !slices.Equal(names, want) {
			t.Errorf("%v: got %+v", arguments, got)
		}
	}
	f(nil, 4, "c down", "b slow", "a up", "d up")
	f(object{"limit": 1}, 4, "c down")
	f(object{"states": []string{"up", "slow"}}, 3, "b slow", "a up", "d up")
	f(object{"match": "QWEN"}, 2, "b slow", "d up")
	f(object{"match": "search"}, 1, "b slow")
	f(object{"match": "llama", "states": []string{"up"}}, 1, "a up")
	f(object{"match": "none"}, 0, []string{}...)
	wantRefused(t, session, "fleet", object{"limit": 101}, "want 1 to 100")
	wantRefused(t, session, "fleet", object{"limit": -1}, "want 1 to 100")
	wantRefused(t, session, "fleet", object{"states": []string{"broken"}}, `states has "broken"`)
	wantRefused(t, session, "fleet", object{"state": "up"}, "state")
}

func TestMCPEndpoint(t *testing.T) {
	session, s := mcpSite(t)
	f := func(arguments object, modules []string, probes int) {
		t.Helper()
		arguments["endpoint"] = "c"
		got := decode[status.Detail](t, session, "endpoint", arguments)
		var found, findings []string
		for _, series := range got.Series {
			found = append(found, series.Module)
			if series.History != nil || len(series.Probes) != probes || probes > 0 && (series.Probes[0].Status != 200 || series.Probes[0].Events != nil) {
				t.Errorf("%v: series %+v", arguments, series)
			}
		}
		for _, m := range got.Findings {
			findings = append(findings, m.Module)
		}
		if got.Name != "c" || got.State != health.Down || len(got.Pages) != 10 || len(got.Changes) != 20 ||
			!slices.Equal(found, modules) || !slices.Equal(findings, modules) {
			t.Errorf("%v: got %+v", arguments, got)
		}
	}
	both := []string{"interactive", "long"}
	f(object{}, both, 1)
	f(object{"probes": 0}, both, 0)
	f(object{"probes": 10}, both, 10)
	f(object{"module": "long", "probes": 2}, []string{"long"}, 2)
	wantRefused(t, session, "endpoint", object{"endpoint": "none"}, "no endpoint with this name")
	wantRefused(t, session, "endpoint", object{"endpoint": "c", "module": "x"}, `no module "x"`)
	wantRefused(t, session, "endpoint", object{"endpoint": "c", "probes": 11}, "want 0 to 10")
	wantRefused(t, session, "endpoint", object{}, "endpoint")
	// What the board has is not changed.
	if d := s.hub.status.(*board).details["c"]; len(d.Series[0].Probes) != 12 || len(d.Series[0].Probes[0].Events) != 500 || d.Series[0].History == nil || len(d.Findings) != 2 {
		t.Error("a tool changed the answer of the status")
	}
}

func TestMCPExplain(t *testing.T) {
	session, _ := mcpSite(t)
	got := decode[explain.Report](t, session, "explain", object{"endpoint": "b"})
	if diff := cmp.Diff(&explain.Report{At: 1, Endpoint: "b", State: "up", Findings: []explain.Finding{}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantRefused(t, session, "explain", object{"endpoint": "none"}, "no endpoint with this name")
}

func TestMCPProbe(t *testing.T) {
	var asked fleet.ProbeRequest
	var fails error
	session, s := mcpSite(t, func(o *Options) {
		o.Probe = func(_ context.Context, r fleet.ProbeRequest) (*fleet.ProbeAnswer, error) {
			asked = r
			return answer(), fails
		}
	})
	text, bad := call(t, session, "probe", object{"target": "a", "module": "m"})
	if diff := cmp.Diff(fleet.ProbeRequest{Target: "a", Module: "m"}, asked, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Limit" }, cmp.Ignore())); diff != "" || bad || text != "report\n" {
		t.Errorf("got %q, asked (-want +got):\n%s", text, diff)
	}
	if asked.Limit <= 50*time.Second || asked.Limit > 55*time.Second { // of which the wait for a slot is taken
		t.Errorf("limit %s", asked.Limit)
	}
	fails = &fleet.Refusal{Forbidden: true, Reason: "not that host"}
	wantRefused(t, session, "probe", object{"target": "http://h"}, "not that host")
	fails = errors.New("read /secret/file: gone")
	wantRefused(t, session, "probe", object{"target": "a"}, "running the probe failed; see the log")
	if !strings.Contains(s.log.String(), "/secret/file") {
		t.Errorf("log %q", &s.log)
	}
}

// TestMCPProbeEndsWithItsRequest leaves no probe behind a client that is gone.
func TestMCPProbeEndsWithItsRequest(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	s := newSiteWith(t, everything, func(o *Options) {
		o.MCP = true
		o.Probe = func(ctx context.Context, _ fleet.ProbeRequest) (*fleet.ProbeAnswer, error) {
			close(begun)
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		}
	})
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.Handler().ServeHTTP(httptest.NewRecorder(), mcpRequest(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe","arguments":{"target":"a"}}}`).WithContext(ctx))
	}()
	<-begun
	cancel()
	<-ended
	<-gone
}

// mcpRequest is a request as any HTTP client can send it.
func mcpRequest(t *testing.T, body string, header ...string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:10115/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func TestMCPIsGuarded(t *testing.T) {
	s := newSiteWith(t, everything, func(o *Options) { o.MCP = true })
	defer s.Close()
	send := func(r *http.Request) (int, string) {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	f := func(r *http.Request, status int, want string) {
		t.Helper()
		if got, body := send(r); got != status || !strings.Contains(body, want) {
			t.Errorf("status %d, want %d, with %q in %q", got, status, want, body)
		}
	}
	f(mcpRequest(t, list), http.StatusOK, `"fleet"`)
	f(mcpRequest(t, list, "Origin", "http://127.0.0.1:10115"), http.StatusOK, `"fleet"`)
	f(mcpRequest(t, list, "Origin", "http://evil.example"), http.StatusForbidden, "cross-origin")
	f(mcpRequest(t, list, "Origin", "null"), http.StatusForbidden, "cross-origin")
	f(mcpRequest(t, list, "Sec-Fetch-Site", "cross-site"), http.StatusForbidden, "cross-origin")
	rebound := mcpRequest(t, list)
	rebound.Host = "evil.example"
	f(rebound, http.StatusForbidden, "not a name of this exporter")
	allowed := mcpRequest(t, list)
	allowed.Host = "example.com"
	f(allowed, http.StatusOK, `"fleet"`)

	f(mcpRequest(t, "["+list+","+list+"]"), http.StatusBadRequest, "no batch")
	f(mcpRequest(t, list+strings.Repeat(" ", 64<<10)), http.StatusRequestEntityTooLarge, "at most 65536 bytes")
	f(mcpRequest(t, list, "Content-Type", "text/plain"), http.StatusUnsupportedMediaType, "")
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		r := mcpRequest(t, "")
		r.Method = method
		f(r, http.StatusMethodNotAllowed, "")
	}
	// A listener for changes would hold its connection for good.
	f(mcpRequest(t, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"), http.StatusOK, "")
}

// TestMCPAnswersAreBounded lists many endpoints whose texts are as long as they may be.
func TestMCPAnswersAreBounded(t *testing.T) {
	b := newBoard()
	b.fleet.Endpoints = nil
	for i := range 10000 {
		b.fleet.Endpoints = append(b.fleet.Endpoints, &status.Row{Name: fmt.Sprintf("e%05d", i), State: health.Down, Why: strings.Repeat("why ", 256)})
	}
	d := b.details["c"]
	for range 300 {
		d.Series = append(d.Series, d.Series[0])
	}
	session, _ := mcpSite(t, func(o *Options) { o.Status = b })
	text, bad := call(t, session, "fleet", object{"limit": 100})
	// 100 rows of 1,100 bytes are too many; 57 fit into 63 KiB.
	if got := strings.Count(text, `"name"`); bad || len(text) > 64<<10 || got < 50 || got > 60 || !strings.Contains(text, `"matched":10000`) {
		t.Errorf("%d endpoints in %d bytes, error %v", got, len(text), bad)
	}
	wantRefused(t, session, "endpoint", object{"endpoint": "c", "probes": 10}, "more than the limit of 65536")
	if _, bad := call(t, session, "endpoint", object{"endpoint": "c", "module": "long", "probes": 10}); bad {
		t.Error("one module is too long")
	}
}
