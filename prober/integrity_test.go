package prober

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/answers"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// apiOfCapture returns the protocol of a recorded reply; "" where it is none that
// generates.
func apiOfCapture(name string) string {
	for _, c := range [...][2]string{
		{"_err_", ""},
		{"models", ""},
		{"embed", ""},
		{"rerank", ""},
		{"score", ""},
		{"tags", ""},
		{"bedrock", ""},
		{"_error", ""},
		{"overloaded", ""},
		{"_messages_", "anthropic"},
		{"anthropic", "anthropic"},
		{"_responses", "openai-responses"},
		{"local_shell", "openai-responses"},
		{"v1_completions", "openai-completions"},
		{"cohere", "cohere"},
		{"gemini", "gemini"},
		{"vertex", "gemini"},
		{"triton", "triton"},
		{"ollama_api_generate", "ollama-generate"},
		{"api_chat", "ollama"},
		{"_chat", "openai-chat"},
		{"sglang_generate", "sglang"},
		{"tgi_generate", "tgi"},
		{"llamacpp_completion", "llamacpp"},
	} {
		if strings.Contains(name, c[0]) {
			return c[1]
		}
	}
	return ""
}

// inspectCapture returns the findings in a recorded reply.
func inspectCapture(t *testing.T, protocol string, body []byte) []result.Sign {
	t.Helper()
	p, ok := api.Lookup(protocol)
	if !ok {
		t.Fatalf("no protocol %q", protocol)
	}
	c := &content{inspect: true}
	frames, decoder := stream.New(p.Framing, bytes.NewReader(body), stream.DefaultLimits()), p.NewDecoder()
	finish := ""
	var d api.Delta
	for {
		f, err := frames.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := decoder.Decode(f.Event, f.Data, &d); err != nil {
			t.Fatal(err)
		}
		c.add(&d)
		if d.Finish != "" {
			finish = d.Finish
		}
	}
	return answers.Inspect(workload.Answer{Text: cmp.Or(string(c.text), string(c.reasoning)), Finish: finish}, 0)
}

// Recorded replies of real servers have findings only where the models are broken: those
// of two layers with random weights put bytes together that are no characters.
func TestRecordedAnswers(t *testing.T) {
	random := []string{
		"vllm_v1_chat_stream_usage", "vllm_v1_messages_stream", "vllm_v1_chat_stream_reasoning", "vllm_v1_chat_stream_speculative",
		"vllm_v1_responses_stream_length", "litellm_gemini_stream", "litellm_v1_chat_stream", "litellm_v1_completions_stream",
		"litellm_v1_messages_stream", "litellm_v1_responses_stream", "sglang_v1_messages_stream", "sglang_v1_responses_stream",
		"transformers_v1_chat_stream", "transformers_v1_responses_stream",
	}
	files, err := filepath.Glob("api/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	inspected := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		protocol := apiOfCapture(name)
		if protocol == "" {
			continue
		}
		inspected++
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want []result.Sign
		if slices.Contains(random, name) {
			want = []result.Sign{result.SignControl}
		}
		if got := inspectCapture(t, protocol, body); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if inspected < 50 {
		t.Errorf("%d inspected", inspected)
	}
}

// What is wrong with an answer is in the result of its probe. Answers of bursts are not
// looked at.
func TestProbeInspectsItsAnswer(t *testing.T) {
	_, base := startSimulator(t)
	f := func(path string, change func(*config.Module), inspected bool, want ...result.Sign) {
		t.Helper()
		cfg, m := newEndpoint(t, base+path), newModule()
		cfg.Model = ""
		m.OutputTokens = config.Tokens(32)
		change(m)
		results, skip := newProber(t, cfg, m).Run(t.Context(), time.Time{})
		if skip != nil || len(results) == 0 {
			t.Fatalf("%s: %v", path, skip)
		}
		for _, r := range results {
			if r.Inspected != inspected || !slices.Equal(r.Integrity, want) {
				t.Errorf("%s: outcome %s, inspected %t, %v; want %t, %v", path, r.Outcome, r.Inspected, r.Integrity, inspected, want)
			}
		}
	}
	same := func(*config.Module) {}
	f("", same, true)
	f("/fault/foreign_script", same, true, result.SignScript)
	f("/fault/repetition", same, true, result.SignRepetition)
	f("/fault/repeated_token", same, true, result.SignOneToken)
	f("/fault/control_characters", same, true, result.SignControl)
	f("/fault/special_token", same, true, result.SignToken)
	f("/fault/reasoning_tags", same, true, result.SignReasoning)
	f("/fault/no_finish_reason", same, true, result.SignNoFinish)
	f("/fault/reset_midstream", same, false)
	f("/fault/special_token", func(m *config.Module) { m.Concurrency = []int{2} }, false)
	thai := func(m *config.Module) {
		m.Prompt, m.Prefix, m.InputTokens = "สวัสดี", config.PrefixWarm, config.Lengths{}
	}
	f("/fault/foreign_script", thai, true)
	f("/fault/special_token", thai, true, result.SignToken)
}
