package detect

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

// engineTest returns a check of what a server is found to be.
func engineTest(t *testing.T) func(name string, s server, want Finding) {
	return func(name string, s server, want Finding) {
		t.Helper()
		got, _, err := detectAt(t, s, base)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// notFound are the lines of pages that are not there.
func notFound(paths ...string) (lines []string) {
	for _, p := range paths {
		lines = append(lines, "GET "+p+": 404, not found")
	}
	return lines
}

const none = api.Unknown

// TestEngines shows each server as it documents or was recorded to answer.
func TestEngines(t *testing.T) {
	f := engineTest(t)
	f("vllm", server{
		"/v1/models": ok(`{"object":"list","data":[{"id":"acme/chat-8b","object":"model","created":1,"owned_by":"vllm","root":"acme/chat-8b","parent":null,"max_model_len":32768,"permission":[{"id":"p"}]},
			{"id":"lora-a","object":"model","created":1,"owned_by":"vllm","root":"/adapters/a","parent":"acme/chat-8b"}]}`),
		"/version": ok(`{"version":"0.11.1rc2.dev7+gabc123"}`),
	}, Finding{
		API: "openai-chat", Engine: "vllm", Version: "0.11.1rc2.dev7+gabc123",
		Models: []api.ModelInfo{model("acme/chat-8b", "vllm", 32768), {ID: "lora-a", OwnedBy: "vllm", Parent: "acme/chat-8b", MaxModelLen: none}},
		Evidence: []string{
			"GET /v1/models: 200, 2 models, owned_by vllm",
			"GET /version: 200, version 0.11.1rc2.dev7+gabc123",
		},
	})
	// vLLM 0.32 with --runner pooling, which has no path for chats.
	purpose := func(apiName string, chat Reply, evidence ...string) {
		t.Helper()
		f("vllm with embeddings", server{
			"/v1/models": list("m", "vllm"), "/version": ok(`{"version":"0.32.0"}`),
			"/v1/embeddings": status(405, `{"detail":"Method Not Allowed"}`), "/v1/chat/completions": chat,
		}, Finding{
			API: apiName, Engine: "vllm", Version: "0.32.0", Models: []api.ModelInfo{model("m", "vllm", none)},
			Evidence: append([]string{"GET /v1/models: 200, 1 model, owned_by vllm", "GET /version: 200, version 0.32.0"}, evidence...),
		})
	}
	purpose("openai-embeddings", status(404, `{"detail":"Not Found"}`), "GET /v1/chat/completions: 404, while GET /v1/embeddings is 405: the model only embeds")
	purpose("openai-chat", status(405, `{"detail":"Method Not Allowed"}`))
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
		Evidence: []string{"GET /v1/models: 503, server llama.cpp, service unavailable: unavailable_error: Loading model", "GET /props: 503, service unavailable"},
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
		API: "openai-chat", Engine: "ollama", Version: "0.17.4", Models: []api.ModelInfo{},
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
}

// TestGatewaysAndOthers detects servers that reveal little, so that all questions
// may be needed.
func TestGatewaysAndOthers(t *testing.T) {
	f := engineTest(t)
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
		Evidence: slices.Concat([]string{"GET /v1/models: 401, needs a key, or another one: auth_error: Authentication Error, No api key passed in."},
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
	f("dynamo 1.6.1, as it answers", server{"/v1/models": ok(`{"object":"list","data":[{"id":"m","object":"model","created":1795353902,"owned_by":"nvidia","context_window":8192}]}`)}, Finding{
		API: "openai-chat", Engine: "dynamo", Models: []api.ModelInfo{model("m", "nvidia", 8192)},
		Evidence: []string{"GET /v1/models: 200, 1 model, owned_by nvidia, context_window as Dynamo has it"},
	})
	infinity := func(capability string) Reply { // of infinity-emb 0.0.78
		return ok(`{"data":[{"id":"m","stats":{"queue_fraction":0.0,"queue_absolute":0,"results_pending":0,"batch_size":32},"object":"model","owned_by":"infinity","created":1795356349,"backend":"torch","capabilities":["` + capability + `"]}],"object":"list"}`)
	}
	unknown := notFound("/info", "/api/tags", "/v2", "/v1/version", "/health/readiness", "/.well-known/litellm-ui-config")
	f("another server of OpenAI's protocol", server{"/v1/models": list("m", "nvidia")}, Finding{
		API: "openai-chat", Models: []api.ModelInfo{model("m", "nvidia", none)},
		Evidence: append([]string{"GET /v1/models: 200, 1 model, owned_by nvidia"}, unknown...),
	})
	for capability, apiName := range map[string]string{"embed": "openai-embeddings", "rerank": "rerank", "classify": "openai-chat"} {
		f("infinity, "+capability, server{"/v1/models": infinity(capability)}, Finding{
			API: apiName, Engine: "infinity", Models: []api.ModelInfo{model("m", "infinity", none)},
			Evidence: []string{"GET /v1/models: 200, 1 model, owned_by infinity"},
		})
	}
	f("xinference", server{"/v1/models": list("qwen3", "xinference")}, Finding{
		API: "openai-chat", Engine: "xinference", Models: []api.ModelInfo{model("qwen3", "xinference", none)},
		Evidence: []string{"GET /v1/models: 200, 1 model, owned_by xinference"},
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
