package prober

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

func newReference() *config.Module {
	m := newModule()
	m.InputTokens, m.Prefix, m.ReferenceLogprob = config.Lengths{}, config.PrefixWarm, true
	return m
}

// scorer answers POST /v1/completions with a body.
func scorer(t *testing.T, status int, contentType, body string) *config.Endpoint {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Prompt string
			Stream bool
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Prompt != drift.Reference().Passage || asked.Stream {
			t.Errorf("asked %.80q, stream %t: %v", asked.Prompt, asked.Stream, err)
		}
		if accept := r.Header.Get("Accept"); accept != "application/json" {
			t.Errorf("accept %q", accept)
		}
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	cfg := newEndpoint(t, s.URL)
	cfg.Request.Path = "/custom" // of the requests that generate
	return cfg
}

// Four tokens, of which the first has no log-probability, and one that the
// server had to generate.
const scored = `{"choices":[{"text":"abcd e","logprobs":{"token_logprobs":[null,-1.5,-0.25,-2.0,-7.0],"text_offset":[0,1,2,3,4]}}],` +
	`"usage":{"prompt_tokens":4,"completion_tokens":1,"total_tokens":5}}`

func TestReferenceLogprob(t *testing.T) {
	for _, name := range []string{"openai-chat", "openai-completions"} {
		cfg := scorer(t, 200, "application/json", scored)
		cfg.API = name
		r := newProber(t, cfg, newReference()).one(t.Context(), time.Time{})
		if r.Outcome != result.Success || r.Kind != api.Scoring || r.API != name {
			t.Fatalf("outcome %s (%v), kind %s, api %s", r.Outcome, r.Err, r.Kind, r.API)
		}
		if want := (result.Logprob{Tokens: 3, Mean: -1.25}); r.Logprob != want {
			t.Errorf("score %+v, want %+v", r.Logprob, want)
		}
		if r.Tokens.Prompt != 4 || r.Tokens.Output != api.Unknown || r.Tokens.Source != "" {
			t.Errorf("tokens %+v", r.Tokens)
		}
		sum := time.Duration(0)
		for _, d := range r.Timing.Phases {
			sum += max(0, d)
		}
		d := r.Timing
		if sum != d.Duration || d.Duration <= 0 {
			t.Errorf("phases %v add up to %s, not to the duration %s", d.Phases, sum, d.Duration)
		}
		if d.TTFT != result.Absent || d.TPOT != result.Absent || d.Phases[result.PhaseFirstToken] != result.Absent || d.Phases[result.PhaseDecode] != result.Absent || d.Phases[result.PhaseClose] < 0 {
			t.Errorf("timing %+v of a reply without tokens that come one by one", d)
		}
	}
}

func TestReferenceLogprobFails(t *testing.T) {
	f := func(want result.Outcome, wantErr string, cfg *config.Endpoint) {
		t.Helper()
		r := newProber(t, cfg, newReference()).one(t.Context(), time.Time{})
		if r.Outcome != want || !strings.Contains(fmt.Sprint(r.Err), wantErr) || r.Kind != api.Scoring || r.Logprob != (result.Logprob{}) {
			t.Errorf("outcome %s (%v) of kind %s, score %+v; want %s (...%s...)", r.Outcome, r.Err, r.Kind, r.Logprob, want, wantErr)
		}
	}
	f(result.StreamError, "out of memory", scorer(t, 200, "application/json", `{"error":{"message":"out of memory"}}`))
	f(result.HTTPError, "no echo here", scorer(t, 400, "application/json", `{"error":{"message":"no echo here"}}`))
	f(result.ProtocolError, "", scorer(t, 200, "application/json", `{"choices":[`))
	f(result.ProtocolError, "", scorer(t, 200, "application/json", `{"choices":[{"text":" e","logprobs":{"token_logprobs":[-7.0]}}],"usage":{"prompt_tokens":4,"completion_tokens":1}}`))
	f(result.ProtocolError, "text/html", scorer(t, 200, "text/html", `<html>`))
	f(result.Empty, "", scorer(t, 200, "application/json", ``))
	f(result.TooLarge, "", scorer(t, 200, "application/json", strings.Repeat(" ", api.MaxScoringBody)+scored))
	anthropic := scorer(t, 200, "application/json", scored)
	anthropic.API = "anthropic"
	f(result.ProtocolError, "the api anthropic cannot score a text: use openai-completions", anthropic)
}

func TestReferenceLogprobTimeout(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/completions", func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	m := newReference()
	m.Timeouts.Headers = model.Duration(50 * time.Millisecond)
	if r := newProber(t, newEndpoint(t, s.URL), m).one(t.Context(), time.Time{}); r.Outcome != result.TimeoutFirstToken {
		t.Errorf("outcome %s (%v)", r.Outcome, r.Err)
	}
}

// The simulated server scores the passage alike each time, by every protocol
// that can; without echo it scores nothing.
func TestReferenceLogprobOfTheSimulator(t *testing.T) {
	sim, url := startSimulator(t)
	cfg := newEndpoint(t, url)
	cfg.Model = "simulated-8b"
	first := newProber(t, cfg, newReference()).one(t.Context(), time.Time{})
	if first.Outcome != result.Success || first.Logprob.Tokens < 200 || first.Logprob.Mean >= 0 {
		t.Fatalf("outcome %s (%v), score %+v", first.Outcome, first.Err, first.Logprob)
	}
	rec, ok := sim.Request(hex.EncodeToString(first.TraceID[:]))
	if !ok || math.Abs(rec.Logprob-first.Logprob.Mean) > 1e-6 || rec.PromptTokens != first.Tokens.Prompt {
		t.Errorf("score %+v of %d tokens, the server's is %g of %d", first.Logprob, first.Tokens.Prompt, rec.Logprob, rec.PromptTokens)
	}
	again := newProber(t, cfg, newReference()).one(t.Context(), time.Time{})
	if again.Logprob.Tokens != first.Logprob.Tokens || math.Abs(again.Logprob.Mean-first.Logprob.Mean) > 0.01 {
		t.Errorf("score %+v, then %+v", first.Logprob, again.Logprob)
	}
	cfg = newEndpoint(t, url+"/fault/no_echo")
	cfg.Model = "simulated-8b"
	if r := newProber(t, cfg, newReference()).one(t.Context(), time.Time{}); r.Outcome != result.ProtocolError {
		t.Errorf("without echo: outcome %s (%v), score %+v", r.Outcome, r.Err, r.Logprob)
	}
}

// What only some servers take is asked of those alone.
func TestExactLengthIsAskedWhereItIsKnown(t *testing.T) {
	f := func(apiName, engine string, exact, continuous bool) {
		t.Helper()
		p, _ := api.Lookup(apiName)
		q := request{served: &target{protocol: p, engine: engine}, question: workload.Question{Texts: []string{"x"}, Output: 1, Exact: true}}
		if got := q.params(); got.ExactLength != exact || got.ContinuousUsage != continuous {
			t.Errorf("%s on %q: exact length %t, running counts %t", apiName, engine, got.ExactLength, got.ContinuousUsage)
		}
	}
	f("openai-chat", "", false, false)
	f("openai-chat", api.VLLM, true, true)
	f("openai-chat", api.SGLang, true, true)
	f("openai-chat", api.TRTLLM, true, true)
	f("openai-chat", api.LlamaCPP, true, false)
	f("openai-chat", api.Triton, false, false)
	f("openai-chat", api.LMDeploy, false, false)
	f("triton", api.Triton, true, false)
	f("llamacpp", api.LlamaCPP, true, false)
	f("sglang", api.SGLang, true, true)
	f("tgi", api.TGI, false, false)
	f("ollama", api.Ollama, false, false)
}
