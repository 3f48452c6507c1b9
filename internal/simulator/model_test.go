package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

const greedyRequest = `{"messages":[{"content":"one two three"}],"max_tokens":12,"temperature":0}`

// contentOf returns the answer of a chat reply that is not streamed.
func contentOf(a answer) string { return memberOf(a, "content") }

func memberOf(a answer, name string) string {
	m := regexp.MustCompile(`"` + name + `":"([^"]*)"`).FindStringSubmatch(a.body)
	if m == nil {
		return ""
	}
	return m[1]
}

// change posts to /simulator/weights and returns the status.
func (v *serving) change(query string) int {
	v.t.Helper()
	return v.post(context.Background(), "/simulator/weights?"+query, "", 1<<20).status
}

func TestWeightsDecideGreedyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{}, false)
		defer v.stop()
		ask := func(request string) (content, fingerprint string) {
			t.Helper()
			a := v.post(context.Background(), "/v1/chat/completions", request, 1<<20)
			if a.status != http.StatusOK {
				t.Fatalf("status %d: %s", a.status, a.body)
			}
			return contentOf(a), memberOf(a, "system_fingerprint")
		}
		content, fingerprint := ask(greedyRequest)
		if fingerprint != "" || !strings.HasPrefix(content, "zero one two") {
			t.Errorf("without a version: %q, fingerprint %q", content, fingerprint)
		}
		contents, fingerprints := map[string]bool{content: true}, map[string]bool{"": true}
		for _, version := range []string{"a", "b", "c"} {
			if status := v.change("version=" + version); status != http.StatusNoContent {
				t.Fatalf("status %d", status)
			}
			content, fingerprint := ask(greedyRequest)
			if contents[content] || fingerprints[fingerprint] || !strings.HasPrefix(fingerprint, "fp_") {
				t.Errorf("version %s: %q, fingerprint %q", version, content, fingerprint)
			}
			contents[content], fingerprints[fingerprint] = true, true
			for range 5 {
				if c, f := ask(greedyRequest); c != content || f != fingerprint {
					t.Errorf("version %s: %q, fingerprint %q, then %q, %q", version, content, fingerprint, c, f)
				}
			}
			if other, _ := ask(strings.Replace(greedyRequest, "three", "four", 1)); other == content {
				t.Errorf("version %s answers another prompt by %q too", version, other)
			}
		}
		// And back, over the API of Go.
		v.SetWeights("", 0, 1)
		if c, f := ask(greedyRequest); c != content || f != "" {
			t.Errorf("back: %q, fingerprint %q", c, f)
		}
	})
}

// Every chunk of both protocols of OpenAI has the fingerprint.
func TestFingerprintInStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{WeightsVersion: "a"}, false)
		defer v.stop()
		for path, request := range map[string]string{
			"/v1/chat/completions": strings.Replace(greedyRequest, "}]", `}],"stream":true`, 1),
			"/v1/completions":      `{"prompt":"x","stream":true}`,
		} {
			a := v.post(context.Background(), path, request, 1<<20)
			chunks, with := strings.Count(a.body, "data: {"), strings.Count(a.body, `"model":"simulated-8b","system_fingerprint":"fp_`)
			if chunks < 12 || with != chunks {
				t.Errorf("%s: %d of %d chunks have a fingerprint", path, with, chunks)
			}
		}
	})
}

func TestWeightsOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{WeightsVersion: "a", Quality: 0.5, LogprobShift: -0.1}, false)
		defer v.stop()
		f := func(query string, status int, want weights) {
			t.Helper()
			if got := v.change(query); got != status || *v.weights.Load() != want {
				t.Errorf("%s: status %d, %+v; want %d, %+v", query, got, *v.weights.Load(), status, want)
			}
		}
		f("", 204, weights{"a", -0.1, 0.5})
		f("shift=0.02", 204, weights{"a", 0.02, 0.5})
		f("quality=0", 204, weights{"a", 0.02, 0})
		f("version=b&shift=-0.3&quality=1", 204, weights{"b", -0.3, 1})
		for _, bad := range []string{"shift=x", "shift=NaN", "shift=Inf", "quality=", "quality=1.1", "quality=-0.1", "version=c&quality=x"} {
			f(bad, 400, weights{"b", -0.3, 1})
		}
		f("version=", 204, weights{"", -0.3, 1})
	})
}

// A flip is another text, and it comes as often as it should: the bound is four
// deviations of the binomial distribution.
func TestGreedyFlips(t *testing.T) {
	for _, version := range []string{"", "a"} {
		synctest.Test(t, func(t *testing.T) {
			const n, share = 1000, 0.1
			v := serve(t, Options{WeightsVersion: version, GreedyFlips: share, DecodeStep: ms, Seed: 11}, false)
			defer v.stop()
			texts, usual := map[string]int{}, 0
			for range n {
				content := contentOf(v.post(context.Background(), "/v1/chat/completions", greedyRequest, 1<<20))
				texts[content]++
				usual = max(usual, texts[content])
			}
			if d := math.Abs(float64(n-usual) - share*n); d > 4*math.Sqrt(n*share*(1-share)) {
				t.Errorf("%d of %d differ, want %v", n-usual, n, share*n)
			}
			// One usual text, and one for each of the 12 tokens from which on it
			// may differ.
			if len(texts) != 13 {
				t.Errorf("%d texts: %v", len(texts), texts)
			}
		})
	}
}

// Answers to questions do not flip, so that their verdict holds.
func TestQuestionsDoNotFlip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{GreedyFlips: 1}, false)
		defer v.stop()
		for range 5 {
			if got, r := askQuestion(t, v, "openai-chat", questionText(t, "sum"), 8); got.Text != "42" {
				t.Errorf("%+v, %+v", got, r)
			}
		}
	})
}

// TestWeightsChangeWhileServing is for the race detector.
func TestWeightsChangeWhileServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Replicas: 2, DecodeStep: ms}, false)
		defer v.stop()
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for range 20 {
					if a := v.post(context.Background(), "/v1/chat/completions", greedyRequest, 1<<20); a.status != http.StatusOK {
						t.Errorf("status %d", a.status)
					}
				}
			})
		}
		for i := range 50 {
			v.SetWeights(string(rune('a'+i%26)), float64(i)/1000, 0.5)
			v.change("quality=0.7")
		}
		clients.Wait()
	})
}

// echoed is a completion with echo and logprobs.
type echoed struct {
	Choices []struct {
		Text     string
		Logprobs struct {
			TextOffset    []int                `json:"text_offset"`
			TokenLogprobs []*float64           `json:"token_logprobs"`
			Tokens        []string             `json:"tokens"`
			TopLogprobs   []map[string]float64 `json:"top_logprobs"`
		}
	}
	Usage struct {
		PromptTokens int `json:"prompt_tokens"`
		Details      struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
}

func (v *serving) echo(text, limits string) echoed {
	v.t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		v.t.Fatal(err)
	}
	a := v.post(context.Background(), "/v1/completions", `{"prompt":`+string(quoted)+`,"echo":true,"logprobs":1,"temperature":0`+limits+`}`, 8<<20)
	if a.status != http.StatusOK || a.err != nil {
		v.t.Fatalf("status %d, error %v: %s", a.status, a.err, a.body)
	}
	var e echoed
	if err := json.Unmarshal([]byte(a.body), &e); err != nil {
		v.t.Fatal(err)
	}
	return e
}

// TestEcho has the shape of a reply: one entry for each token of the prompt and
// of the output, whose texts make up the prompt.
func TestEcho(t *testing.T) {
	for _, text := range []string{"one two", "Nine tokens\nare in \"this\" text", "café 数字 😀 end", "x"} {
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{}, false)
			defer v.stop()
			e := v.echo(text, `,"max_tokens":2`)
			c, l := e.Choices[0], e.Choices[0].Logprobs
			n := e.Usage.PromptTokens
			if c.Text != text+"zero one" {
				t.Errorf("text %q", c.Text)
			}
			if n != len(tokenize(nil, text)) || len(l.Tokens) != n+2 || len(l.TextOffset) != n+2 || len(l.TokenLogprobs) != n+2 || len(l.TopLogprobs) != n+2 {
				t.Fatalf("%q: %d tokens in the prompt, %+v", text, n, l)
			}
			// A token that ends inside of a character cannot be written in JSON.
			if joined := strings.Join(l.Tokens[:n], ""); joined != text && !strings.Contains(joined, "\ufffd") {
				t.Errorf("the tokens of %q make %q", text, joined)
			}
			runes := utf8.RuneCountInString(text)
			if l.TextOffset[0] != 0 || l.TextOffset[n] != runes || l.TextOffset[n+1] != runes+len("zero") {
				t.Errorf("%q: offsets %v", text, l.TextOffset)
			}
			for i, p := range l.TokenLogprobs {
				switch {
				case i == 0:
					if p != nil || l.TopLogprobs[i] != nil {
						t.Errorf("the first token has a log-probability")
					}
				case p == nil || *p > 0 || l.TopLogprobs[i][l.Tokens[i]] != *p:
					t.Errorf("token %d of %q: %v, %v", i, text, p, l.TopLogprobs[i])
				}
			}
		})
	}
}

// meanOf is the mean of the scores of the prompt but the first.
func meanOf(e echoed) float64 {
	sum, n := 0.0, e.Usage.PromptTokens
	for _, p := range e.Choices[0].Logprobs.TokenLogprobs[1:n] {
		sum += *p
	}
	return sum / float64(n-1)
}

// TestShift has the scores of one text under weights that change. Of about 350
// tokens with a deviation of 1.8 the mean lies within 0.4 of -2.3.
func TestShift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{}, false)
		defer v.stop()
		mean := func() float64 { return meanOf(v.echo(drift.Reference().Passage, `,"max_tokens":1`)) }
		base := mean()
		if math.Abs(base+2.3) > 0.4 {
			t.Errorf("mean %v, want about -2.3", base)
		}
		for _, shift := range []float64{-0.5, -0.02, 0.02, 0.4, 0} {
			v.SetWeights("", shift, 1)
			if got := mean(); math.Abs(got-base-shift) > 1e-9 {
				t.Errorf("shift of %v: mean %v, %v more", shift, got, got-base)
			}
			if r, _ := v.Request(trace); math.Abs(r.Logprob-base-shift) > 1e-9 {
				t.Errorf("shift of %v: record has %v", shift, r.Logprob)
			}
		}
		v.SetWeights("", 1, 1)
		for _, p := range v.echo(drift.Reference().Passage, "").Choices[0].Logprobs.TokenLogprobs {
			if p != nil && *p > 0 {
				t.Errorf("a log-probability of %v", *p)
			}
		}
		v.SetWeights("b", 0, 1)
		if got := mean(); math.Abs(got-base) < 1e-6 || math.Abs(got+2.3) > 0.4 {
			t.Errorf("other weights: mean %v, was %v", got, base)
		}
	})
}

// The noise moves all tokens of a request together. The bounds are four
// deviations of the two statistics.
func TestLogprobNoise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, noise = 400, 0.005
		v := serve(t, Options{LogprobNoise: noise, Seed: 9}, false)
		defer v.stop()
		w := *v.weights.Load()
		tokens := scoreText("one two three", &w, 0)[1:]
		base := 0.0
		for _, t := range tokens {
			base += *t.Logprob / float64(len(tokens))
		}
		sum, squares := 0.0, 0.0
		for range n {
			e := v.echo("one two three", `,"max_tokens":1`)
			x := meanOf(e) - base
			sum += x
			squares += x * x
		}
		mean := sum / n
		deviation := math.Sqrt(squares/n - mean*mean)
		if math.Abs(mean) > 4*noise/math.Sqrt(n) || math.Abs(deviation-noise) > 4*noise/math.Sqrt(2*n) {
			t.Errorf("mean %v, deviation %v, want 0 and %v", mean, deviation, noise)
		}
	})
}

// A text that is scored is computed from its first token on, though it is
// cached; and is cached for others.
func TestScoringReadsNoCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{PrefillTokensPerSecond: 1000, DecodeStep: 20 * ms}, false)
		defer v.stop()
		text := strings.TrimSuffix(strings.Repeat("four ", 100), " ")
		for range 2 {
			begin := time.Now()
			if e := v.echo(text, `,"max_tokens":1`); e.Usage.Details.Cached != 0 {
				t.Errorf("%d tokens cached", e.Usage.Details.Cached)
			}
			if took := time.Since(begin); took != 120*ms {
				t.Errorf("took %v", took)
			}
		}
		if s := v.State()[0]; s.PrefixQueries != 0 {
			t.Errorf("the cache was asked: %+v", s)
		}
		v.post(context.Background(), "/v1/completions", `{"prompt":"`+text+`","max_tokens":1,"stream":true}`, 1<<20)
		if r, _ := v.Request(trace); r.CachedTokens != 96 {
			t.Errorf("%d tokens cached for the next", r.CachedTokens)
		}
	})
}

// TestScoringAtEveryFace asks as a probe does, and compares with the record.
func TestScoringAtEveryFace(t *testing.T) {
	for engine, names := range map[string][]string{
		"vllm": {"openai-chat", "openai-completions", "sglang"}, "sglang": {"sglang"}, "tgi": {"tgi", "openai-chat"},
	} {
		for _, name := range names {
			for _, fault := range []string{"", "/fault/no_echo"} {
				synctest.Test(t, func(t *testing.T) {
					v := serve(t, Options{Engine: engine, WeightsVersion: "a"}, false)
					defer v.stop()
					p, _ := api.Lookup(name)
					p, _ = p.Scored()
					body, err := p.Body(api.Params{Model: "simulated-8b", Prompt: drift.Reference().Passage}, new(api.Adjustment))
					if err != nil {
						t.Fatal(err)
					}
					base, err := http.NewRequest(http.MethodPost, v.base+fault, nil)
					if err != nil {
						t.Fatal(err)
					}
					a := v.post(context.Background(), p.URL(base.URL, "").Path, string(body), 8<<20)
					var d api.Delta
					err = p.NewDecoder().Decode(nil, []byte(a.body), &d)
					got := d.Logprobs
					if fault != "" {
						if err == nil {
							t.Errorf("%s at %s: %d scores of a server that ignores echo", name, engine, len(got))
						}
						return
					}
					if err != nil || a.status != http.StatusOK {
						t.Fatalf("%s at %s: status %d, error %v: %.300s", name, engine, a.status, err, a.body)
					}
					sum := 0.0
					for _, l := range got {
						sum += l
					}
					r, _ := v.Request(trace)
					if mean := sum / float64(len(got)); len(got) != r.PromptTokens-1 || math.Abs(mean-r.Logprob) > 1e-9 {
						t.Errorf("%s at %s: %d scores with mean %v, the record has %d tokens and %v", name, engine, len(got), mean, r.PromptTokens, r.Logprob)
					}
				})
			}
		}
	}
}

// TestNativeScores has the replies as they are on the wire. The numbers of the
// log-probabilities are replaced by L, those of tokens by T.
func TestNativeScores(t *testing.T) {
	f := func(engine, request, want string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{Engine: engine}, false)
			defer v.stop()
			a := v.post(context.Background(), "/generate", request, 1<<20)
			if got := withoutNumbers(stable(a.body)); got != want {
				t.Errorf("%s:\n%s, want\n%s", engine, got, want)
			}
		})
	}
	const sglangReply = `{"text":"zero","meta_info":{"id":"ID","finish_reason":{"type":"length","length":1},"prompt_tokens":3,%s"completion_tokens":1,"cached_tokens":0}}`
	sglangScores := func(prompt string) string {
		return fmt.Sprintf(sglangReply, `"input_token_logprobs":[`+prompt+`],"output_token_logprobs":[[L,T,null]],`)
	}
	const sglang = `{"text":"one two six","sampling_params":{"max_new_tokens":1,"temperature":0}`
	f("sglang", sglang+`}`, fmt.Sprintf(sglangReply, ""))
	f("sglang", sglang+`,"return_logprob":true}`, sglangScores(""))
	f("sglang", sglang+`,"return_logprob":true,"logprob_start_len":0}`, sglangScores(`[null,T,null],[L,T,null],[L,T,null]`))
	f("vllm", sglang+`,"return_logprob":true,"logprob_start_len":1}`, sglangScores(`[null,T,null],[L,T,null]`))
	f("sglang", sglang+`,"return_logprob":true,"logprob_start_len":9}`, sglangScores(``))

	const tgi = `{"inputs":"one two","parameters":{"max_new_tokens":1%s}}`
	const details = `,"details":{"finish_reason":"length","generated_tokens":1,"seed":null,"prefill":[%s],"tokens":[{"id":T,"logprob":L,"special":false,"text":"zero"}]}`
	f("tgi", fmt.Sprintf(tgi, ``), `{"generated_text":"zero"}`)
	f("tgi", fmt.Sprintf(tgi, `,"details":true`), `{"generated_text":"zero"`+fmt.Sprintf(details, "")+`}`)
	f("tgi", fmt.Sprintf(tgi, `,"details":true,"decoder_input_details":true`),
		`{"generated_text":"zero"`+fmt.Sprintf(details, `{"id":T,"logprob":null,"text":"one"},{"id":T,"logprob":L,"text":" two"}`)+`}`)
}

// withoutNumbers replaces log-probabilities and the numbers of tokens.
func withoutNumbers(body string) string {
	body = regexp.MustCompile(`-\d+(\.\d+)?`).ReplaceAllString(body, "L")
	body = regexp.MustCompile(`"id":\d+`).ReplaceAllString(body, `"id":T`)
	return regexp.MustCompile(`,\d+,null\]`).ReplaceAllString(body, ",T,null]")
}

func TestScoringRefusals(t *testing.T) {
	const bad = `{"error":{"message":"%s","type":"BadRequestError","param":null,"code":400}}`
	checkRefusal(t, "/v1/completions", `{"prompt":"x","echo":true,"logprobs":1,"stream":true}`, 400, fmt.Sprintf(bad, "a prompt is not scored with stream"))
	checkRefusal(t, "/v1/completions", `{"prompt":"x","echo":true}`, 400, fmt.Sprintf(bad, "echo is only simulated with logprobs"))
	checkRefusal(t, "/generate_stream", `{"inputs":"x","parameters":{"decoder_input_details":true}}`, 400,
		`{"error":"a prompt is not scored with stream","error_type":"validation"}`)
}
