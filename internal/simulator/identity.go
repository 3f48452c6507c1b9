package simulator

import (
	"maps"
	"net/http"
	"slices"
)

// identity is how one server software shows itself: what it answers to
// questions that generate nothing. Pages are as the software documents them,
// reduced to what identifies it.
type identity struct {
	engine string // value of Options.Engine
	server string // header Server; "" is none
	// pages are the replies to GET by path: JSON, a text, or empty where nil.
	pages   func(s *Server) jsonMap
	metrics metricsPage
}

type jsonMap = map[string]any

// identities lists the server software that can be shown. The first is the
// default.
func identities() []identity {
	return []identity{
		{engine: "vllm", pages: vllmPages, metrics: metricsPage{path: "/metrics", live: vllmMetrics}},
		{engine: "sglang", pages: sglangPages, metrics: metricsPage{path: "/metrics", live: sglangMetrics}},
		{engine: "tgi", pages: tgiPages, metrics: metricsPage{path: "/metrics", sample: "tgi.txt"}},
		{engine: "trtllm", pages: trtllmPages, metrics: metricsPage{path: "/prometheus/metrics", sample: "trtllm-1.2.txt"}},
		{engine: "triton", pages: tritonPages, metrics: metricsPage{path: "/metrics", sample: "triton-trtllm.txt"}},
		{engine: "llamacpp", server: "llama.cpp", pages: llamacppPages, metrics: metricsPage{path: "/metrics", sample: "llamacpp.txt"}},
		{engine: "ollama", pages: ollamaPages},
		{engine: "lmdeploy", pages: lmdeployPages, metrics: metricsPage{path: "/metrics", sample: "lmdeploy-0.16.txt"}},
		{engine: "tei", pages: teiPages, metrics: metricsPage{path: "/metrics", sample: "tei.txt"}},
		{engine: "litellm", pages: litellmPages, metrics: metricsPage{path: "/metrics", sample: "litellm.txt"}},
		{engine: "nim", pages: nimPages, metrics: metricsPage{path: "/v1/metrics", sample: "nim.txt"}},
		{engine: "dynamo", pages: dynamoPages, metrics: metricsPage{path: "/metrics", sample: "dynamo-frontend.txt"}},
	}
}

// Engines lists the values of Options.Engine, the default first.
func Engines() []string {
	var names []string
	for _, i := range identities() {
		names = append(names, i.engine)
	}
	return names
}

// identityOf returns the identity of an engine, the default one for a name that
// is none.
func identityOf(engine string) identity {
	all := identities()
	return all[max(0, slices.IndexFunc(all, func(i identity) bool { return i.engine == engine }))]
}

// identify answers the pages of the server's identity, and leaves every other
// request to next.
func (s *Server) identify(next http.Handler) http.Handler {
	pages := s.identity.pages(s)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok := pages[r.URL.Path]
		if !ok || r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		if s.identity.server != "" {
			w.Header().Set("Server", s.identity.server)
		}
		switch p := p.(type) {
		case nil:
		case string:
			_, _ = w.Write([]byte(p)) // the client is gone
		default:
			writeJSON(w, http.StatusOK, p)
		}
	})
}

// withModels returns the pages of a server that lists its model in the form of
// OpenAI, and the given ones.
func (s *Server) withModels(owner string, more, pages jsonMap) jsonMap {
	model := jsonMap{"id": s.o.Model, "object": "model", "created": s.started.Unix(), "owned_by": owner}
	maps.Copy(model, more)
	pages["/v1/models"] = jsonMap{"object": "list", "data": []jsonMap{model}}
	return pages
}

// served is what vLLM and those in its succession add to a model.
func (s *Server) served() jsonMap {
	return jsonMap{"root": s.o.Model, "parent": nil, "max_model_len": s.o.ContextLength}
}

func vllmPages(s *Server) jsonMap {
	return s.withModels("vllm", s.served(), jsonMap{"/version": jsonMap{"version": "0.18.0"}, "/health": nil})
}

func sglangPages(s *Server) jsonMap {
	model := jsonMap{"model_path": s.o.Model, "tokenizer_path": s.o.Model, "is_generation": true}
	server := jsonMap{"model_path": s.o.Model, "api_key": nil, "is_embedding": false, "version": "0.5.11"}
	return s.withModels("sglang", s.served(), jsonMap{
		"/get_model_info": model, "/model_info": model,
		"/get_server_info": server, "/server_info": server,
		"/health": nil,
	})
}

func tgiPages(s *Server) jsonMap {
	return s.withModels(s.o.Model, nil, jsonMap{
		"/info": jsonMap{
			"model_id": s.o.Model, "model_sha": nil, "model_pipeline_tag": "text-generation",
			"max_concurrent_requests": 128, "max_best_of": 2, "max_input_tokens": s.o.ContextLength - 1,
			"max_total_tokens": s.o.ContextLength, "router": "text-generation-router", "version": "3.3.6", "docker_label": nil,
		},
		"/health": nil, "/ping": nil,
	})
}

func trtllmPages(s *Server) jsonMap {
	return s.withModels("tensorrt_llm", nil, jsonMap{
		"/version": jsonMap{"version": "1.2.0"}, "/health": nil,
		"/metrics": []jsonMap{{"iter": 1, "numActiveRequests": 0, "numQueuedRequests": 0}}, // of iterations; not for Prometheus
	})
}

// tritonPages has no list of models in the form of OpenAI: that is of Triton's
// other front end.
func tritonPages(s *Server) jsonMap {
	return jsonMap{
		"/v2":              jsonMap{"name": "triton", "version": "2.60.0", "extensions": []string{"model_repository", "statistics"}},
		"/v2/models/stats": jsonMap{"model_stats": []jsonMap{{"name": s.o.Model, "version": "1", "inference_count": 0}}},
		"/v2/health/live":  nil,
		"/v2/health/ready": nil,
	}
}

func llamacppPages(s *Server) jsonMap {
	meta := jsonMap{"meta": jsonMap{"n_ctx": s.o.ContextLength, "n_ctx_train": 4 * s.o.ContextLength}}
	return s.withModels("llamacpp", meta, jsonMap{
		"/props": jsonMap{
			"default_generation_settings": jsonMap{"n_ctx": s.o.ContextLength}, "total_slots": s.o.Slots,
			"model_path": "/models/" + s.o.Model + ".gguf", "build_info": "b10519-0a1b2c3d",
		},
		"/health": jsonMap{"status": "ok"}, "/v1/health": jsonMap{"status": "ok"},
	})
}

func ollamaPages(s *Server) jsonMap {
	const digest = "b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c"
	tag := jsonMap{"name": s.o.Model, "model": s.o.Model, "size": 4_661_224_676, "digest": digest, "details": jsonMap{"format": "gguf"}}
	loaded := jsonMap{"name": s.o.Model, "model": s.o.Model, "digest": digest, "context_length": s.o.ContextLength}
	return s.withModels("library", nil, jsonMap{
		"/":            "Ollama is running",
		"/api/version": jsonMap{"version": "0.17.4"},
		"/api/tags":    jsonMap{"models": []jsonMap{tag}},
		"/api/ps":      jsonMap{"models": []jsonMap{loaded}},
	})
}

func lmdeployPages(s *Server) jsonMap {
	return s.withModels("lmdeploy", jsonMap{"root": s.o.Model, "parent": nil}, jsonMap{"/health": nil})
}

// teiPages has no list of models: there is one, and no request names it.
func teiPages(s *Server) jsonMap {
	return jsonMap{
		"/info": jsonMap{
			"model_id": s.o.Model, "model_sha": nil, "model_dtype": "float16",
			"model_type":       jsonMap{"embedding": jsonMap{"pooling": "cls"}},
			"max_input_length": s.o.ContextLength, "max_client_batch_size": 32, "version": "1.9.3", "docker_label": nil,
		},
		"/health": nil, "/ping": nil,
	}
}

// litellmPages is a gateway: the models are of others, and the version is only
// reported where the operator allows it, as here.
func litellmPages(s *Server) jsonMap {
	return s.withModels("openai", nil, jsonMap{
		"/health/liveliness":             "I'm alive!",
		"/health/readiness":              jsonMap{"status": "healthy", "db": "Not connected", "litellm_version": "1.93.0"},
		"/.well-known/litellm-ui-config": jsonMap{"server_root_path": "/", "proxy_base_url": nil},
	})
}

func nimPages(s *Server) jsonMap {
	return s.withModels("system", s.served(), jsonMap{
		"/v1/version":      jsonMap{"release": "1.8.4", "api": "1.8.4"},
		"/v1/health/live":  jsonMap{"object": "health.response", "message": "Service is live."},
		"/v1/health/ready": jsonMap{"object": "health.response", "message": "Service is ready."},
	})
}

// dynamoPages calls each model an object, as Dynamo's front end does.
func dynamoPages(s *Server) jsonMap {
	return s.withModels("nvidia", jsonMap{"object": "object"}, jsonMap{
		"/health": jsonMap{"status": "healthy", "endpoints": []string{}, "instances": []string{}},
		"/live":   jsonMap{"status": "live", "message": "Service is live"},
	})
}
