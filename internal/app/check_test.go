package app

import (
	"strings"
	"testing"
)

func TestCheckOfModules(t *testing.T) {
	f := func(api, module, want string) {
		t.Helper()
		file := writeFile(t, "exporter.yml", "modules: {ref: {reference_logprob: true}, quiz: {questions: true}}\n"+
			"endpoints: [{url: http://h, model: m, api: "+api+", modules: ["+module+"]}]\n")
		got := runToEnd(t, "check", "--config.file="+file)
		if want == "" && got.code != exitOK || want != "" && (got.code != exitConfig || !strings.Contains(got.stderr, want)) {
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

func TestCheckOfTightBudgets(t *testing.T) {
	f := func(tokens, want string) {
		t.Helper()
		file := writeFile(t, "exporter.yml", "endpoints: [{url: http://h, name: a, budget: {tokens_per_hour: "+tokens+"}}]\n")
		got := runToEnd(t, "check", "--config.file="+file)
		if got.code != exitOK || strings.Contains(got.stdout, "note: the budget of a") != (want != "") || !strings.Contains(got.stdout, want) {
			t.Errorf("%s: exit code %d, %q, want %q", tokens, got.code, got.stdout, want)
		}
	}
	// 120 probes an hour of 1.1 x 256 + 64 + 64 tokens.
	f("49079", "its probes may take 49080: they will pause")
	f("49080", "")
}

// What the start would refuse of a source of targets, check refuses too.
func TestCheckOfSources(t *testing.T) {
	file := writeFile(t, "exporter.yml", "discovery: [{http_sd_configs: [{url: 'https://h/x', tls_config: {ca_file: ca.pem}}]}]\n")
	got := runToEnd(t, "check", "--config.file="+file)
	if got.code != exitConfig || !strings.Contains(got.stderr, ":1: discovery[0].http_sd_configs[0].tls_config: ") || !strings.Contains(got.stderr, "ca.pem") {
		t.Errorf("exit code %d, %q", got.code, got.stderr)
	}
}
