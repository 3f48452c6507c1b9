package drift

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// firstTokenServer is a model that answers prompts of one word, as its first tokens
// show it: five tokens a prompt with log-probabilities.
type firstTokenServer struct {
	rng     *rand.Rand
	logits  map[int][]float64 // by prompt
	noise   float64           // of each log-probability of a request: of the batch
	flips   float64           // share of the requests that were computed in another way
	flipped float64           // and how much further off their log-probabilities are
	scored  bool
	course  bool // flips follow the time of day: none at night, twice as many at noon
	asked   int
	few     bool  // flips are of one prompt in five
	window  int   // as many answers as are compared are a day's
	set     []int // the prompts to ask, in turn
}

func newFirstTokenServer(seed uint64, scored bool) *firstTokenServer {
	return &firstTokenServer{rng: rand.New(rand.NewPCG(seed, 3)), logits: map[int][]float64{}, scored: scored, window: minWindow}
}

// The least and the most answers that are compared, as config has them.
const minWindow, maxWindow = 96, 480

// watch returns a watcher of a module at the default interval.
func watch() *firstTokens { return &firstTokens{window: minWindow} }

// watch returns a watcher of the server.
func (s *firstTokenServer) watch() *firstTokens { return &firstTokens{window: s.window} }

// days is how many answers come in so many days.
func (s *firstTokenServer) days(n int) int { return n * s.window }

// next returns the prompt to ask, as the prober chooses it: of 8 where there are
// log-probabilities; else of a third of a day's answers, those first whose first token
// flips in three answers to each of twice as many.
func (s *firstTokenServer) next() int {
	if s.set == nil && s.scored {
		s.set = []int{0, 1, 2, 3, 4, 5, 6, 7}
	}
	if s.set == nil {
		var border, steady []int
		for p := range s.window * 2 / 3 {
			first, flips := s.ask(p).First.Text, false
			for range 2 {
				flips = flips || s.ask(p).First.Text != first
			}
			if flips {
				border = append(border, p)
			} else {
				steady = append(steady, p)
			}
		}
		s.set = append(border, steady...)[:s.window/3]
	}
	s.asked++
	return s.set[s.asked%len(s.set)]
}

// ask returns the next answer to a prompt.
func (s *firstTokenServer) ask(prompt int) *result.Result {
	flips := s.flips
	if s.course {
		flips *= 1 - math.Cos(2*math.Pi*float64(s.asked)/float64(s.window))
	}
	if s.logits[prompt] == nil {
		p := -0.5
		for range keptTokens {
			s.logits[prompt] = append(s.logits[prompt], p)
			p -= s.rng.ExpFloat64()
		}
	}
	off := s.noise
	if s.few && prompt%5 != 0 {
		flips = 0
	}
	flipped := s.rng.Float64() < flips
	if flipped {
		off += s.flipped
	}
	first := &result.FirstToken{}
	best := math.Inf(-1)
	for i, p := range s.logits[prompt] {
		p += off * s.rng.NormFloat64()
		token := fmt.Sprint(i)
		if p > best {
			best, first.Text = p, token
		}
		if s.scored {
			first.Top = append(first.Top, api.TokenLogprob{Token: token, Logprob: p})
		}
	}
	if flipped && !s.scored {
		first.Text = fmt.Sprint(s.rng.IntN(keptTokens))
	}
	return &result.Result{Outcome: result.Success, First: first, Answer: result.Answer{Prompt: fmt.Sprint(prompt)}}
}

// quantize moves each log-probability as other weights do.
func (s *firstTokenServer) quantize(by float64) {
	for prompt := range maxWindow {
		for i := range s.logits[prompt] {
			s.logits[prompt][i] += by * s.rng.NormFloat64()
		}
	}
}

// run asks for so many answers, and returns how many changes were found.
func (s *firstTokenServer) run(f *firstTokens, answers int) int {
	now := time.Unix(0, 0)
	before := f.counts[0] + f.counts[1]
	for range answers {
		now = now.Add(15 * time.Minute)
		f.observe(s.ask(s.next()), now)
	}
	return int(f.counts[0] + f.counts[1] - before)
}

// month is 30 days; the bound is on 20 of them.
const month = 30

// TestFirstTokensStayQuiet holds the bound on false events: at most one in 20 months,
// where 5 % of the answers are computed in another way, for tokens by the time of day.
func TestFirstTokensStayQuiet(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		server func() *firstTokenServer
	}{
		{"log-probabilities", func() *firstTokenServer {
			s := newFirstTokenServer(1, true)
			s.noise, s.flips, s.flipped = 0.01, 0.05, 0.2
			return s
		}},
		{"tokens", func() *firstTokenServer {
			s := newFirstTokenServer(3, false)
			s.noise, s.flips, s.course = 0.05, 0.05, true
			return s
		}},
		{"tokens, every 3 minutes", func() *firstTokenServer {
			s := newFirstTokenServer(4, false)
			s.noise, s.flips, s.course, s.window = 0.05, 0.05, true, maxWindow
			return s
		}},
		{"tokens of one word in five, every 3 minutes", func() *firstTokenServer {
			s := newFirstTokenServer(5, false)
			s.flips, s.few, s.window = 0.05, true, maxWindow
			return s
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, months := tt.server(), 20
			if s.window > minWindow {
				months = 4 // which take as long; BenchmarkFirstTokens has more
			}
			if testing.Short() {
				months /= 4
			}
			if changes := s.run(s.watch(), s.days(months*month)); changes > months/20 {
				t.Errorf("%d changes in %d months of the same model, want at most %d", changes, months, months/20)
			}
		})
	}
}

// TestFirstTokensFindChange holds how often a change is found within a day, in runs of
// which each has other prompts.
func TestFirstTokensFindChange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name              string
		scored            bool
		noise, flips, off float64
		change            float64
		window            int
	}{
		{"log-probabilities, 0.05 nats", true, 0.01, 0.05, 0.2, 0.05, minWindow},
		{"log-probabilities without noise, 0.02 nats", true, 0, 0, 0, 0.02, minWindow},
		{"border prompts, 0.5 nats", false, 0.05, 0.05, 0, 0.5, minWindow},
		{"no border prompts, 0.5 nats", false, 0, 0, 0, 0.5, minWindow},
		{"no border prompts, 0.1 nats, every 3 minutes", false, 0, 0, 0, 0.1, maxWindow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found, runs := 0, 10
			if testing.Short() {
				runs = 3
			}
			for seed := range uint64(runs) {
				s, f := newFirstTokenServer(100+seed, tt.scored), &firstTokens{window: tt.window}
				s.window = tt.window
				s.noise, s.flips, s.flipped = tt.noise, tt.flips, tt.off
				if changes := s.run(f, s.days(4)); changes > 0 {
					t.Fatalf("seed %d: a change before there was one", seed)
				}
				s.quantize(tt.change)
				if changes := s.run(f, s.days(1)); changes == 1 {
					found++
				}
			}
			if least := runs * 9 / 10; found < least {
				t.Errorf("%d of %d changes found within a day, want at least %d", found, runs, least)
			}
		})
	}
}

// TestFirstTokensLearnAgain is that a change is one event, and the model after it the
// same as any.
func TestFirstTokensLearnAgain(t *testing.T) {
	t.Parallel()
	s, f, changes := newFirstTokenServer(7, true), watch(), 3
	if testing.Short() {
		changes = 1
	}
	s.noise = 0.01
	s.run(f, s.days(5))
	for i := range changes {
		s.quantize(0.2)
		if changes := s.run(f, s.days(8)); changes != 1 {
			t.Errorf("change %d: %d events, want 1", i+1, changes)
		}
	}
}

// TestFirstTokensGoOnAfterARestart is that a change is found by a reference of before.
func TestFirstTokensGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	s, before := newFirstTokenServer(9, true), watch()
	s.noise = 0.01
	s.run(before, s.days(3))
	data, err := json.Marshal((&Estimate{first: before}).saveFirst())
	if err != nil || len(data) > 512<<10 {
		t.Fatalf("%d bytes saved, %v", len(data), err)
	}
	after := &Estimate{window: before.window}
	if err := workload.Decoded(after.restoreFirst)(data); err != nil {
		t.Fatal(err)
	}
	s.quantize(0.2)
	if changes := s.run(after.first, s.days(1)); changes != 1 {
		t.Errorf("%d changes after a restart, want 1", changes)
	}
	if (&Estimate{first: watch()}).saveFirst() != nil {
		t.Error("nothing is saved as something")
	}
	// All that is kept fits.
	full := &firstTokens{window: maxWindow, samples: make([]firstToken, 5*maxWindow)}
	if data, err := json.Marshal((&Estimate{first: full}).saveFirst()); err != nil || len(data) > 512<<10 {
		t.Errorf("%d bytes saved, %v", len(data), err)
	}
	for what, bad := range map[string]string{
		"half an answer":  `{"samples":"AAAA"}`,
		"no answers":      `{"samples":7}`,
		"too long a wait": `{"samples":"","fresh":99}`,
	} {
		if err := workload.Decoded(after.restoreFirst)([]byte(bad)); err == nil || len(after.first.samples) == 0 {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

// They are part of what is saved.
func TestFirstTokensGoOn(t *testing.T) {
	t.Parallel()
	l := newLab()
	l.Run(newFirstTokenServer(10, true).ask(1))
	if next := l.NextProcess(t); len(next.Estimate.first.samples) != 1 {
		t.Errorf("%+v restored, want one answer", next.Estimate.first)
	}
}

// TestFirstTokensOfFailures is that only good answers count.
func TestFirstTokensOfFailures(t *testing.T) {
	t.Parallel()
	s, f := newFirstTokenServer(8, true), watch()
	r := s.ask(0)
	r.Outcome = result.CheckFailed
	f.observe(r, time.Unix(1, 0))
	f.observe(&result.Result{Outcome: result.Success}, time.Unix(1, 0))
	if len(f.samples) != 0 {
		t.Errorf("%d answers kept, want none", len(f.samples))
	}
}

// TestFirstTokenDistances compares the two distances with sums by hand.
func TestFirstTokenDistances(t *testing.T) {
	t.Parallel()
	sample := func(text string, top ...api.TokenLogprob) firstToken {
		return newFirstToken(&result.Result{
			Answer: result.Answer{Prompt: "p"}, First: &result.FirstToken{Text: text, Top: top},
		})
	}
	// Tokens: 3 of 4 are a in the reference, 1 of 2 in the window: |3/4-1/2|+|1/4-1/2| = 1/2, half of it 1/4.
	reference := []firstToken{sample("a"), sample("a"), sample("b"), sample("a")}
	window := []firstToken{sample("a"), sample("b")}
	if squares, got := distance(newStrata(reference, window, false)); math.Abs(got-0.25) > 1e-12 || math.Abs(squares-0.0625) > 1e-12 {
		t.Errorf("total variation %v, want 0.25; squares %v, want 0.0625", got, squares)
	}
	// Log-probabilities: a -1 and -1.2 against -1.5: 0.4. b -2 and, not listed, -1.2, against -2: 0.4.
	reference = []firstToken{
		sample("a", api.TokenLogprob{Token: "a", Logprob: -1}, api.TokenLogprob{Token: "b", Logprob: -2}),
		sample("a", api.TokenLogprob{Token: "a", Logprob: -1.2}),
	}
	window = []firstToken{sample("a", api.TokenLogprob{Token: "a", Logprob: -1.5}, api.TokenLogprob{Token: "b", Logprob: -2})}
	if _, got := distance(newStrata(reference, window, true)); math.Abs(got-0.4) > 1e-6 {
		t.Errorf("distance %v nats, want 0.4", got)
	}
}

// BenchmarkFirstTokens measures false events and how often changes are found within a
// day, by their size and the noise.
func BenchmarkFirstTokens(b *testing.B) {
	b.Run("one test", func(b *testing.B) {
		s, f := newFirstTokenServer(1, true), watch()
		s.noise = 0.01
		s.run(f, s.days(5))
		split := len(f.samples) - scoredWindow
		for b.Loop() {
			compare(f.samples[:split], f.samples[split:])
		}
	})
	for _, kind := range []struct {
		name   string
		scored bool
		window int
	}{{"logprobs", true, minWindow}, {"tokens", false, minWindow}, {"tokens/3m", false, maxWindow}} {
		server := func(seed uint64) (*firstTokenServer, *firstTokens) {
			s := newFirstTokenServer(seed, kind.scored)
			s.window, s.flips, s.flipped = kind.window, 0.05, 0.2
			return s, s.watch()
		}
		quiet := func(what string, change func(*firstTokenServer)) {
			b.Run(fmt.Sprintf("false/%s/%s", kind.name, what), func(b *testing.B) {
				const years = 10
				total := 0
				for seed := range uint64(years) {
					s, f := server(seed)
					change(s)
					n := s.run(f, s.days(365))
					total += n
				}
				b.ReportMetric(float64(total)/(years*12), "events/month")
			})
		}
		for _, flips := range []float64{0.05, 0.2} {
			quiet(fmt.Sprintf("flips=%g", flips), func(s *firstTokenServer) { s.noise, s.flips, s.course = 0.02, flips, true })
		}
		quiet("one word in five", func(s *firstTokenServer) { s.few = true })
		for _, noise := range []float64{0, 0.05} {
			for _, change := range []float64{0.02, 0.05, 0.1, 0.2, 0.5} {
				b.Run(fmt.Sprintf("found/%s/noise=%g/change=%g", kind.name, noise, change), func(b *testing.B) {
					const runs = 50
					found := 0
					for seed := range uint64(runs) {
						s, f := server(seed)
						s.noise = noise
						if noise == 0 {
							s.flips = 0
						}
						s.run(f, s.days(6))
						s.quantize(change)
						if n := s.run(f, s.days(1)); n > 0 {
							found++
						}
					}
					b.ReportMetric(100*float64(found)/runs, "%/day")
				})
			}
		}
	}
}
