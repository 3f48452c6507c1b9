package detect

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
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
		if !isPrintable(line) || len(line) > 700 {
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

// TestEngines shows each server as it documents or was recorded to answer.
func TestEngines(t *testing.T) {
	const none = api.Unknown
	f := func(name string, s server, want Finding) {
		t.Helper()
		got, _, err := detectAt(t, s, base)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	f("vllm", server{
		"/v1/models": ok(`{"object":"list","data":[{"id":"acme/chat-8b","object":"model","created":1,"owned_by":"vllm","root":"acme/chat-8b","parent":null,"max_model_len":32768,"permission":[{"id":"p"}]},
			{"id":"lora-a","object":"model","created":1,"owned_by":"vllm","root":"/adapters/a","parent":"acme/chat-8b"}]}`),
		"/version": ok(`{"version":"0.11.1rc2.dev7+gabc123"}`),
	}, Finding{
		API: "openai-chat", Engine: "vllm", Version: "0.11.1rc2.dev7+gabc123",
		Models: []api.ModelInfo{model("acme/chat-8b", "vllm", 32768), model("lora-a", "vllm", none)},
		Evidence: []string{
			"GET /v1/models: 200, 2 models, owned_by vllm",
			"GET /version: 200, version 0.11.1rc2.dev7+gabc123",
		},
	})
	f("sglang", server{
		"/v1/models":   list("m", "sglang"),
		"/server_info": ok(`{"model_path":"m","api_key":"sk-secret","is_embedding":false,"internal_states":[{"x":1}],"version":"0.5.11"}`),
	}, Finding{
		API: "openai-chat", Engine: "sglang", Version: "0.5.11", Models: []api.ModelInfo{model("m", "sglang", none)},
		Evidence: []string{"GET /v1/models: 200, 1 model, owned_by sglang", "GET /server_info: 200, version 0.5.11"},
	})
	f("old sglang with an embedding model", server{
		"/v1/models":       list("m", "sglang"),
		"/get_server_info": ok(`{"api_key":"sk-secret","is_embedding":true,"version":"0.4.6.post1"}`),
	}, Finding{
		API: "openai-embeddings", Engine: "sglang", Version: "0.4.6.post1", Models: []api.ModelInfo{model("m", "sglang", none)},
		Evidence: []string{
			"GET /v1/models: 200, 1 model, owned_by sglang", "GET /server_info: 404, not found",
			"GET /get_server_info: 200, version 0.4.6.post1, is_embedding",
		},
	})
	const tgiInfo = `{"model_id":"acme/chat-8b","model_sha":null,"model_pipeline_tag":null,"max_concurrent_requests":128,"max_best_of":2,
		"max_input_tokens":4095,"max_total_tokens":4096,"router":"text-generation-router","version":"3.3.6","docker_label":null}`
	f("tgi", server{"/v1/models": list("acme/chat-8b", "acme/chat-8b"), "/info": ok(tgiInfo)}, Finding{
		API: "openai-chat", Engine: "tgi", Version: "3.3.6", Models: []api.ModelInfo{model("acme/chat-8b", "acme/chat-8b", none)},
		Evidence: []string{"GET /v1/models: 200, 1 model, owned_by acme/chat-8b", "GET /info: 200, model_id acme/chat-8b, version 3.3.6"},
	})
	f("tgi without a list of models", server{"/info": ok(tgiInfo)}, Finding{
		API: "tgi", Engine: "tgi", Version: "3.3.6", Models: []api.ModelInfo{model("acme/chat-8b", "", 4096)},
		Evidence: []string{"GET /v1/models: 404, not found", "GET /info: 200, model_id acme/chat-8b, version 3.3.6"},
	})
	f("trtllm-serve", server{"/v1/models": list("m", "tensorrt_llm"), "/version": ok(`{"version":"1.2.0rc3"}`)}, Finding{
		API: "openai-chat", Engine: "trtllm", Version: "1.2.0rc3", Models: []api.ModelInfo{model("m", "tensorrt_llm", none)},
		Evidence: []string{"GET /v1/models: 200, 1 model, owned_by tensorrt_llm", "GET /version: 200, version 1.2.0rc3"},
	})
	f("llama.cpp, recorded", server{
		"/v1/models": capture(t, "llamacpp_v1_models"),
		"/props":     ok(`{"default_generation_settings":{"n_ctx":2048},"total_slots":4,"model_path":"gguf/tiny.gguf","build_info":"b10173-e9fa0781f"}`),
	}, Finding{
		API: "openai-chat", Engine: "llamacpp", Version: "b10173-e9fa0781f", Models: []api.ModelInfo{model("gguf/tiny.gguf", "llamacpp", 2048)},
		Evidence: []string{"GET /v1/models: 200, server llama.cpp, 1 model, owned_by llamacpp", "GET /props: 200, version b10173-e9fa0781f"},
	})
	loading := header(status(503, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`), "Server", "llama.cpp")
	f("llama.cpp while it loads", server{"*": loading}, Finding{
		API: "openai-chat", Engine: "llamacpp",
		Evidence: []string{"GET /v1/models: 503, server llama.cpp, service unavailable", "GET /props: 503, service unavailable"},
	})
	f("ollama, recorded", server{
		"/v1/models": capture(t, "ollama_v1_models"), "/api/tags": capture(t, "ollama_api_tags"), "/api/version": capture(t, "ollama_api_version"),
	}, Finding{
		API: "openai-chat", Engine: "ollama", Version: "0.0.0",
		Models:   []api.ModelInfo{model("slow:latest", "library", none), model("think:latest", "library", none), model("tiny:latest", "library", none)},
		Evidence: []string{"GET /v1/models: 200, 3 models, owned_by library", "GET /api/version: 200, version 0.0.0"},
	})
	f("ollama with a model that somebody published", server{
		"/v1/models": list("acme/chat:8b", "acme"), "/api/tags": capture(t, "ollama_api_tags"), "/api/version": ok(`{"version":"0.17.4"}`),
	}, Finding{
		API: "openai-chat", Engine: "ollama", Version: "0.17.4", Models: []api.ModelInfo{model("acme/chat:8b", "acme", none)},
		Evidence: []string{
			"GET /v1/models: 200, 1 model, owned_by acme", "GET /info: 404, not found",
			"GET /api/tags: 200, 3 models with digests", "GET /api/version: 200, version 0.17.4",
		},
	})
	f("ollama of old, without OpenAI's protocol", server{"/api/tags": capture(t, "ollama_api_tags"), "/api/version": ok(`{"version":"0.1.20"}`)}, Finding{
		API: "ollama", Engine: "ollama", Version: "0.1.20",
		Models: []api.ModelInfo{model("slow:latest", "", none), model("think:latest", "", none), model("tiny:latest", "", none)},
		Evidence: []string{
			"GET /v1/models: 404, not found", "GET /info: 404, not found",
			"GET /api/tags: 200, 3 models with digests", "GET /api/version: 200, version 0.1.20",
		},
	})
	f("ollama without a model", server{
		"/v1/models": ok(`{"object":"list","data":null}`), "/api/tags": ok(`{"models":[]}`), "/api/version": ok(`{"version":"0.17.4"}`),
	}, Finding{
		API: "openai-chat", Engine: "ollama", Version: "0.17.4",
		Evidence: []string{
			"GET /v1/models: 200, 0 models", "GET /info: 404, not found",
			"GET /api/tags: 200, 0 models with digests", "GET /api/version: 200, version 0.17.4",
		},
	})
	f("lmdeploy", server{"/v1/models": list("m", "lmdeploy")}, Finding{
		API: "openai-chat", Engine: "lmdeploy", Models: []api.ModelInfo{model("m", "lmdeploy", none)},
		Evidence: []string{"GET /v1/models: 200, 1 model, owned_by lmdeploy"},
	})
	tritonMeta := ok(`{"name":"triton","version":"2.60.0","extensions":["classification","statistics"]}`)
	f("triton", server{
		"/v2": tritonMeta,
		"/v2/models/stats": ok(`{"model_stats":[{"name":"ensemble","version":"1"},{"name":"preprocessing","version":"1"},
			{"name":"preprocessing","version":"2"},{"name":"tensorrt_llm","version":"1"}]}`),
	}, Finding{
		API: "triton", Engine: "triton", Version: "2.60.0",
		Models: []api.ModelInfo{model("ensemble", "", none), model("preprocessing", "", none), model("tensorrt_llm", "", none)},
		Evidence: []string{
			"GET /v1/models: 404, not found", "GET /info: 404, not found", "GET /api/tags: 404, not found",
			"GET /v2: 200, name triton, version 2.60.0", "GET /v2/models/stats: 200, 3 models",
		},
	})
	f("triton's OpenAI front end", server{"/v1/models": list("m", "Triton Inference Server")}, Finding{
		API: "openai-chat", Engine: "triton", Models: []api.ModelInfo{model("m", "Triton Inference Server", none)},
		Evidence: []string{"GET /v1/models: 200, 1 model, owned_by Triton Inference Server", "GET /v2: 404, not found"},
	})
	tei := func(kind string) server {
		return server{"/info": ok(`{"model_id":"acme/embed","model_sha":null,"model_dtype":"float16","model_type":{"` + kind + `":{"pooling":"cls"}},
			"max_input_length":512,"max_batch_tokens":16384,"version":"1.9.3"}`)}
	}
	f("tei", tei("embedding"), Finding{
		API: "tei", Engine: "tei", Version: "1.9.3", Models: []api.ModelInfo{model("acme/embed", "", 512)},
		Evidence: []string{"GET /v1/models: 404, not found", "GET /info: 200, model_id acme/embed, model_type embedding, version 1.9.3"},
	})
	f("tei with a reranker", tei("reranker"), Finding{
		API: "rerank", Engine: "tei", Version: "1.9.3", Models: []api.ModelInfo{model("acme/embed", "", 512)},
		Evidence: []string{"GET /v1/models: 404, not found", "GET /info: 200, model_id acme/embed, model_type reranker, version 1.9.3"},
	})
	notFound := func(paths ...string) (lines []string) {
		for _, p := range paths {
			lines = append(lines, "GET "+p+": 404, not found")
		}
		return lines
	}
	f("litellm", server{
		"/v1/models":        ok(`{"object":"list","data":[{"id":"gpt","owned_by":"openai"},{"id":"claude","owned_by":"openai"}]}`),
		"/health/readiness": ok(`{"status":"healthy","db":"connected","litellm_version":"1.72.6","success_callbacks":[]}`),
	}, Finding{
		API: "openai-chat", Engine: "litellm", Version: "1.72.6",
		Models: []api.ModelInfo{model("gpt", "openai", none), model("claude", "openai", none)},
		Evidence: slices.Concat([]string{"GET /v1/models: 200, 2 models, owned_by openai"},
			notFound("/info", "/api/tags", "/v2", "/v1/version"),
			[]string{"GET /health/readiness: 200, litellm_version, version 1.72.6"}),
	})
	f("newer litellm behind a key", server{
		"/v1/models":                     status(401, `{"error":{"message":"Authentication Error, No api key passed in.","type":"auth_error","code":"401"}}`),
		"/health/readiness":              ok(`{"status":"healthy","db":"connected"}`),
		"/health/readiness/details":      status(401, `{}`),
		"/.well-known/litellm-ui-config": ok(`{"server_root_path":"/","proxy_base_url":null,"admin_ui_disabled":false}`),
	}, Finding{
		API: "openai-chat", Engine: "litellm",
		Evidence: slices.Concat([]string{"GET /v1/models: 401, needs a key, or another one"},
			notFound("/info", "/api/tags", "/v2", "/v1/version"),
			[]string{
				"GET /health/readiness: 200, says nothing known",
				"GET /.well-known/litellm-ui-config: 200, settings of LiteLLM's page",
				"GET /health/readiness/details: 401, needs a key, or another one",
			}),
	})
	f("litellm by its header", server{"/v1/models": header(list("gpt", "openai"), "X-Litellm-Version", "1.93.0")}, Finding{
		API: "openai-chat", Engine: "litellm", Version: "1.93.0", Models: []api.ModelInfo{model("gpt", "openai", none)},
		Evidence: []string{"GET /v1/models: 200, a header of LiteLLM, version 1.93.0, 1 model, owned_by openai"},
	})
	f("nim", server{"/v1/models": list("meta/m", "system"), "/v1/version": ok(`{"release":"1.8.4","api":"1.8.4"}`)}, Finding{
		API: "openai-chat", Engine: "nim", Version: "1.8.4", Models: []api.ModelInfo{model("meta/m", "system", none)},
		Evidence: slices.Concat([]string{"GET /v1/models: 200, 1 model, owned_by system"}, notFound("/info", "/api/tags", "/v2"),
			[]string{"GET /v1/version: 200, release and api, version 1.8.4"}),
	})
	f("dynamo", server{"/v1/models": ok(`{"object":"list","data":[{"id":"m","object":"object","created":1,"owned_by":"nvidia"}]}`)}, Finding{
		API: "openai-chat", Engine: "dynamo", Models: []api.ModelInfo{model("m", "nvidia", none)},
		Evidence: []string{"GET /v1/models: 200, 1 model, owned_by nvidia, object: object as only Dynamo has it"},
	})
	unknown := notFound("/info", "/api/tags", "/v2", "/v1/version", "/health/readiness", "/.well-known/litellm-ui-config")
	f("another server of OpenAI's protocol", server{"/v1/models": list("m", "nvidia")}, Finding{
		API: "openai-chat", Models: []api.ModelInfo{model("m", "nvidia", none)},
		Evidence: append([]string{"GET /v1/models: 200, 1 model, owned_by nvidia"}, unknown...),
	})
	f("a gateway in front of two engines", server{"/v1/models": ok(`{"object":"list","data":[{"id":"a","owned_by":"vllm"},{"id":"b","owned_by":"sglang"}]}`)}, Finding{
		API: "openai-chat", Models: []api.ModelInfo{model("a", "vllm", none), model("b", "sglang", none)},
		Evidence: append([]string{"GET /v1/models: 200, 2 models, owned_by vllm, sglang"}, unknown...),
	})
	f("a relay of Anthropic", server{"/v1/models": ok(`{"data":[{"type":"model","id":"claude","display_name":"Claude","created_at":"2026-01-01T00:00:00Z"}],"has_more":false}`)}, Finding{
		API: "anthropic", Models: []api.ModelInfo{model("claude", "", none)},
		Evidence: append([]string{"GET /v1/models: 200, 1 model in the form of Anthropic"}, unknown...),
	})
	f("only a key is asked for", server{"*": status(401, `{"error":"Unauthorized"}`)}, Finding{
		API: "openai-chat",
		Evidence: []string{
			"GET /v1/models: 401, needs a key, or another one", "GET /info: 401, needs a key, or another one",
			"GET /api/tags: 401, needs a key, or another one", "GET /v2: 401, needs a key, or another one",
			"GET /v1/version: 401, needs a key, or another one", "GET /health/readiness: 401, needs a key, or another one",
			"GET /.well-known/litellm-ui-config: 401, needs a key, or another one",
			"api openai-chat is assumed, since the list of models needs a key",
		},
	})
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

func TestHosted(t *testing.T) {
	f := func(at, want string) {
		t.Helper()
		got, err := Detect(t.Context(), parse(t, at), func(context.Context, string) (*Reply, error) {
			t.Errorf("%s is asked", at)
			return nil, errors.New("asked")
		})
		if err != nil || got.API != want || got.Engine != "" || len(got.Evidence) != 1 {
			t.Errorf("%s: %+v, %v", at, got, err)
		}
	}
	f("https://api.openai.com/v1", "openai-chat")
	f("https://API.OpenAI.com:443/v1", "openai-chat")
	f("https://openrouter.ai/api/v1", "openai-chat")
	f("https://api.groq.com/openai/v1", "openai-chat")
	f("https://api.deepseek.com", "openai-chat")
	f("https://acme.openai.azure.com/openai/deployments/d?api-version=2024-10-21", "openai-chat")
	f("https://api.anthropic.com", "anthropic")
	f("https://api.cohere.com", "cohere")
	f("https://generativelanguage.googleapis.com", "gemini")
	f("https://generativelanguage.googleapis.com/v1beta/openai", "openai-chat")
	f("https://bedrock-runtime.eu-west-1.amazonaws.com", "bedrock")
	f("https://bedrock-runtime-fips.us-east-1.amazonaws.com", "bedrock")
	f("https://bedrock-runtime.cn-north-1.amazonaws.com.cn", "bedrock")
	f("https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1", "openai-chat")
	f("https://api.cohere.com/compatibility/v1", "openai-chat")
	f("https://api.anthropic.com/v1/chat/completions", "openai-chat")

	for _, at := range []string{
		"https://api.openai.com.evil.example", "https://openai.azure.com.evil.example", "https://xapi.openai.com",
		"https://bedrock-runtime.evil.example", "https://bedrock-runtime.amazonaws.com.evil.example",
	} {
		if name := hosted(parse(t, at)); name != "" {
			t.Errorf("%s is taken for %s", at, name)
		}
	}
}

// TestWhereToAsk gives the URLs of the first two questions.
func TestWhereToAsk(t *testing.T) {
	f := func(at, models, version string) {
		t.Helper()
		var urls []string
		_, err := Detect(t.Context(), parse(t, at), func(_ context.Context, u string) (*Reply, error) {
			urls = append(urls, u)
			r := list("m", "trtllm")
			if len(urls) == 1 {
				r = list("m", "tensorrt_llm")
			}
			return &r, nil
		})
		if d := cmp.Diff([]string{models, version}, urls); d != "" || err != nil {
			t.Errorf("%s: %v %s", at, err, d)
		}
	}
	f("http://h:8000", "http://h:8000/v1/models", "http://h:8000/version")
	f("http://h:8000/", "http://h:8000/v1/models", "http://h:8000/version")
	f("http://h:8000/v1", "http://h:8000/v1/models", "http://h:8000/version")
	f("http://h:8000/v1/chat/completions", "http://h:8000/v1/models", "http://h:8000/version")
	f("https://h/vllm/v1/", "https://h/vllm/v1/models", "https://h/vllm/version")
	f("https://h/a%2Fb", "https://h/a%2Fb/v1/models", "https://h/a%2Fb/version")
	f("http://h:11434/api/chat", "http://h:11434/v1/models", "http://h:11434/version")
	f("http://h/generate_stream", "http://h/v1/models", "http://h/version")
	f("https://h/v1beta/openai?key=k", "https://h/v1beta/openai/models?key=k", "https://h/v1beta/openai/version?key=k")
}

// TestURLOfAProtocol gives URLs that leave no choice of the protocol, and what
// is asked first.
func TestURLOfAProtocol(t *testing.T) {
	f := func(at, want, models string) {
		t.Helper()
		get, urls := server{"/v1/models": list("m", "lmdeploy")}.asked()
		got, err := Detect(t.Context(), parse(t, at), get)
		if err != nil || got.API != want || (*urls)[0] != models {
			t.Errorf("%s: %+v, %v, asked %q", at, got, err, *urls)
		}
	}
	const models = "http://h/v1/models"
	f("http://h/v1/chat/completions", "openai-chat", models)
	f("http://h/v1/completions", "openai-completions", models)
	f("http://h/v1/responses", "openai-responses", models)
	f("http://h/v1/messages/", "anthropic", models)
	f("http://h/v1/embeddings", "openai-embeddings", models)
	f("http://h/api/chat", "ollama", models)
	f("http://h/api/generate", "ollama-generate", models)
	f("http://h/api/embed", "ollama-embed", models)
	f("http://h/embed", "tei", models)
	f("http://h/rerank", "rerank", models)
	f("http://h/generate_stream", "tgi", models)
	f("http://h/generate", "sglang", models)
	f("http://h/completion", "llamacpp", models)
	f("http://h/prefix/api/chat", "ollama", "http://h/prefix/v1/models")
	f("http://h/v4/chat/completions", "openai-chat", "http://h/v4/models")

	got, err := Detect(t.Context(), parse(t, "https://api.openai.com/v1/responses"), nil)
	if err != nil || got.API != "openai-responses" {
		t.Errorf("%+v, %v", got, err)
	}
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
	many := slices.Repeat([]api.ModelInfo{{ID: "m"}}, 30)
	f(Finding{API: "openai-chat", Models: many}, head+"    api: openai-chat\n    model: m # or "+strings.Repeat("m, ", 19)+"m and 9 more\n")
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
