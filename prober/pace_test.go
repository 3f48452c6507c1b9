package prober

import (
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// streamOf makes a timeline of events at a fixed distance from 100 ms on: r is an
// event of reasoning, s of a summary of it, v of the answer, t of a tool's call, and
// a digit waits so many seconds.
func streamOf(step time.Duration, events string) timeline {
	line := newTimeline()
	line.requestStart, line.firstByte = 0, both(50*ms)
	at := 100 * ms
	for _, e := range events {
		switch {
		case e >= '0' && e <= '9':
			at += time.Duration(e-'0') * time.Second
			continue
		case e == 'r', e == 's':
			line.events = append(line.events, rawEvent{instant: both(at), reasoning: true, summary: e == 's'})
		default:
			line.events = append(line.events, rawEvent{instant: both(at), visible: true, tool: e == 't'})
		}
		at += step
	}
	line.end = both(at)
	return line
}

// Tokens that left no event took no time of the stream: TPOT is over those that
// did, or there is none.
func TestHiddenReasoning(t *testing.T) {
	const u = api.Unknown
	f := func(name, events string, output, reasoning int, want time.Duration) {
		t.Helper()
		line := streamOf(10*ms, events)
		n := result.Tokens{Output: output, Reasoning: reasoning, Source: result.TokensFromUsage}
		got := line.result(n)
		if got.Timing.TPOT != want || got.Buffered || got.MoreEvents {
			t.Errorf("%s: TPOT %s, want %s (%+v)", name, got.Timing.TPOT, want, got)
		}
	}
	f("no reasoning", "vvvvvvvvvv", 10, 0, 10*ms)
	f("two tokens an event", "vvvvvvvvvvv", 21, u, 5*ms)
	f("hidden", "vvvvvvvvvv", 10+640, 640, 10*ms)
	f("hidden, two tokens an event", "vvvvvvvvvvv", 21+640, 640, 5*ms)
	f("all hidden but one token", "v", 641, 640, result.Absent)
	f("all hidden by the count", "vvvv", 640, 640, result.Absent)
	f("streamed", "rrrrrrrrrrvvvvvvvvvv", 20, 10, 10*ms)
	f("streamed, not counted apart", "rrrrrrrrrrvvvvvvvvvv", 20, u, 10*ms)
	f("streamed, and a pause before the answer", "rrrrrrrrrr1vvvvvvvvvv", 20, 10, 1190*ms/19)
	f("streamed with its tags, nothing else", "rrrrrrrrrrrr", 16, 16, 110*ms/15)
	f("a summary", "sssss2vvvvvvvvvv", 10+640, 640, 10*ms)
	f("a summary that looks like all of it", "ssssssssss2vvvvvvvvvv", 20, 10, 10*ms)
	f("a summary of more events than tokens", "ssssssssssssssss2vvvvvvvvvv", 15, 5, 10*ms)
	f("fewer events than reasoning", "rrrrr2vvvvvvvvvv", 10+640, 640, 10*ms)
	f("a summary, not counted apart", "sssss2vvvvvvvvvv", 650, u, result.Absent)
	f("reasoning in part, not counted apart", "rrrrr2vvvvvvvvvv", 650, u, result.Absent)
	f("a summary in the middle", "vvvvv2sss2vvvvv", 10+640, 640, result.Absent)
	f("a summary of everything", "ssssss", 640, 640, result.Absent)
}

// A running count that covers all events proves that all tokens left one.
func TestRunningCountOfReasoning(t *testing.T) {
	line := streamOf(10*ms, "rrrrrvvvvv")
	for i := range line.events {
		line.events[i].tokens = 4
	}
	n := result.Tokens{Output: 40, Reasoning: api.Unknown, Source: result.TokensFromUsage}
	if got, want := line.result(n).Timing.TPOT, 90*ms/36; got != want {
		t.Errorf("TPOT %s, want %s", got, want)
	}
}

func TestBufferedWithHiddenReasoning(t *testing.T) {
	f := func(name string, want bool, step time.Duration, events string, n result.Tokens) {
		t.Helper()
		line := streamOf(step, events)
		if got := line.result(n); got.Buffered != want || want && got.Timing.TPOT != result.Absent {
			t.Errorf("%s: %+v, want buffered %t", name, got, want)
		}
	}
	hidden := result.Tokens{Output: 640 + 10, Reasoning: 640, Source: result.TokensFromUsage}
	// 10 tokens in 9 ms are 1,000 a second, 650 would be 72,000.
	f("a fast answer after hidden reasoning", false, ms, "vvvvvvvvvv", hidden)
	f("an answer in one burst", true, 10*time.Microsecond, "vvvvvvvvvv", hidden)
	f("reasoning and answer in one burst", true, 10*time.Microsecond, "sssssssvvv",
		result.Tokens{Output: 643, Reasoning: 640, Source: result.TokensFromUsage})
	f("the answer in one burst after a summary", true, 10*time.Microsecond, "sss2vvvvvvvvvv", hidden)
}

// More events than tokens are not all tokens: nobody knows which was the first.
func TestMoreEventsThanTokens(t *testing.T) {
	f := func(name string, want bool, step time.Duration, events string, output int) {
		t.Helper()
		line := streamOf(step, events)
		got := line.result(count(output))
		if got.MoreEvents != want {
			t.Errorf("%s: %t, want %t", name, got.MoreEvents, want)
		}
		d := got.Timing
		if absent := d.TTFT < 0 && d.TPOT < 0 && d.MaxGap < 0 && d.Phases[result.PhaseFirstToken] < 0; absent != want {
			t.Errorf("%s: timing %+v, want it absent: %t", name, d, want)
		}
		if i := len(line.events); i > 0 && line.events[i-1].visible && d.TTFO < 0 {
			t.Errorf("%s: no TTFO", name)
		}
		sum := time.Duration(0)
		for _, p := range d.Phases {
			sum += max(p, 0)
		}
		if sum != d.Duration {
			t.Errorf("%s: phases %v add up to %s, duration %s", name, d.Phases, sum, d.Duration)
		}
	}
	f("one for each", false, 10*ms, "vvvvvvvv", 8)
	f("a gateway's text before the answer", true, 10*ms, "rrrrrr2vvvvvvvv", 8)
	f("a single one", true, 10*ms, "r2vvvvvvvv", 8)
	f("before reasoning", true, 10*ms, "rr2rrrrvvvv", 8)
	f("as text of the answer", true, 10*ms, "vvvvvv2vvvvvvvv", 8)
	f("reasoning and answer in one token", false, 10*time.Microsecond, "rv", 1)
	f("a call's name and arguments in one token", false, 10*time.Microsecond, "tt", 1)
	f("another tokenizer counted", false, 10*ms, "vvvvvvvvvvv", 10)
	f("a summary of more events than tokens", false, 10*ms, "ssssssssssssssss2vvvvvvvv", 9)
	// As OpenAI's Responses stream of github.com/vercel/ai at ed857f50,
	// openai-reasoning-encrypted-content.1: 28 tokens are counted.
	f("a recorded summary", false, 10*ms, strings.Repeat("s", 32)+"2"+strings.Repeat("v", 14), 28)
	f("more events than tokens after a summary", true, 10*ms, "ss2vvvvvvvvvvvvvvvv", 8)
	f("twice as slow as the answer", true, 10*ms, "v1v1v1vvvvvvvv", 8)
	f("cut into characters, of one token", true, 10*ms, "vvvvvvvv", 1)
	f("thoughts cut into characters, or a gateway's text", true, 10*ms, "rrrrrrrrrrrrrrrrvvvv", 8)

	line := streamOf(10*ms, strings.Repeat("v", 300)) // three for two tokens
	if got := line.result(count(200)); !got.MoreEvents || got.Timing.TTFT != 100*ms || got.Timing.TPOT != 2990*ms/199 {
		t.Errorf("cut into pieces: %+v", got)
	}
	line = streamOf(10*time.Microsecond, "rrrvvv") // whichever was the first
	if got := line.result(count(3)); !got.MoreEvents || got.Timing.TTFT != 100*ms {
		t.Errorf("all at one moment: %+v", got)
	}
	line = streamOf(10*ms, "vvvvvv")
	if line.result(result.Tokens{Output: 3, Reasoning: api.Unknown, Source: result.TokensFromEvents}).MoreEvents {
		t.Error("more events than a count of the events themselves")
	}
}

// recordedTokens returns the pieces of a recorded stream of vLLM 0.32 with a running count:
// their bytes, and how many tokens each has.
func recordedTokens(t *testing.T) (sizes, tokens []int) {
	t.Helper()
	f, err := os.Open("api/testdata/vllm_v1_chat_stream_speculative.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, _ := api.Lookup("openai-chat")
	frames, decoder, before := stream.New(stream.SSE, f, stream.DefaultLimits()), p.NewDecoder(), 0
	for {
		frame, err := frames.Next()
		if err != nil {
			return sizes, tokens
		}
		var d api.Delta
		if err := decoder.Decode(frame.Event, frame.Data, &d); err != nil {
			t.Fatal(err)
		}
		if d.Tokens > before {
			sizes, tokens = append(sizes, len(d.Text)), append(tokens, d.Tokens-before)
			before = d.Tokens
		}
	}
}

// recordedStream returns a recorded stream with an event each 20 ms.
func recordedStream(t *testing.T, file string) timeline {
	t.Helper()
	f, err := os.Open("api/testdata/" + file + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, _ := api.Lookup("openai-chat")
	frames, decoder, line := stream.New(stream.SSE, f, stream.DefaultLimits()), p.NewDecoder(), newTimeline()
	for {
		frame, err := frames.Next()
		if err != nil {
			return line
		}
		var d api.Delta
		if err := decoder.Decode(frame.Event, frame.Data, &d); err != nil {
			t.Fatal(err)
		}
		if d.HasToken() {
			at := time.Duration(1+len(line.events)) * 20 * ms
			line.events = append(line.events, rawEvent{instant: both(at), size: characters(d.Text), visible: true})
		}
	}
}

// Real servers with two tokenizers: the toy model of llama.cpp has a word in each token, that of vLLM pieces of words
// and of characters. By its tokens the second is faster, by its text the first. The characters were counted in the
// recordings: 268, of which 5 come first, and 295 with 16.
func TestCharactersOfTwoTokenizers(t *testing.T) {
	words, pieces := recordedStream(t, "llamacpp_v1_chat_stream_usage"), recordedStream(t, "vllm_v1_chat_stream_usage")
	a, b := words.result(count(45)).Timing, pieces.result(count(64)).Timing
	if a.TPOT != 42*20*ms/44 || b.TPOT != 57*20*ms/63 {
		t.Errorf("TPOT %s and %s", a.TPOT, b.TPOT)
	}
	if a.PerCharacter != 42*20*ms/263 || b.PerCharacter != 57*20*ms/279 {
		t.Errorf("per character %s and %s", a.PerCharacter, b.PerCharacter)
	}
	if a.TPOT < b.TPOT || a.PerCharacter > b.PerCharacter {
		t.Error("the text says what the tokens say")
	}
}

// Without a running count, the tokens of the first event are those of its share of the text:
// each piece of a recorded stream is once the first, in events of several pieces. That one
// token came with it, as is assumed where no text is known, makes TPOT too small.
func TestTokensOfTheFirstEvent(t *testing.T) {
	sizes, tokens := recordedTokens(t)
	if len(sizes) != 63 {
		t.Fatalf("%d pieces, want 63", len(sizes))
	}
	f := func(pieces int, byText, byOne float64) {
		t.Helper()
		var withText, without, each float64 // relative errors of TPOT: two means, and the mean size of one
		for start := range sizes {
			line, all, first := streamOf(20*ms, strings.Repeat("v", (63+pieces-1)/pieces)), 0, 0
			for i := range sizes {
				at := (start + i) % 63
				line.events[i/pieces].size += sizes[at]
				all += tokens[at]
				if i < pieces {
					first += tokens[at]
				}
			}
			truth := float64(line.took(result.ClockKernel, line.all(0))) / float64(all-first)
			err := float64(line.result(count(all)).Timing.TPOT)/truth - 1
			withText, each = withText+err/63, each+math.Abs(err)/63
			for i := range line.events {
				line.events[i].size = 0
			}
			without += (float64(line.result(count(all)).Timing.TPOT)/truth - 1) / 63
		}
		if math.Abs(withText) > byText || without > byOne || each > max(byText, -without) {
			t.Errorf("%d pieces an event: TPOT off by %.4f of it with the text, each by %.4f, without by %.4f", pieces, withText, each, without)
		}
	}
	f(1, 0.001, 0.001)
	f(2, 0.005, -0.01)
	f(4, 0.005, -0.04)
	f(8, 0.01, -0.1)
}

// A recorded stream of vLLM 0.32 with n-gram speculation: 64 tokens in 63 events with a count,
// of which one has two tokens.
func TestTokensPerEventOfARealServer(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		recorded, err := os.ReadFile("api/testdata/vllm_v1_chat_stream_speculative.txt")
		if err != nil {
			t.Fatal(err)
		}
		s := chat(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for event := range strings.SplitAfterSeq(string(recorded), "\n\n") {
				io.WriteString(w, event)
				w.(http.Flusher).Flush()
				time.Sleep(2 * time.Millisecond) // a step of the model
			}
		})
		p := newProber(t, newEndpoint(t, s.URL), newModule())
		r := p.one(testlab.Context(t), time.Now())
		if tokens, events := r.EventTokens(); r.Outcome != result.Success || tokens != 63 || events != 62 {
			t.Errorf("%s (%v): %d tokens in %d events after the first, want 63 in 62", r.Outcome, r.Err, tokens, events)
		}
	})
}
