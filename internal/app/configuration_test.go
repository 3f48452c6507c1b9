package app

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/alerts"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/cli"
)

func TestCheckOfModules(t *testing.T) {
	t.Parallel()
	f := func(api, module, want string) {
		t.Helper()
		file := writeFile(t, "exporter.yml", "modules: {ref: {reference_logprob: true}, quiz: {questions: true}}\n"+
			"endpoints: [{url: http://h, model: m, api: "+api+", modules: ["+module+"]}]\n")
		got := runToEnd(t, "check", "--config.file="+file)
		if want == "" && got.code != cli.ExitOK || want != "" && (got.code != cli.ExitUsage || !strings.Contains(got.stderr, want)) {
			t.Errorf("%s with %s: exit code %d, %q, want %q", api, module, got.code, got.stderr, want)
		}
	}
	const place = ":2: endpoints[0].modules[0]: module "
	f("openai-chat", "ref", "")
	f("anthropic", "ref", place+`"ref": the api anthropic cannot score a text`)
	f("openai-embeddings", "quiz", place+`"quiz": the api openai-embeddings embeds or ranks`)
	f("openai-embeddings", "agent", place+`"agent": the api openai-embeddings embeds or ranks`)
	f("openai-embeddings", "embedding", "")
}

func TestCheckCounts(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := runToEnd(t, "check", "--config.file="+writeFile(t, "exporter.yml", text)); !strings.Contains(got.stdout, ": good: "+want+"\n") {
			t.Errorf("%q, want %q", got.stdout, want)
		}
	}
	f("endpoints: [{url: http://h}]\n", "1 endpoint, 1 probe")
	f("endpoints: [{url: http://h}, {url: http://i, modules: [interactive, agent]}]\n", "2 endpoints, 3 probes")
	f("discovery: [{modules: [interactive], allow: [h], static_configs: [{targets: [h]}]}]\n", "0 endpoints, 0 probes, and what is found by 1 discovery")
}

func TestCheckOfTightBudgets(t *testing.T) {
	t.Parallel()
	f := func(endpoint, want string) {
		t.Helper()
		file := writeFile(t, "exporter.yml", "endpoints: [{url: http://h, name: a, "+endpoint+"}]\n")
		got := runToEnd(t, "check", "--config.file="+file)
		if got.code != cli.ExitOK || strings.Contains(got.stdout, "note: the budget of a") != (want != "") || !strings.Contains(got.stdout, want) {
			t.Errorf("%s: exit code %d, %q, want %q", endpoint, got.code, got.stdout, want)
		}
	}
	// 120 probes an hour of 256 + 64 tokens, of 1.1 x 256 + 64 + 64 at most.
	f("budget: {tokens_per_hour: 19200}", "allows 19200 tokens an hour, and its probes take 38400 tokens an hour: they pause when it is used up, after about 30m")
	f("budget: {tokens_per_hour: 38399}", "after about 1h")
	f("budget: {tokens_per_hour: 49079}", "may take 49080 tokens an hour: they pause when it is used up")
	f("budget: {tokens_per_hour: 49080}", "")
	// A probe is $0.001152 as a rule, and 2 x 345 + 10 x 64 millionths at most; 2880 in a day.
	const price = ", price: {input_usd: 2, output_usd: 10}"
	f("budget: {usd_per_day: 0.01}"+price, "allows $0.01 a day, and its probes take $3.32 a day: they pause when it is used up, after about 4m")
	f("budget: {usd_per_day: 3.83}"+price, "allows $3.83 a day, and its probes may take $3.83 a day: they pause")
	f("budget: {usd_per_day: 3.84}"+price, "")
}

// TestCheckOfCosts holds what check says of the cost against arithmetic: of the default
// 2880 x (256 + 64) tokens and 2880 x (256 x 2 + 64 x 10) millionths, as README has it.
func TestCheckOfCosts(t *testing.T) {
	file := writeFile(t, "exporter.yml", `modules:
  mixed: {interval: 1h, input_tokens: {100: 3, 500: 1}, output_tokens: 20}
  ladder: {interval: 1h, input_tokens: [1000, 2000], output_tokens: 10}
  pairs: {interval: 1h, input_tokens: 1000, output_tokens: 10, prefix: paired}
endpoints:
  - {name: usd, url: http://h, price: {input_usd: 2, output_usd: 10}}
  - {name: eur, url: http://i, modules: [mixed], price: {currency: EUR, input: 1000, output: 1000}}
  - {name: none, url: http://j, modules: [ladder, pairs]}
  - {name: night, url: http://k, modules: [mixed], price: {input_usd: 1000, output_usd: 1000, schedule: [{hours: "00:00-12:00", input: 500, output: 500}]}}
`)
	got := runToEnd(t, "check", file)
	want := file + `: good: 4 endpoints, 6 probes
PROBES OF  TOKENS A DAY  COST A DAY        IN 30 DAYS
night      5,280         $3.96             $118.80
usd        921,600       $3.32             $99.53
none       120,960       -                 -
eur        5,280         5.28 EUR          158.40 EUR
all        1,053,120     5.28 EUR + $7.28  158.40 EUR + $218.33
`
	if d := cmp.Diff(ended{cli.ExitOK, want, ""}, got, cmp.AllowUnexported(ended{})); d != "" {
		t.Error(d)
	}
	var many strings.Builder
	for i := range 25 {
		fmt.Fprintf(&many, "  - {name: e%d, url: http://h%d}\n", i, i)
	}
	got = runToEnd(t, "check", writeFile(t, "many.yml", "endpoints:\n"+many.String()))
	if !regexp.MustCompile(`\ne19 .*\nand 5 more *\nall  +23,040,000 `).MatchString(got.stdout) {
		t.Errorf("of 25 endpoints:\n%s", got.stdout)
	}
}

// TestCheckOfLoads is by arithmetic too: two levels of 2 m at 0.5 and 1.5 requests per second are 240 requests of 300
// tokens, and $4.50 are 450 tokens at $0.01.
func TestCheckOfLoads(t *testing.T) {
	file := writeFile(t, "exporter.yml", `modules:
  rate: {input_tokens: 200, output_tokens: 100, load: {requests_per_second: [0.5, 1.5]}}
  few: {input_tokens: 200, output_tokens: 100, interval: 12h, load: {users: [2], max_tokens: 6000}}
  usd: {input_tokens: 200, output_tokens: 100, load: {users: [2], max_usd: 4.5}}
  users: {load: {users: [2]}}
endpoints:
  - {name: rate, url: http://h, modules: [rate]}
  - {name: few, url: http://i, modules: [few]}
  - {name: usd, url: http://j, modules: [usd], price: {input_usd: 10000, output_usd: 10000}}
  - {name: users, url: http://k, modules: [users]}
`)
	got := runToEnd(t, "check", file)
	want := file + `: good: 4 endpoints, 0 probes, 4 load tests
PROBES OF  TOKENS A DAY  COST A DAY  IN 30 DAYS
usd        450           $4.50       $135.00
rate       72,000        -           -
few        12,000        -           -
users      0             -           -
all        84,450        $4.50       $135.00
` + file + `: note: a load test of users is not counted, as it takes as many tokens as the endpoint answers; load.max_tokens bounds it
`
	if d := cmp.Diff(ended{cli.ExitOK, want, ""}, got, cmp.AllowUnexported(ended{})); d != "" {
		t.Error(d)
	}
}

// Mistakes of every kind are reported at once, each with its place: those of the
// file's form and those that only another package can see.
func TestCheckReportsAllMistakes(t *testing.T) {
	file := writeFile(t, "exporter.yml", `global: {budget: {tokens_per_hour: 28000}}
modules:
  bad: {timeout: soon}
  ref: {reference_logprob: true}
  big: {input_tokens: 20000}
endpoints:
  - {url: http://a, servers: {engine: puffer}}
  - {url: http://b, hardware: {gpu: Voodoo 2}}
  - {url: http://c, api: anthropic, modules: [interactive, ref]}
  - {url: http://d, modules: [big], budget: {tokens_per_hour: 4000}}
  - {url: http://e, modules: [bad, big]}
  - {url: http://f, api: tei, slo: {ttft: 1s}, hardware: {gpu: Voodoo 3}, servers: {engine: coal}}
  - {url: ftp://g, modules: [fast]}
engines:
  steam train: {values: {requests_running: [{series: wheels}]}}
  coal: {sentinels: smoke}
`)
	refused(t, cli.ExitUsage, []string{
		`\S+:3: modules\.bad\.timeout: expected a duration like 30s, got "soon"`,
		`\S+:7: endpoints\[0\]\.servers\.engine: unknown engine "puffer"; known: .*coal, .*`,
		`\S+:8: endpoints\[1\]\.hardware\.gpu: unknown product "Voodoo 2"; .*`,
		`\S+:9: endpoints\[2\]\.modules\[1\]: module "ref": the api anthropic cannot score a text: .*`,
		`\S+:10: endpoints\[3\]\.modules\[0\]: module "big": .* the endpoint's budget allows`,
		`\S+:10: endpoints\[3\]\.modules\[0\]: module "big": .* global.budget allows`,
		`\S+:11: endpoints\[4\]\.modules\[1\]: module "big": .* global.budget allows`,
		`\S+:12: endpoints\[5\]\.hardware\.gpu: unknown product "Voodoo 3"; .*`,
		`\S+:12: endpoints\[5\]\.slo\.ttft: the api tei embeds or ranks and does not generate: want e2e instead`,
		`\S+:13: endpoints\[6\]\.url: want a URL that begins with http:// or https://`,
		`\S+:13: endpoints\[6\]\.modules\[0\]: unknown module "fast"; .*`,
		`\S+:15: engines\["steam train"\]: no sentinels; .*`,
		`\S+:16: engines\.coal\.sentinels: expected a list, got a plain value`,
	}, "check", "--config.file="+file)
}

// Objectives for tokens are refused where no endpoint that they hold for answers
// with tokens.
func TestCheckOfObjectives(t *testing.T) {
	t.Parallel()
	f := func(text string, want ...string) {
		t.Helper()
		file := writeFile(t, "exporter.yml", text)
		if want != nil {
			refused(t, cli.ExitUsage, want, "check", "--config.file="+file)
		} else if got := runToEnd(t, "check", "--config.file="+file); got.code != cli.ExitOK {
			t.Errorf("%s: exit code %d, %s", text, got.code, got.stderr)
		}
	}
	const instead = ` embeds or ranks and does not generate: want e2e instead`
	f("endpoints: [{url: http://h, api: rerank, slo: {ttft: 1s, tpot: 50ms, e2e: 2s}}]\n",
		`\S+:1: endpoints\[0\].slo.ttft: the api rerank`+instead, `\S+:1: endpoints\[0\].slo.tpot: the api rerank`+instead)
	f("modules: {embedding: {slo: {ttft: 1s}}}\nendpoints: [{url: http://h, api: openai-embeddings, modules: [embedding]}]\n",
		`\S+:1: modules.embedding.slo.ttft: the api openai-embeddings`+instead)
	f("endpoints: [{url: http://h, api: cohere-embed, slo: {e2e: 2s}}]\n")
	f("modules: {both: {slo: {ttft: 1s}}}\nendpoints: [{url: http://h, api: tei, modules: [both]}, {url: http://i, modules: [both]}]\n")
	f("discovery: [{api: ollama-embed, slo: {tpot: 1s}, static_configs: [{targets: [h]}]}]\n",
		`\S+:1: discovery\[0\].slo.tpot: the api ollama-embed`+instead)
}

// What the start would refuse of a source of targets, check refuses too.
func TestCheckOfSources(t *testing.T) {
	file := writeFile(t, "exporter.yml", "discovery: [{http_sd_configs: [{url: 'https://h/x', tls_config: {ca_file: ca.pem}}]}]\n")
	got := runToEnd(t, "check", "--config.file="+file)
	if got.code != cli.ExitUsage || !strings.Contains(got.stderr, ":1: discovery[0].http_sd_configs[0].tls_config.ca_file: cannot read the file ") {
		t.Errorf("exit code %d, %q", got.code, got.stderr)
	}
}

// A secret in a wrong place is repeated by nobody: not by check, nor by a reload, its
// log and the page that says what was wrong.
func TestWrongPlacesOfSecretsStaySecret(t *testing.T) {
	t.Parallel()
	const canary, good = "sk-C4nary9xQ7", "endpoints: [{url: 'http://127.0.0.1:9', http: {oauth2: {client_id: a, client_secret: b, token_url: 'http://127.0.0.1:9', endpoint_params: {assertion: sk-C4nary9xQ7}}}}]\n"
	r := startReloading(t, good, "--no-collector.probe", "--no-collector.server", "--no-collector.gpu")
	for _, form := range []string{
		"http: {authorization: {credentials:" + canary + "}}",
		"http: {authorization: {credentials_file: " + canary + "}}",
		"http: {http_headers: {X-Key:" + canary + "}}",
		"http: {basic_auth: {" + canary + ": password}}",
		"sigv4: {secret_access_key:" + canary + "}",
		"authorization:" + canary,
		"url: 'http://me:" + canary + "@h'",
		"http: {proxy_url: 'http://me:" + canary + "'}",
	} {
		bad := "endpoints: [{name: a, " + form + "}]\n"
		checked := runToEnd(t, "check", "--config.file="+writeFile(t, "bad.yml", bad))
		status, answer := r.reload(bad)
		_, self := r.get("/api/v1/self")
		shown := checked.stdout + checked.stderr + answer + string(self)
		if checked.code != cli.ExitUsage || status == http.StatusOK || !strings.Contains(shown, ":1: endpoints[0]") || strings.Contains(shown, canary) {
			t.Errorf("%s: exit code %d, status %d:\n%s", form, checked.code, status, shown)
		}
	}
	if _, page := r.get("/api/v1/config"); !strings.Contains(string(page), "assertion") || strings.Contains(string(page), canary) {
		t.Errorf("/config:\n%s", page)
	}
	if log := r.stderr.String(); !strings.Contains(log, "reloading the configuration failed") || strings.Contains(log, canary) {
		t.Errorf("the log:\n%s", log)
	}
}

// TestRulesForTheDefaults compares the output with the rules in alerts/.
func TestRulesForTheDefaults(t *testing.T) {
	t.Parallel()
	f := func(sets []string, args ...string) {
		t.Helper()
		got := runToEnd(t, append([]string{"rules"}, args...)...)
		if got.code != cli.ExitOK || got.stderr != "" {
			t.Fatalf("exit code %d, stderr %q", got.code, got.stderr)
		}
		var file struct{ Groups []alerts.Group }
		if err := yaml.Unmarshal([]byte(got.stdout), &file); err != nil {
			t.Fatal(err)
		}
		o := alerts.Default()
		o.Sets = sets
		want := append(alerts.Recording(o), alerts.Alerts(o)...)
		if d := cmp.Diff(want, file.Groups); d != "" {
			t.Errorf("%q: (-want +got):\n%s", args, d)
		}
	}
	f(nil)
	f(nil, "--config.file="+writeFile(t, "minimal.yml", "endpoints: [{url: http://localhost:8000}]\n"))
	f([]string{"gpu", "budgets"}, "--set=gpu,budgets")
	f(alerts.Sets(), "--set=all")
	refused(t, cli.ExitUsage, []string{`.*no set of rules "gpus"; sets: servers, gpu, quality, budgets`}, "rules", "--set=gpus")
}

// TestRulesForAConfiguration checks what rules take from a file.
func TestRulesForAConfiguration(t *testing.T) {
	t.Parallel()
	text := `
global: {interval: 15s, timeout: 40s, labels: {location: fra1}}
modules:
  long: {interval: 40m, timeout: 5m}
  unused: {interval: 12h, timeout: 1h}
endpoints:
  - {url: http://localhost:8000, modules: [interactive, long], labels: {team: search}}
  - {url: http://localhost:8001}
discovery:
  - {static_configs: [{targets: [a], labels: {zone: b, __model__: m}}], relabel_configs: [{target_label: rack, replacement: r}]}
`
	file := writeFile(t, "rules.yml", text)
	cfg, err := config.Load(file, "")
	if err != nil {
		t.Fatal(err)
	}
	want := alerts.Options{
		Labels:  []string{"location", "rack", "team", "zone"},
		Modules: map[string]time.Duration{"interactive": 15 * time.Second, "long": 40 * time.Minute},
	}
	if d := cmp.Diff(want, ruleOptions(cfg)); d != "" {
		t.Errorf("options (-want +got):\n%s", d)
	}
	got := runToEnd(t, "rules", "--config.file="+file)
	if got.code != cli.ExitOK || got.stderr != "" {
		t.Fatalf("exit code %d, stderr %q", got.code, got.stderr)
	}
	// Labels, and the skipped runs of four long intervals.
	for _, s := range []string{"by (endpoint, location, rack, team, zone)", `{reason!~"overrun|limit|resources|secret_missing"}[160m]`} {
		if !strings.Contains(got.stdout, s) {
			t.Errorf("the rules do not contain %q", s)
		}
	}
}

func TestRulesOfABrokenFile(t *testing.T) {
	refused(t, cli.ExitUsage, []string{`\S+/empty.yml: the file is empty; .*`}, "rules", "--config.file="+writeFile(t, "empty.yml", ""))
}

// What a configuration refers to must be there, and an error names the place as
// any other.
func TestCheckReferences(t *testing.T) {
	t.Parallel()
	const head = "endpoints:\n  - url: http://host:8000\n"
	for _, tc := range []struct{ name, file, want string }{
		{"engine", head + "    servers: {engine: steam}\n", ":3: endpoints[0].servers.engine: unknown engine \"steam\"; known: "},
		{"mapping", head + "engines:\n  steam: {values: {requests_running: [{series: wheels}]}}\n", ":4: engines.steam: no sentinels; "},
		{"product", head + "    hardware: {gpu: Voodoo 2}\n", ":3: endpoints[0].hardware.gpu: unknown product \"Voodoo 2\"; "},
		{"product with its bandwidth", head + "    hardware: {gpu: Voodoo 2, memory_bandwidth: 2GB}\n", ""},
		{
			"two bandwidths", head + "    hardware: {uuids: [GPU-a, GPU-b], memory_bandwidth: 2TB}\n" +
				"  - url: http://other:8000\n    hardware: {uuids: [GPU-c]}\n" +
				"  - url: http://third:8000\n    hardware: {uuids: [GPU-c, GPU-b], memory_bandwidth: 3TB}\n",
			":7: endpoints[2].hardware.memory_bandwidth: 3TB is that of GPU-b, which has 2TB at endpoints[0]",
		},
		{"the same bandwidth twice", head + "    hardware: {uuids: [GPU-a], memory_bandwidth: 2TB}\n" +
			"  - url: http://other:8000\n    hardware: {uuids: [GPU-a, GPU-b], memory_bandwidth: 2000GB}\n", ""},
		{"changed mapping", head + "engines:\n  vllm: {values: {requests_running: [{series: wheels}]}}\n", ""},
		{"own mapping", head + "    servers: {engine: steam}\nengines:\n  steam: {sentinels: [wheels]}\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name := writeFile(t, "exporter.yml", tc.file)
			got := runToEnd(t, "check", "--config.file="+name)
			if tc.want == "" {
				if got.code != cli.ExitOK {
					t.Errorf("exit code %d: %s", got.code, got.stderr)
				}
				return
			}
			if got.code != cli.ExitUsage || !strings.HasPrefix(got.stderr, name+tc.want) {
				t.Errorf("exit code %d, want 2 and a line that begins with %q: %s", got.code, tc.want, got.stderr)
			}
		})
	}
}
