package detect

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// server is a server by its pages; others are 404. The path "*" answers
// whatever has no page of its own.
type server map[string]Reply

func ok(body string) Reply { return Reply{Status: 200, Body: []byte(body)} }

func status(code int, body string) Reply { return Reply{Status: code, Body: []byte(body)} }

func header(r Reply, name, value string) Reply {
	r.Header = http.Header{name: {value}}
	return r
}

// capture is a recorded reply.
func capture(t testing.TB, name string) Reply {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Reply{Status: resp.StatusCode, Header: resp.Header, Body: body}
}

// asked returns a Getter of the server and the URLs that it is asked for.
func (s server) asked() (Getter, *[]string) {
	var urls []string
	return func(_ context.Context, u string) (*Reply, error) {
		urls = append(urls, u)
		at, err := url.Parse(u)
		if err != nil {
			return nil, err
		}
		r, found := s[at.Path]
		if !found {
			r, found = s["*"]
		}
		if !found {
			r = status(404, `{"detail":"Not Found"}`)
		}
		return &r, nil
	}, &urls
}

func parse(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

const base = "http://h:8000"

// detectAt runs a detection and checks what holds for every server: few
// questions, none twice, none but harmless ones, texts that can be printed and
// a stanza that can be read.
func detectAt(t testing.TB, s server, at string) (Finding, []string, error) {
	t.Helper()
	get, urls := s.asked()
	f, err := Detect(t.Context(), parse(t, at), get)
	if len(*urls) > 8 {
		t.Errorf("%d questions: %q", len(*urls), *urls)
	}
	if (err == nil) != (f.API != "") {
		t.Errorf("api %q, error %v", f.API, err)
	}
	harmless := []string{ // each is known to cost nothing on every server
		"/v1/models", "/info", "/api/tags", "/v2", "/v2/models/stats", "/version", "/v1/version",
		"/health/readiness", "/.well-known/litellm-ui-config", "/health/readiness/details",
		"/server_info", "/get_server_info", "/props", "/api/version",
		"/v1/embeddings", "/v1/chat/completions", // which take no GET
	}
	seen := map[string]bool{}
	for _, u := range *urls {
		path := strings.TrimPrefix(u, base)
		if seen[path] || !slices.Contains(harmless, path) {
			t.Errorf("asks %s", path)
		}
		seen[path] = true
	}
	for _, line := range f.Evidence {
		if !safetext.Printable(line) || len(line) > 700 {
			t.Errorf("evidence %q", line)
		}
	}
	if err == nil {
		checkStanza(t, f, at)
	}
	return f, *urls, err
}

// checkStanza reads the stanza back.
func checkStanza(t testing.TB, f Finding, at string) {
	t.Helper()
	type endpoint struct{ URL, API, Model string }
	var got, want struct{ Endpoints []endpoint }
	text := Stanza(f, parse(t, at))
	if err := yaml.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	e := endpoint{URL: at, API: f.API}
	if len(f.Models) > 0 {
		e.Model = f.Models[0].ID
	}
	want.Endpoints = []endpoint{e}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("stanza\n%s\n%s", text, d)
	}
}

func model(id, owner string, length int) api.ModelInfo {
	return api.ModelInfo{ID: id, OwnedBy: owner, MaxModelLen: length}
}

// list is a list of models with one model.
func list(id, owner string) Reply {
	return ok(`{"object":"list","data":[{"id":"` + id + `","object":"model","created":1,"owned_by":"` + owner + `"}]}`)
}

// TestNothingRecognised shows servers that must not be taken for anything.
func TestNothingRecognised(t *testing.T) {
	f := func(name string, s server, wantLine string) {
		t.Helper()
		got, _, err := detectAt(t, s, base)
		if !errors.Is(err, ErrUnrecognised) {
			t.Errorf("%s: error %v", name, err)
		}
		if got.API != "" || len(got.Evidence) < 2 || got.Evidence[0] != wantLine {
			t.Errorf("%s: %+v", name, got)
		}
	}
	every := func(r Reply) server { return server{"*": r} }
	f("404 for all", server{}, "GET /v1/models: 404, not found")
	f("a web page for all", every(ok("<!doctype html><title>Welcome</title>")), "GET /v1/models: 200, says nothing known")
	f("an empty object for all", every(ok(`{}`)), "GET /v1/models: 200, says nothing known")
	f("an empty list for all", every(ok(`[]`)), "GET /v1/models: 200, says nothing known")
	f("null for all", every(ok(`null`)), "GET /v1/models: 200, says nothing known")
	f("nothing for all", every(ok(``)), "GET /v1/models: 200, says nothing known")
	f("no JSON for all", every(ok(`{"data":[{"id":"m"`)), "GET /v1/models: 200, says nothing known")
	f("empty data for all", every(ok(`{"data":[]}`)), "GET /v1/models: 200, says nothing known")
	f("a version for all", every(ok(`{"version":"1.0.0","name":"shop","status":"ok"}`)), "GET /v1/models: 200, says nothing known")
	f("wrong types for all", every(ok(`{"data":"x","models":7,"model_id":[],"name":{},"version":[1],"release":1,"litellm_version":true,"server_root_path":1}`)),
		"GET /v1/models: 200, says nothing known")
	f("an endless page for all", every(Reply{Status: 200, Body: bytes.Repeat([]byte("["), MaxBody+1)}), "GET /v1/models: 200, too long to read")
	f("a redirect for all", every(header(status(301, ""), "Location", "https://login.example/\x1b[2J")),
		`GET /v1/models: 301, a redirect to "https://login.example/\x1b[2J", not followed`)
	f("a status that nobody knows", every(status(799, "")), "GET /v1/models: 799, no known status")
	f("other models by that name", server{"/api/tags": ok(`{"models":[{"name":"T"}]}`)}, "GET /v1/models: 404, not found")
	f("another inference server", server{"/v2": ok(`{"name":"mlserver","version":"1.6.0","extensions":[]}`)}, "GET /v1/models: 404, not found")
	f("a classifier of tei", server{"/info": ok(`{"model_id":"m","model_type":{"classifier":{}},"version":"1.9.3"}`)}, "GET /v1/models: 404, not found")
}

func TestHostileTexts(t *testing.T) {
	got, _, err := detectAt(t, server{
		"/v1/models": ok(`{"object":"list","data":[{"id":"a\u001b[2Jb","owned_by":"vllm"},{"id":"x\nmodel: y","owned_by":"vllm"},
			{"id":"` + strings.Repeat("n", 257) + `","owned_by":"vllm"},{"id":"#no: 'comment'","owned_by":"vllm\u001b[31m"},{"id":"- yes","owned_by":"vllm"}]}`),
		"/version": ok(`{"version":"1.0 \u001b[31m"}`),
	}, base)
	if err != nil || got.Version != "" || got.Engine != "vllm" {
		t.Errorf("%+v, %v", got, err)
	}
	var names []string
	for _, m := range got.Models {
		names = append(names, m.ID)
	}
	if d := cmp.Diff([]string{"#no: 'comment'", "- yes"}, names); d != "" {
		t.Error(d)
	}
}

func TestNothingAnswers(t *testing.T) {
	refused := errors.New("connection refused")
	asked := 0
	f, err := Detect(t.Context(), parse(t, base), func(context.Context, string) (*Reply, error) {
		asked++
		return nil, refused
	})
	if !errors.Is(err, refused) || asked != 1 {
		t.Errorf("%d questions, error %v", asked, err)
	}
	if d := cmp.Diff(Finding{Evidence: []string{"GET /v1/models: no reply: connection refused"}}, f); d != "" {
		t.Error(d)
	}
}

// TestPagesThatHang has a server that answers the first question only: every
// other one ends by its own limit, and all by the caller's.
func TestPagesThatHang(t *testing.T) {
	hang := func(first Reply) Getter {
		return func(ctx context.Context, u string) (*Reply, error) {
			if strings.HasSuffix(u, "/v1/models") {
				return &first, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	f := func(first Reply, limit, took time.Duration, api string, lines int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			begin := time.Now()
			got, err := Detect(ctx, parse(t, base), hang(first))
			if got.API != api || (err == nil) != (api != "") || err != nil && !errors.Is(err, context.DeadlineExceeded) || len(got.Evidence) != lines || time.Since(begin) != took {
				t.Errorf("after %s: %+v, %v", time.Since(begin), got, err)
			}
		})
	}
	f(list("m", "vllm"), time.Minute, 10*time.Second, "openai-chat", 3)
	f(list("m", "unknown"), time.Minute, 30*time.Second, "openai-chat", 7)
	f(list("m", "unknown"), 7*time.Second, 7*time.Second, "openai-chat", 3)
	f(status(404, ""), 7*time.Second, 7*time.Second, "", 3)
}

func TestStanza(t *testing.T) {
	f := func(found Finding, want string) {
		t.Helper()
		if d := cmp.Diff(want, Stanza(found, parse(t, "http://h:8000/v1"))); d != "" {
			t.Error(d)
		}
	}
	const head = "endpoints:\n  - url: http://h:8000/v1\n"
	one := []api.ModelInfo{{ID: "acme/chat-8b"}}
	f(Finding{API: "openai-chat", Models: one}, head+"    api: openai-chat\n    model: acme/chat-8b\n")
	f(Finding{API: "openai-chat", Models: []api.ModelInfo{{ID: "yes"}, {ID: "b: c"}, {ID: "# d"}}},
		head+"    api: openai-chat\n    model: \"yes\" # or b: c, # d\n")
	f(Finding{API: "openai-chat"}, head+"    api: openai-chat\n    # model: to be set, as no list of models could be read\n")
	f(Finding{API: "openai-chat", Models: []api.ModelInfo{}}, head+"    api: openai-chat\n    # model: to be set, as the server lists no model\n")
	many := append([]api.ModelInfo{{ID: "tuned", Parent: "m"}, {ID: "m"}}, slices.Repeat([]api.ModelInfo{{ID: "n"}}, 28)...)
	f(Finding{API: "openai-chat", Models: many}, head+"    api: openai-chat\n    model: m # or "+strings.Repeat("n, ", 19)+"n and 8 more, adapters: tuned\n")
	const want = `global: {interval: 5m}   # each probe is paid for: about 320 tokens
endpoints:
  - url: https://api.openai.com/v1
    api: openai-chat
    # model: to be set, as no list of models could be read
    budget: {tokens_per_hour: 10000}   # twice what these probes take; with price also usd_per_day
`
	if d := cmp.Diff(want, Stanza(Finding{API: "openai-chat"}, parse(t, "https://api.openai.com/v1"))); d != "" {
		t.Error(d)
	}
	cfg, err := config.Parse([]byte(strings.ReplaceAll(want, "# model: to be set", "model: m #")), "stanza")
	if err != nil || cfg.Modules[cfg.Endpoints[0].Modules[0]].Interval.String() != "5m" {
		t.Errorf("read back: %v", err)
	}
}

// TestProtocols holds the names that a finding can have against the protocols
// that there are.
func TestProtocols(t *testing.T) {
	for _, name := range []string{
		openaiChat, openaiEmbeddings, anthropic, gemini, bedrock, cohere, ollamaChat, tgiNative, tritonGenerate, teiEmbed, rerank,
	} {
		if _, ok := api.Lookup(name); !ok {
			t.Errorf("no protocol %s", name)
		}
	}
}

// FuzzDetect answers every question with the same status, header and body.
func FuzzDetect(f *testing.F) {
	for _, body := range []string{
		`{"object":"list","data":[{"id":"m","object":"object","owned_by":"nvidia"}]}`,
		`{"data":[{"type":"model","id":"m\u2028"}],"version":"1"}`,
		`{"model_id":"m","router":"text-generation-router","max_total_tokens":-1,"version":"3"}`,
		`{"model_id":"m","model_type":{"reranker":{}},"max_input_length":512}`,
		`{"models":[{"name":"a: b","digest":"d"}],"model_stats":[{"name":"!x"}],"name":"triton","version":"2"}`,
		`{"release":"1","api":"1","litellm_version":"1","server_root_path":"/","build_info":"b1","is_embedding":true}`,
		"<html>", `[`, `{"data":[{"id":"\ud800"}]}`,
	} {
		f.Add(uint16(200), "", body)
	}
	f.Add(uint16(503), "llama.cpp", "{}")
	f.Add(uint16(302), "x\r\ny", "")
	f.Fuzz(func(t *testing.T, code uint16, value, body string) {
		r := Reply{Status: int(code), Body: []byte(body), Header: http.Header{"Server": {value}, "Location": {value}, "X-Litellm-Version": {value}}}
		detectAt(t, server{"*": r}, base)
		detectAt(t, server{"/v1/models": r}, base)
	})
}

// TestSimulatedServers asks each simulated server over HTTP, and loads the
// configuration that results.
func TestSimulatedServers(t *testing.T) {
	type found struct {
		API, Engine, Version, Model string
		Questions                   int
	}
	want := map[string]found{
		"vllm":     {"openai-chat", "vllm", "0.18.0", "simulated-8b", 2},
		"sglang":   {"openai-chat", "sglang", "0.5.11", "simulated-8b", 2},
		"tgi":      {"openai-chat", "tgi", "3.3.6", "simulated-8b", 2},
		"trtllm":   {"openai-chat", "trtllm", "1.2.0", "simulated-8b", 2},
		"triton":   {"triton", "triton", "2.60.0", "simulated-8b", 5},
		"llamacpp": {"openai-chat", "llamacpp", "b10519-0a1b2c3d", "simulated-8b", 2},
		"ollama":   {"openai-chat", "ollama", "0.17.4", "simulated-8b", 2},
		"lmdeploy": {"openai-chat", "lmdeploy", "", "simulated-8b", 1},
		"tei":      {"tei", "tei", "1.9.3", "simulated-8b", 2},
		"litellm":  {"openai-chat", "litellm", "1.93.0", "simulated-8b", 6},
		"nim":      {"openai-chat", "nim", "1.8.4", "simulated-8b", 5},
		"dynamo":   {"openai-chat", "dynamo", "", "simulated-8b", 1},
	}
	got := map[string]found{}
	for _, engine := range simulator.Engines() {
		s := httptest.NewServer(simulator.New(simulator.Options{Engine: engine}).Handler())
		at := parse(t, s.URL)
		f, err := Detect(t.Context(), at, getVia(s.Client()))
		s.Close()
		if err != nil || len(f.Models) != 1 {
			t.Errorf("%s: %+v, %v", engine, f, err)
			continue
		}
		got[engine] = found{f.API, f.Engine, f.Version, f.Models[0].ID, len(f.Evidence)}
		cfg, err := config.Parse([]byte(Stanza(f, at)), "stanza")
		if err != nil {
			t.Errorf("%s: %v", engine, err)
			continue
		}
		e := cfg.Endpoints[0]
		if e.URL.String() != s.URL || e.API != f.API || e.Model != f.Models[0].ID {
			t.Errorf("%s: endpoint %+v", engine, e)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func getVia(client *http.Client) Getter {
	return func(ctx context.Context, url string) (*Reply, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return &Reply{Status: resp.StatusCode, Header: resp.Header, Body: body}, err
	}
}
