package explain

// Rule is a row of the table: what makes a cause, and what to say of it.
type Rule struct {
	Cause Cause
	// Title is the cause in a few words.
	Title string
	// When is the condition, in words.
	When string
	// Weight ranks causes that hold at the same time: those that bring about others are
	// above them. It is multiplied with the share of the failed probes that the cause
	// explains, and halved of a cause of slow answers while probes fail of something else.
	Weight int
	// AtStep is the weight where the cause began when a latency, or the share of failures,
	// rose by a step; 0 is the same as Weight.
	AtStep int
	// WhileUp says that the rule is looked at also while the endpoint is up.
	WhileUp bool
	// Against is what would refute the cause.
	Against string
	// Do is what to do next, in this order.
	Do []string
	// Runbook is the page in docs/runbooks, unless the evidence leads to another one.
	Runbook string

	match func(*facts) *match // nil is no evidence of the cause
}

// Rules returns the table, for the documentation.
func Rules() []Rule { return rules() }

// rules is the table, one row for each cause. At equal scores the first is the likelier.
func rules() []Rule {
	return []Rule{
		{
			Cause: SharedCause, Weight: 100, match: matchCommon,
			Title:   "several endpoints fail at once",
			When:    "at least four fifths of the endpoints with the same host, gateway, GPU, node, zone or DNS suffix have the same cause since the same 10 minutes, none with the same host, gateway, GPU or node was well since, and at most half as many of the others have it",
			Against: "one of these endpoints that works, or endpoints without this in common that fail in the same way",
			Do:      []string{"Look at what they have in common before any of the endpoints.", "See the second finding for how they fail."},
			Runbook: "InferenceEndpointDown",
		},
		{
			Cause: ExporterBusy, Weight: 95, WhileUp: true, match: matchExporterBusy,
			Title:   "the exporter itself measures badly",
			When:    "at least half of the latest answers, and three, are imprecise, or half of the probes started a second late, or the operating system refused resources; the first two count half while probes fail",
			Against: "another exporter that measures the same",
			Do:      []string{"Give the exporter more CPU or fewer probes: see the pages of the exporter and of sizing.", "Judge the endpoint by its servers' own latencies until then."},
			Runbook: "InferenceMeasurementSuspect",
		},
		{
			Cause: ProbesThrottled, Weight: 92, match: matchProbesThrottled,
			Title:   "the exporter holds its probes back",
			When:    "no result for long, and the latest runs were skipped for a budget, a limit, or a run that had not ended",
			Against: "a result that is newer than the skipped runs",
			Do:      []string{"Raise the budget or the limit in the configuration, or probe less.", "Until then nothing is known of the endpoint: ask it by hand."},
			Runbook: "InferenceProbeStale",
		},
		{
			Cause: DNS, Weight: 80, match: matchDNS,
			Title:   "the host name does not resolve",
			When:    "failed probes ended as `dns_error`, or name resolution is half of a duration over its objective",
			Against: "the name resolves on this machine, as by getent hosts",
			Do:      []string{"Resolve the name on the machine of the exporter and on another one.", "Look at the latest change of the record, then at the resolver."},
			Runbook: "InferenceEndpointDown",
		},
		{
			Cause: Certificate, Weight: 80, match: matchCertificate,
			Title:   "TLS fails",
			When:    "failed probes ended as `tls_error`",
			Against: "a client on this machine that connects with the same authority",
			Do:      []string{"Compare the names, dates and issuer of the certificate with the URL.", "Look at when the certificate was last renewed and whether the server was reloaded since."},
			Runbook: "InferenceCertificateExpiring",
		},
		{
			Cause: KeyMissing, Weight: 80, match: matchKeyMissing,
			Title:   "the endpoint wants a key, and none is configured",
			When:    "as `credentials`, and the configuration of the endpoint has no key; or a secret is missing in the configuration",
			Against: "a request without a key that is accepted",
			Do:      []string{"Give the endpoint its key: `http.authorization.credentials_file`, or a header under `http.http_headers`.", "Was the server opened to all before? Look at what changed."},
			Runbook: "InferenceProbeFailing",
		},
		{
			Cause: Credentials, Weight: 80, match: matchCredentials,
			Title:   "the key is refused",
			When:    "failed probes ended as `unauthorized`, a proxy answered 407, or LiteLLM 400 with `No connected db.`, which is a key that it does not know",
			Against: "a request with the same key that is accepted",
			Do:      []string{"Is the key in the configuration current? Look at the latest rotation.", "Is the key allowed to use this model?"},
			Runbook: "InferenceProbeFailing",
		},
		{
			Cause: Quota, Weight: 80, match: matchQuota,
			Title:   "a rate limit is exceeded",
			When:    "failed probes ended as `rate_limited`, and no request waits at the servers",
			Against: "users of another key that are refused too: then it is load, not quota",
			Do:      []string{"Find out who uses the quota: these probes or others with the same key.", "Ask for more, or probe less often or with fewer tokens."},
			Runbook: "InferenceProbeFailing",
		},
		{
			Cause: Request, Weight: 80, match: matchRequest,
			Title:   "the request does not fit the server",
			When:    "failed probes ended with a status that refuses the request (3xx, 400, 404, 405, 413, 415, 422), or with another protocol although no probe ever succeeded, or the model must be named",
			Against: "the same request by hand that is answered",
			Do:      []string{"Check URL, api and model of the endpoint: `inference_exporter detect URL` shows what answers there.", "If it worked before: was the model renamed or the server upgraded?"},
			Runbook: "InferenceProbeFailing",
		},
		{
			Cause: GatewayLost, Weight: 79, match: matchGatewayLost,
			Title:   "the gateway is down",
			When:    "failed probes got no connection or no answer in time, or ended with 502, 503 or 504, and the pages of all replicas of the endpoint's gateway, one of which was read before, do not answer",
			Against: "a request through the gateway that is answered: then its page alone is lost",
			Do:      []string{"Is the gateway running, and where does it listen? Its log before the first failure says why it ended.", "Send a request straight to a server: if it is answered, restart or roll back the gateway."},
			Runbook: "InferenceGatewayLost",
		},
		{
			Cause: ReplicaLost, Weight: 78, WhileUp: true, match: matchReplicaLost,
			Title:   "servers behind the endpoint are gone",
			When:    "some pages of servers do not answer while others do, or fewer servers are up than usual",
			Against: "the server answers requests, and its page alone does not",
			Do:      []string{"Look at why the servers left: crash, eviction, node, deployment.", "Check that the balancer no longer sends requests to them."},
			Runbook: "InferenceReplicaLost",
		},
		{
			Cause: ProcessGone, Weight: 75, match: matchProcessGone,
			Title:   "the server process is gone",
			When:    "failed probes were refused a connection, or a gateway answered 502, 503 or 504 and no server's page answers",
			Against: "a process that listens on this address and port",
			Do:      []string{"Is the process running, and where does it listen?", "Its log before the first failure says why it ended: out of memory, a lost GPU, a deployment."},
			Runbook: "InferenceEndpointDown",
		},
		{
			Cause: Loading, Weight: 75, match: matchLoading,
			Title:   "the server loads its model",
			When:    "failed probes ended as `overloaded` (503), and the answer says so (`Loading model`, `not ready`, `warming up`), or no request waits and the server's process started, or connections were refused, within 30 minutes before",
			Against: "a server that has been loading for longer than usual: then it hangs or starts over and over",
			Do:      []string{"Wait for as long as loading usually takes: its log shows how far it is.", "Why did it start: a deployment, a crash, out of memory? Its log before the start says so.", "Let the balancer send requests only to servers that are ready."},
			Runbook: "InferenceProbeFailing",
		},
		{
			Cause: Network, Weight: 74, match: matchNetwork,
			Title:   "the network does not reach the host",
			When:    "failed probes got no connection in time, or no route; or connecting is half of a duration over its objective",
			Against: "another machine of the same network that connects",
			Do:      []string{"Connect from the machine of the exporter to host and port.", "Look at firewalls, network policies and routes that changed, then at the node."},
			Runbook: "InferenceEndpointDown",
		},
		{
			Cause: GatewayBackends, Weight: 73, match: matchGatewayBackends,
			Title:   "the gateway has too few ready backends",
			When:    "the endpoint's gateway reports no ready backend, or fewer than usual, and failed probes ended with 429, 5xx, in mid-answer or without an answer in time; or tokens are late and requests wait",
			Against: "as few ready backends while all was well, as after scaling down",
			Do:      []string{"Are the servers that are not ready up, and is the model loaded? If they are, the health check of the gateway is wrong.", "If they are not, look at why they left: crash, eviction, node, deployment."},
			Runbook: "InferenceGatewayWithoutBackends",
		},
		{
			Cause: KVCacheFull, Weight: 72, match: matchKVCacheFull,
			Title:   "the KV cache is full",
			When:    "tokens are late or requests fail, and requests are preempted, or the KV cache is at least 95 % full and requests wait",
			Against: "a KV cache that was as full while latencies were as usual",
			Do:      []string{"Shed or move load: long contexts first.", "Then more replicas, a shorter maximum context, or more memory for the cache."},
			Runbook: "InferenceKVCacheSaturated",
		},
		{
			Cause: Hung, Weight: 70, match: matchHung,
			Title:   "the engine hangs",
			When:    "probes are taken and time out before the next token, and the servers' pages show no progress, do not answer in time, or are not known",
			Against: "tokens that are generated for other requests",
			Do:      []string{"Take the server out of the balancer and restart it; keep its log and a dump of its threads.", "Look at the GPUs: XID errors, a collective that waits for a lost rank."},
			Runbook: "InferenceServerHung",
		},
		{
			Cause: Buffered, Weight: 69, WhileUp: true, match: matchBuffered,
			Title:   "answers arrive in one piece",
			When:    "at least half of the latest answers, and three, came in one burst",
			Against: "a stream straight from the server, without the proxy, that comes in one piece too",
			Do:      []string{"Turn off response buffering and compression of the proxy for this path.", "Read TTFT as the duration of the whole answer until then."},
			Runbook: "InferenceStreamsBuffered",
		},
		{
			Cause: PrefixCacheLost, Weight: 68, match: matchPrefixCacheLost,
			Title:   "the prefix cache no longer hits",
			When:    "first tokens are late, and the hit ratio is less than half of the usual one, which is at least 20 %",
			Against: "hits that are as usual for the requests of probes",
			Do:      []string{"Was the server restarted, its cache resized, or the routing by prefix changed?", "Was the beginning of the users' prompts changed, as by a date in it?"},
			Runbook: "InferencePrefixCacheHitRateCollapse",
		},
		{
			Cause: GatewayQueue, Weight: 67, match: matchGatewayQueue,
			Title:   "requests wait in the queue of the gateway",
			When:    "first tokens are late, and the queue of the gateway is the longest part of TTFT, or half of what TTFT has more than usual; or probes time out while more requests than usual wait in the gateway",
			Against: "a queue of the gateway that was as long while latencies were as usual",
			Do:      []string{"Do the servers have room? Then the limits of the gateway, or its judgement of their load, hold requests back.", "If they do not: who sends more than usual? Limit it, or add replicas."},
			Runbook: "InferenceClientServerGap",
		},
		{
			Cause: GatewayFault, Weight: 67, match: matchGateway,
			Title:   "a gateway or proxy between is at fault",
			When:    "failed probes ended with 408, 502 or 504 or with another protocol than before, or the delay is neither in the servers' own latencies nor in the queue of a known gateway, or requests time out while the servers are idle",
			Against: "the same request straight to a server that is as slow, or fails too",
			Do:      []string{"Send the request straight to a server and compare.", "Look at the load, limits and latest change of what is between."},
			Runbook: "InferenceClientServerGap",
		},
		{
			Cause: QueueFull, Weight: 66, match: matchQueueFull,
			Title:   "more requests than the servers take",
			When:    "failed probes ended as `overloaded`, or as `rate_limited` with requests waiting; or first tokens are late and requests wait at the servers",
			Against: "a queue that was as long while latencies were as usual",
			Do:      []string{"Who sends more than usual? Limit it, or add replicas.", "If nobody does: why are the servers slower? See the other findings."},
			Runbook: "InferenceQueueGrowing",
		},
		{
			Cause: ModelChanged, Weight: 64, AtStep: 76, WhileUp: true, match: matchModelChanged,
			Title:   "the model is another one than before",
			When:    "the name of the model in replies or lists, the fingerprint, the answers or the score of the reference passage changed within the last hour or since 10 minutes before the state, and probes are answered",
			Against: "a deployment log without a change at that time",
			Do:      []string{"Was it meant? Compare model, revision, quantization and chat template with before.", "Roll back if it was not."},
			Runbook: "InferenceFingerprintChanged",
		},
		{
			Cause: ServerError, Weight: 63, match: matchServerError,
			Title:   "the server fails on requests",
			When:    "failed probes ended with another 5xx, with an error inside the reply, or with a connection that was closed without a reply",
			Against: "requests of users that succeed at the same time",
			Do:      []string{"The server's log at the time of a failed probe says why: look for the trace id.", "Restart or take it out of the balancer if it does not recover."},
			Runbook: "InferenceProbeFailing",
		},
		{
			Cause: AnswersBroken, Weight: 62, WhileUp: true, match: matchAnswersBroken,
			Title:   "answers are empty, cut or wrong",
			When:    "failed probes ended as `check_failed`, `empty`, `truncated` or `too_large`; or more answers than usual have signs of corruption, which counts half while probes fail of something else",
			Against: "the same question by hand that is answered well",
			Do:      []string{"Ask the same by hand, and look at the whole answer.", "Compare chat template, stop sequences, limits of proxies and quantization with when it passed."},
			Runbook: "InferenceAnswersCut",
		},
		{
			Cause: PrefillSlow, Weight: 60, match: matchPrefillSlow,
			Title:   "the server computes prompts slowly",
			When:    "first tokens are late, the servers' own TTFT or prefill time has grown as well, and no request waits; or a GPU of the endpoint is throttled",
			Against: "longer prompts than usual: compare at equal length",
			Do:      []string{"Look at the clocks and the neighbours of the GPUs.", "Was the version, its options (chunked prefill, attention backend) or the quantization changed?"},
			Runbook: "InferenceLatencyRegression",
		},
		{
			Cause: DecodeSlow, Weight: 58, match: matchDecodeSlow,
			Title:   "tokens are generated slowly",
			When:    "the time per output token is over its objective (without one, 1.5 times the usual), or whole answers time out while tokens still come",
			Against: "as many more requests in the batch: then it is load",
			Do:      []string{"Look at the clocks, the memory bandwidth and the neighbours of the GPUs.", "Compare the number of running requests with the usual one."},
			Runbook: "InferenceDecodeSpeedCollapse",
		},
	}
}
