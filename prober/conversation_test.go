package prober

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

func newConversation(turns int) *config.Module {
	m := newModule()
	m.Prefix, m.Turns = config.PrefixConversation, turns
	return m
}

// goOn is what the user says in each later turn.
const goOn = "Go on counting from there in words, without any remark and without an end."

// said is a message as an OpenAI server gets it.
type said struct{ Role, Content string }

func messagesOf(t *testing.T, body string) []said {
	t.Helper()
	var request struct{ Messages []said }
	if err := json.Unmarshal([]byte(body), &request); err != nil {
		t.Fatal(err)
	}
	return request.Messages
}

// Each turn repeats the turns before it with the answers that the server gave, and
// adds a message of the user.
func TestTurnsCarryTheAnswers(t *testing.T) {
	var a asked
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		n := a.take(r)
		w.Header().Set("X-Served-By", fmt.Sprintf("gpu-%d", n))
		events(w, thought, chunk(fmt.Sprintf("answer %d", n)), stop, usage, endMarker)
	})
	cfg := newEndpoint(t, s.URL)
	cfg.Request.ReplicaHeader = "x-served-by"
	results := newProber(t, cfg, newConversation(3)).all(t.Context(), time.Time{})
	if len(results) != 3 || a.count() != 3 {
		t.Fatalf("%d results of %d requests", len(results), a.count())
	}
	for i, r := range results {
		want := result.Turn{Number: i + 1, Affinity: result.AffinityNone, Replica: fmt.Sprintf("gpu-%d", i+1)}
		prefix := map[bool]string{true: "cold", false: "warm"}[i == 0]
		if r.Outcome != result.Success || r.Turn == nil || *r.Turn != want || r.Prefix != prefix || (r.Length == 0) != (i > 0) {
			t.Errorf("turn %d: %s, %+v, %s, length %d", i+1, r.Outcome, r.Turn, r.Prefix, r.Length)
		}
	}
	first := messagesOf(t, a.body(0))
	if len(first) != 1 || first[0].Role != "user" {
		t.Fatalf("first turn: %+v", first)
	}
	second := append(first, said{"assistant", "answer 1"}, said{"user", goOn})
	third := append(second, said{"assistant", "answer 2"}, said{"user", goOn})
	for i, want := range [][]said{second, third} {
		if d := cmp.Diff(want, messagesOf(t, a.body(i+1))); d != "" {
			t.Errorf("turn %d (-want +got):\n%s", i+2, d)
		}
	}
	if results[2].PromptBytes <= results[1].PromptBytes || results[1].PromptBytes <= results[0].PromptBytes {
		t.Errorf("prompts of %d, %d and %d bytes", results[0].PromptBytes, results[1].PromptBytes, results[2].PromptBytes)
	}
}

// An answer without text is left out, and a turn that fails is the last.
func TestTurnsThatEnd(t *testing.T) {
	var a asked
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		if a.take(r) == 1 {
			events(w, thought, stop, usage, endMarker)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	})
	results := newProber(t, newEndpoint(t, s.URL), newConversation(4)).all(t.Context(), time.Time{})
	if len(results) != 2 || results[1].Outcome != result.HTTPError {
		t.Fatalf("%d results", len(results))
	}
	second := messagesOf(t, a.body(1))
	if len(second) != 2 || second[1] != (said{"user", goOn}) {
		t.Errorf("messages %+v", second[1:])
	}
}

// Every second conversation carries a session, the same in all of its turns.
func TestSessionsAlternate(t *testing.T) {
	const header = "X-Session-Id"
	var a asked
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		a.take(r)
		events(w, one, stop, endMarker)
	})
	cfg := newEndpoint(t, s.URL)
	cfg.Request.StickyHeader = header
	p := newProber(t, cfg, newConversation(2))
	var got []result.Affinity
	for range 3 {
		for _, r := range p.all(t.Context(), time.Time{}) {
			got = append(got, r.Turn.Affinity)
		}
	}
	const with, without = result.AffinitySession, result.AffinityNone
	if d := cmp.Diff([]result.Affinity{with, with, without, without, with, with}, got); d != "" {
		t.Errorf("affinities (-want +got):\n%s", d)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var ids []string
	for _, h := range a.headers {
		ids = append(ids, h.Get(header))
	}
	if len(ids) != 6 || len(ids[0]) != 32 || ids[0] != ids[1] || ids[2]+ids[3] != "" || len(ids[4]) != 32 || ids[4] != ids[5] || ids[0] == ids[4] {
		t.Errorf("%s: %q", header, ids)
	}
}

// A conversation that the model has no room for to its end is not begun.
func TestConversationNeedsRoom(t *testing.T) {
	var a asked
	s := limitedTo(t, func() int { return 620 }, &a)
	f := func(turns, want int) {
		t.Helper()
		m := newConversation(turns)
		m.InputTokens = config.Tokens(300)
		if n := len(newFreshProber(t, newEndpoint(t, s.URL), m).all(t.Context(), time.Time{})); n != want {
			t.Errorf("%d turns: %d results, want %d", turns, n, want)
		}
	}
	f(2, 2) // 306 + 144 + 16
	f(3, 3) // 306 + 2 x 144 + 16
	f(4, 0)
}
