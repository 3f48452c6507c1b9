package api

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// fuzzDecoder feeds two frames, so that what a frame leaves behind shows.
func fuzzDecoder(f *testing.F, p Protocol) {
	for _, s := range []string{
		"", "[DONE]", "{}", "null", "[]", "7", `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":null}`,
		`{"choices":[{"delta":{"content":"a","reasoning":"b","reasoning_content":"b","refusal":"c"},"finish_reason":"stop"}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}],"function_call":{"name":"g"}}}]}`,
		`{"choices":[{"text":"a","index":0,"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}}`,
		`{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":1e99,"completion_tokens_details":{"reasoning_tokens":0.5},"queue_time":1}}`,
		`{"timings":{"cache_n":1,"prompt_n":2,"predicted_n":3,"prompt_ms":1.5,"predicted_ms":-1}}`, `{"x_groq":{"error":"e","usage":{}}}`,
		`{"error":{"message":"m","type":"t","code":"500"}}`, `{"error":"x"}`, `{"object":"error","message":"m"}`, `{"metrics":{"queue_time_ms":1}}`,
		`{"choices":[{"text":"\ud83d\u00e9\x","delta":{"content":"\ud83d\ude42"}}]}`, `{"ch\u006fices":[{"text":"a"}]}`,
		`{"model":"m","system_fingerprint":"f","choices":[]}`, `{"model":"","system_fingerprint":7}`,
	} {
		f.Add("", []byte(s), []byte(s))
		f.Add("error", []byte(s), []byte(`{"choices":[{"text":"a","delta":{"content":"a"}}]}`))
	}
	f.Fuzz(func(t *testing.T, event string, first, second []byte) {
		given := [2][]byte{bytes.Clone(first), bytes.Clone(second)}
		decoder := p.NewDecoder()
		var d, fresh Delta
		for i, data := range [][]byte{first, second} {
			err := decoder.Decode([]byte(event), data, &d)
			checkDelta(t, &d, err)
			if !bytes.Equal(data, given[i]) {
				t.Fatal("the input was changed")
			}
		}
		// Except for the running count and the names, which are reported once, a frame does
		// not depend on the one before.
		err := p.NewDecoder().Decode([]byte(event), second, &fresh)
		checkDelta(t, &fresh, err)
		d.Tokens, fresh.Tokens = Unknown, Unknown
		d.Model, d.Fingerprint, fresh.Model, fresh.Fingerprint = nil, nil, nil, nil
		if diff := cmp.Diff(fresh, d, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("the frame before shows (-fresh +second):\n%s", diff)
		}
	})
}

func checkDelta(t *testing.T, d *Delta, err error) {
	t.Helper()
	if err != nil && (!isProtocolError(err) || len(err.Error()) > 2*maxMessage) {
		t.Fatalf("error %v", err)
	}
	if d.Tokens < Unknown || d.Tokens > maxCount {
		t.Fatalf("running count %d", d.Tokens)
	}
	if u := d.Usage; u != nil {
		for _, n := range []int{u.Prompt, u.Cached, u.Output, u.Reasoning} {
			if n < Unknown || n > maxCount {
				t.Fatalf("usage %+v", u)
			}
		}
		tally := NewTally()
		tally.Add(u)
		if total := tally.Usage(); total.Prompt != u.Prompt || total.Output != u.Output {
			t.Fatalf("usage %+v, alone tallied as %+v", u, total)
		}
	}
	if s := d.Server; s != nil && (max(s.Queue, s.Prefill, s.Decode) < 0 || max(s.Queue, s.Prefill, s.Decode) > maxServerTime) {
		t.Fatalf("server times %+v", s)
	}
	for _, name := range [][]byte{d.Model, d.Fingerprint} {
		if name != nil && !usableName(string(name)) {
			t.Fatalf("name %+q", name)
		}
	}
	if d.Finish != "" && !slices.Contains(FinishReasons(), d.Finish) {
		t.Fatalf("finish reason %q", d.Finish)
	}
	if d.Err != nil {
		checkServerError(t, d.Err)
	}
}

func FuzzChat(f *testing.F)        { fuzzDecoder(f, chat()) }
func FuzzCompletions(f *testing.F) { fuzzDecoder(f, completions()) }

// fuzzReply decodes a whole body: it must not panic, what comes out must keep
// the bounds, and how the body is cut into reads must not show.
func fuzzReply(f *testing.F, api string, files ...string) {
	p, _ := Lookup(api)
	for _, file := range files {
		body := readCapture(f, file)
		f.Add(body[:min(len(body), 2000)], uint64(1))
		f.Add(body[max(0, len(body)-2000):], uint64(2))
	}
	for _, frame := range []string{
		`{}`, `null`, `[DONE]`, `{"error":"x","error_type":"y"}`, `{"error":{"message":"m","code":500}}`,
		`{"message":{"content":"a","thinking":"b","tool_calls":[{"function":{"name":"f","arguments":{"a":[1]}}}]},"done":true,"done_reason":"load","eval_count":-1}`,
		`{"token":{"text":"a","special":false},"generated_text":"","details":{"finish_reason":"length","generated_tokens":1e9}}`,
		`{"text":"a","meta_info":{"completion_tokens":2,"finish_reason":{"type":"abort"},"queue_time":1e300,"forward_entry_time":1,"prefill_finished_time":1e300,"decode_throughput":1e-300}}`,
		`{"content":"a","stop":true,"stop_type":"eos","tokens_predicted":99999999,"tokens_evaluated":0.5,"timings":{"prompt_ms":-1,"cache_n":1}}`,
		`{"text_output":["a"],"finish_reason":"None","num_output_tokens":100000000,"arrival_time_ns":-9223372036854775808,"first_scheduled_time_ns":9223372036854775807}`,
	} {
		if p.Framing == stream.SSE {
			frame = "data: " + frame + "\n"
		}
		f.Add([]byte(frame+"\n"+frame+"\n"), uint64(3))
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		want := decodeReply(t, api, bytes.NewReader(body))
		for _, r := range []io.Reader{&cutter{body, rand.New(rand.NewPCG(seed, 0))}, &cutter{body, rand.New(rand.NewPCG(seed, 1))}} {
			if d := cmp.Diff(want, decodeReply(t, api, r)); d != "" {
				t.Fatalf("a split changes the reply (-whole +split):\n%s", d)
			}
		}
		var d Delta
		frames, decoder := stream.New(p.Framing, bytes.NewReader(body), stream.DefaultLimits()), p.NewDecoder()
		for {
			frame, err := frames.Next()
			if err != nil {
				return
			}
			given := bytes.Clone(frame.Data)
			checkDelta(t, &d, decoder.Decode(frame.Event, frame.Data, &d))
			if !bytes.Equal(given, frame.Data) {
				t.Fatal("the input was changed")
			}
		}
	})
}
