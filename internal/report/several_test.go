package report

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// request is a success with a TTFT and 11 output tokens at 10 ms each.
func request(length int, ttft time.Duration) *result.Result {
	r := blank()
	r.Status, r.Finish, r.Length = 200, "length", length
	setPhases(r, result.Absent, ms, result.Absent, 0, ttft-ms, ms, 100*ms, 0)
	r.Sent = r.Start.Add(ms)
	r.Timing.TTFT, r.Timing.TTFO, r.Timing.TPOT, r.Timing.MaxGap = ttft, ttft, 10*ms, 10*ms
	r.Tokens.Prompt, r.Tokens.Cached, r.Tokens.Output, r.Tokens.Source = length, 0, 11, result.TokensFromUsage
	return r
}

// pair takes 400 ms cold, and 90 ms warm with 768 of 1,000 tokens cached.
func pair() []*result.Result {
	cold, warm := request(1000, 400*ms), request(1000, 90*ms)
	warm.Prefix, warm.Tokens.Cached = "warm", 768
	return []*result.Result{cold, warm}
}

// conversation has three turns, of 1,000, 1,100 and 1,200 tokens, of which all but
// 100 are cached from the second on.
func conversation() []*result.Result {
	var all []*result.Result
	for i, r := range []*result.Result{request(1000, 400*ms), request(1100, 90*ms), request(1200, 95*ms)} {
		r.Turn = &result.Turn{Number: i + 1, Affinity: result.AffinitySession, Replica: "gpu-node-7"}
		if i > 0 {
			r.Prefix, r.Tokens.Cached = "warm", 1000+100*(i-1)
		}
		all = append(all, r)
	}
	return all
}

// burstsOfTwo are one request, and two of which the second starts 300 µs later, has
// its first token after 500 ms and ends 599.7 ms after the first start.
func burstsOfTwo() []*result.Result {
	one, two, three := request(256, 100*ms), request(256, 200*ms), request(256, 500*ms)
	one.Concurrency, two.Concurrency, three.Concurrency = 1, 2, 2
	three.Sent = two.Sent.Add(300 * time.Microsecond)
	return []*result.Result{one, two, three}
}

// several renders results, and checks that all of it fits.
func several(t *testing.T, name string, target result.Target, results []*result.Result, wants ...string) {
	t.Helper()
	resultsOrSkip(t, name, target, results, nil, wants...)
}

func resultsOrSkip(t *testing.T, name string, target result.Target, results []*result.Result, skip *result.Skip, wants ...string) {
	t.Helper()
	text := golden(t, name+".txt", func(w io.Writer) error { return Text(w, target, results, skip, Options{}) })
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("%s: a line of %d columns: %s", name, n, line)
		}
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s: no %q in\n%s", name, want, text)
		}
	}
}

func TestSeveral(t *testing.T) {
	several(t, "pair", target, pair(), "2 of 2 requests succeeded",
		"1000 tokens, 768 of them cached (77 %)", "cold 400 ms, warm 90.0 ms: 310 ms earlier")

	slower := pair()
	slower[1].Timing.TTFT = 450 * ms
	several(t, "pair-slower", target, slower, "50.0 ms later")

	// 11 tokens in 200 ms are 55 a second;
	// 22 tokens from the first start to the last end, 300 µs + 600 ms later: 36.6 a second.
	failed := request(256, 900*ms)
	failed.Outcome, failed.Err, failed.Concurrency = result.RateLimited, errors.New("status 429: slow down"), 4
	failed.Status = 429
	several(t, "bursts", target, append(burstsOfTwo(), failed), "3 of 4 requests succeeded",
		"     1     1     100 ms     100 ms    10.0 ms      55.0              -",
		"     2     2     200 ms     500 ms    10.0 ms      36.6         300 µs",
		"     4     0          -          -          -         -           0 µs", "1 × rate_limited")

	// A ladder: one length by single requests, each of the others by pairs.
	long := request(8000, 2*time.Second)
	long.Outcome, long.Err = result.TimeoutStall, errors.New("no token for 15s in mid-answer")
	several(t, "ladder", target, []*result.Result{request(1000, 300*ms), long}, "1000     1000      11    300 ms   10.0 ms      401 ms", "8000     8000      11         -         -           -       timeout_stall")
	several(t, "ladder-of-pairs", target, append(pair(), pair()...), "4 of 4 requests succeeded")
	several(t, "conversation", target, append(conversation(), conversation()...), "6 of 6 requests succeeded", "with the session header",
		"    2    1100    91 %   90.0 ms   10.0 ms           success      gpu-node-7")
	if both := append(burstsOfTwo(), burstsOfTwo()...); countBursts(both) != 3 {
		t.Errorf("%d results of the first ladder of bursts, want 3", countBursts(both))
	}
	resultsOrSkip(t, "nothing", target, nil, &result.Skip{Reason: result.SkipModel, Text: "the server lists 2 models"}, "not asked", "2 models")
}

// At 3 dollars for a million prompt tokens, 0.3 for cached ones and 15 for
// output, 232 + 768 prompt and 11 output tokens cost 696 + 230.4 + 165
// millionths.
func TestCost(t *testing.T) {
	priced := target
	priced.Price = &config.Price{InputUSD: 3, CachedInputUSD: 0.3, OutputUSD: 15}
	warm := pair()[1]
	several(t, "priced", priced, []*result.Result{warm}, "$0.001091 by the configured prices")
	golden(t, "priced.json", func(w io.Writer) error { return JSON(indented{w}, priced, warm) })
	if usd, ok := warm.Cost(priced.Price); !ok || usd < 0.00109139 || usd > 0.00109141 {
		t.Errorf("%g dollars (%t), want 0.0010914", usd, ok)
	}
	f := func(price *config.Price, r *result.Result) {
		t.Helper()
		if usd, ok := r.Cost(price); ok {
			t.Errorf("%g dollars with %+v for %+v, want none", usd, price, r.Tokens)
		}
	}
	f(nil, warm)
	f(&config.Price{GPUHourUSD: 3, GPUs: 1}, warm)
	f(priced.Price, blank())
	several(t, "priced-in-part", priced, []*result.Result{warm, silent()}, "for the 1 of 2 requests")
}

func TestAnswers(t *testing.T) {
	wrong := request(0, 100*ms)
	wrong.Outcome, wrong.Err = result.CheckFailed, errors.New("wrong: the answer has no match of the pattern")
	wrong.Answer = result.Answer{
		Verdict: result.VerdictWrong, Prompt: "0123456789abcdef", Hash: "fedcba9876543210",
		Model: "llama-8b-v2", Fingerprint: "fp_1", Text: "forty-two",
	}
	several(t, "answer", target, []*result.Result{wrong}, "verdict      wrong", "began with   forty-two", "served model llama-8b-v2")
	golden(t, "answer.json", func(w io.Writer) error { return JSON(indented{w}, target, wrong) })

	scored := embedding()
	scored.Kind, scored.Vectors, scored.Logprob = "scoring", embedding().Vectors, result.Logprob{Tokens: 300, Mean: -2.34567}
	scored.Vectors.Items = 0
	several(t, "reference", target, []*result.Result{scored}, "mean log-probability -2.3457 nats over 300 tokens")
	golden(t, "reference.json", func(w io.Writer) error { return JSON(indented{w}, target, scored) })

	burst := burstsOfTwo()[2]
	golden(t, "burst.json", func(w io.Writer) error { return JSON(indented{w}, target, burst) })
}
