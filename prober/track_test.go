package prober

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// tracking returns a module with track_model.
func tracking() *config.Module {
	m := newModule()
	m.InputTokens, m.OutputTokens, m.Prefix, m.TrackModel = config.Lengths{}, config.Tokens(1), config.PrefixWarm, true
	return m
}

func TestTrackModel(t *testing.T) {
	const top = `{"model":"m-v2","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":"It"},"logprobs":{"content":[{"top_logprobs":[{"token":"It","logprob":-0.25},{"token":"I","logprob":-1.5}]}]}}]}`
	var mu sync.Mutex // guards what the server shares with the test
	var bodies []string
	var refuses func(w http.ResponseWriter)
	asked := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return bodies
	}
	refuse := func(how func(w http.ResponseWriter)) {
		mu.Lock()
		defer mu.Unlock()
		refuses, bodies = how, nil
	}
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, string(body))
		switch {
		case !strings.Contains(string(body), "top_logprobs"):
			events(w, chunk("It"), stop, usage, endMarker)
		case refuses != nil:
			refuses(w)
		default:
			events(w, top, stop, usage, endMarker)
		}
	})
	cfg := newEndpoint(t, s.URL)
	answer := result.Answer{Prompt: workload.Hash("x"), Model: "m-v2", Fingerprint: "fp_1"}
	one := func(p *Prober) *result.Result { return p.one(t.Context(), time.Time{}) }

	r := one(newProber(t, cfg, tracking()))
	want := &result.FirstToken{Text: "It", Top: []api.TokenLogprob{{Token: "It", Logprob: -0.25}, {Token: "I", Logprob: -1.5}}}
	if diff := cmp.Diff(want, r.First) + cmp.Diff(answer, r.Answer); diff != "" || r.Outcome != result.Success {
		t.Errorf("outcome %s (%v), first token (-want +got):\n%s", r.Outcome, r.Err, diff)
	}
	if body := asked()[0]; !strings.Contains(body, `"max_tokens":1`) || !strings.Contains(body, `"temperature":0`) {
		t.Errorf("body %s", body)
	}

	// A server that refuses is asked once more without, and from then on without.
	for what, how := range map[string]func(w http.ResponseWriter){
		"an error": func(w http.ResponseWriter) {
			http.Error(w, `{"error":{"message":"This model does not support 'logprobs'."}}`, http.StatusBadRequest)
		},
		"an empty stream, as llama-cpp-python without --logits_all": func(w http.ResponseWriter) { events(w) },
	} {
		refuse(how)
		p := newProber(t, cfg, tracking())
		for range 2 {
			r = one(p)
			if diff := cmp.Diff(&result.FirstToken{Text: "It"}, r.First); diff != "" || r.Outcome != result.Success {
				t.Errorf("%s: outcome %s (%v), first token (-want +got):\n%s", what, r.Outcome, r.Err, diff)
			}
		}
		if n := len(asked()); n != 3 {
			t.Errorf("%s: %d requests, want 3", what, n)
		}
	}

	// A failure of a server that has answered is one.
	refuse(nil)
	p := newProber(t, cfg, tracking())
	one(p)
	refuse(func(w http.ResponseWriter) { http.Error(w, "{}", http.StatusInternalServerError) })
	if r := one(p); r.Outcome != result.HTTPError || len(asked()) != 1 {
		t.Errorf("outcome %s after %d more requests, want %s after 1", r.Outcome, len(asked()), result.HTTPError)
	}
}
