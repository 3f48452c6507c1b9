package answers

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/testdata/lab"
)

const ms = time.Millisecond

type labOf = lab.Lab[*Estimate, *Finding]

func newLab() *labOf {
	return lab.New[*Estimate, *Finding](func() *Estimate { return new(Estimate) })
}

// writer composes answers of a language from the parts of its file.
type writer struct {
	rng    *rand.Rand
	prompt workload.Scripts
	parts  []string
}

func newWriter(t testing.TB, language string, seed uint64) *writer {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "ordinary", language+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(strings.TrimSpace(string(b)), "\n---")
	w := &writer{rng: rand.New(rand.NewPCG(seed, 1)), prompt: ScriptsOf(parts[0])}
	for _, p := range parts[1:] {
		if p = strings.TrimSpace(p); p != "" {
			w.parts = append(w.parts, p)
		}
	}
	return w
}

// answer returns one to four parts; two of three answers are cut at some byte, as by their
// limit.
func (w *writer) answer() workload.Answer {
	var parts []string
	for _, i := range w.rng.Perm(len(w.parts))[:1+w.rng.IntN(4)] {
		parts = append(parts, w.parts[i])
	}
	a := workload.Answer{Text: strings.Join(parts, []string{"\n\n", " ", "\n"}[w.rng.IntN(3)]), Finish: "stop"}
	if w.rng.IntN(3) > 0 {
		a.Text, a.Finish = a.Text[:min(len(a.Text), 40+w.rng.IntN(500))], "length"
	}
	return a
}

// inspected returns a result with the findings of an answer.
func (w *writer) inspected(a workload.Answer) *result.Result {
	return &result.Result{Outcome: result.Success, Inspected: true, Integrity: Inspect(a, w.prompt)}
}

// corruptions corrupt an answer in ways that users reported; see testdata/broken.txt of
// the package
func corruptions() map[result.Sign]func(w *writer, text string) string {
	insert := func(pieces ...string) func(*writer, string) string {
		return func(w *writer, text string) string {
			words := strings.SplitAfter(text, " ")
			at := w.rng.IntN(len(words) + 1)
			return strings.Join(words[:at], "") + pieces[w.rng.IntN(len(pieces))] + strings.Join(words[at:], "")
		}
	}
	return map[result.Sign]func(*writer, string) string{
		result.SignScript:  insert("สวัสดี ", "이제 알았습니다 ", "నమస్తే ", "შემდეგ "),
		result.SignControl: insert("\ufffd\ufffd ", "\x00", "\x1b[31m", "ob \ufffd"),
		result.SignToken:   insert("<|im_end|> ", "<|eot_id|>", "<unused6226>", "[/INST] ", "<｜end▁of▁sentence｜>"),
		result.SignRepetition: func(w *writer, text string) string {
			words := strings.Fields(text)
			n := 1 + w.rng.IntN(8)
			at := w.rng.IntN(len(words))
			return strings.Join(words, " ") + strings.Repeat(" "+strings.Join(words[at:min(len(words), at+n)], " "), 60)
		},
		result.SignReasoning: func(_ *writer, text string) string { return "<think>\n\n</think>\n\n" + text },
	}
}

var answerLanguages = []string{"en", "de", "fr", "es", "ru", "zh", "ja", "ar"}

func found(g *Estimate) *Finding {
	f, _ := g.Finding(time.Time{}).(*Finding)
	return f
}

// watchAnswers observes results, one a minute, and returns what is known afterwards.
func watchAnswers(g *Estimate, results func(i int) *result.Result, n int) *Finding {
	for i := range n {
		r := *results(i)
		r.Start = lab.Noon().Add(time.Duration(g.answers) * time.Minute)
		g.observe(&r)
	}
	return found(g)
}

// Of 2 % of the answers the first one is counted at once, and two make the alarm: among 200
// there is one with a probability of 98 % and are two with one of 91 % (binomial). Some of
// what is put into code or quotation marks is not found.
func TestIntegrityFindsCorruption(t *testing.T) {
	const share, within, day = 0.02, 200, 24 * 60
	seeds, fewestCounted, fewestAlarms := 100, 95, 85
	if testing.Short() {
		seeds, fewestCounted, fewestAlarms = 24, 22, 19
	}
	for finding, corrupt := range corruptions() {
		counted, alarms := 0, 0
		for seed := range uint64(seeds) {
			w := newWriter(t, answerLanguages[seed%8], seed)
			var good, bad []*result.Result
			for range 10 {
				good = append(good, w.inspected(w.answer()))
				a := w.answer()
				a.Text = corrupt(w, strings.ToValidUTF8(a.Text, ""))
				bad = append(bad, w.inspected(a))
			}
			var g Estimate
			watchAnswers(&g, func(i int) *result.Result { return good[i%len(good)] }, day)
			known := watchAnswers(&g, func(i int) *result.Result {
				if w.rng.Float64() < share {
					return bad[w.rng.IntN(len(bad))]
				}
				return good[i%len(good)]
			}, within)
			if known == nil {
				continue
			}
			for i, other := range result.Signs() {
				s := known.Signs[i]
				if other == finding && s.Count > 0 {
					counted++
				}
				switch {
				case s.Since.IsZero():
				case other == finding:
					alarms++
				case finding == result.SignRepetition && other == result.SignOneToken: // a loop of one word from the first on
				case finding == result.SignRepetition && other == result.SignScript: // of a name out of its quotation marks
				default:
					t.Errorf("%s, seed %d: alarm of %s", finding, seed, other)
				}
			}
		}
		t.Logf("%s: counted in %d, alarm in %d of %d seeds", finding, counted, alarms, seeds)
		if counted < fewestCounted || alarms < fewestAlarms {
			t.Errorf("%s: want %d and %d", finding, fewestCounted, fewestAlarms)
		}
	}
}

// Thirty days of ordinary answers in each language, one a minute, have no finding at all.
func TestIntegrityOfOrdinaryAnswers(t *testing.T) {
	const days, pool = 30, 400
	for i, language := range answerLanguages {
		w := newWriter(t, language, uint64(i))
		var all []*result.Result
		for range pool {
			a := w.answer()
			r := w.inspected(a)
			if r.Integrity != nil {
				t.Errorf("%s: %v in %q", language, r.Integrity, a.Text)
			}
			all = append(all, r)
		}
		var g Estimate
		if known := watchAnswers(&g, func(int) *result.Result { return all[w.rng.IntN(pool)] }, days*24*60); known != nil {
			t.Errorf("%s: %+v", language, known)
		}
		if g.answers != days*24*60 {
			t.Errorf("%s: %d answers", language, g.answers)
		}
	}
}

// A share that answers always have is learnt. Where it is so small that none was among the
// first ones, it may be taken for raised once, and not again and again.
func TestIntegrityOfUsualFindings(t *testing.T) {
	months, most := 20, 12
	if testing.Short() {
		months, most = 5, 5 // once in each
	}
	for _, share := range []float64{0.0001, 0.001, 0.005, 0.01, 0.03, 0.1, 0.3, 0.6, 0.9, 1} {
		alarms := 0
		for seed := range uint64(months) {
			rng := rand.New(rand.NewPCG(seed, 2))
			var s sign
			for i := range 30 * 24 * 60 {
				before := s.Raised
				s.observe(rng.Float64() < share, lab.Noon().Add(time.Duration(i)*time.Minute), true)
				if s.Raised && !before {
					alarms++
				}
			}
		}
		t.Logf("share %g: %d alarms in %d months", share, alarms, months)
		if alarms > most || share >= 0.03 && alarms > 0 {
			t.Errorf("share %g: %d alarms in %d months", share, alarms, months)
		}
	}
}

// An alarm begins with the first of the answers that it is about, and ends with them.
func TestIntegrityAlarm(t *testing.T) {
	var g Estimate
	token, clean := []result.Sign{result.SignToken}, []result.Sign(nil)
	index := 4 // of special_token
	at := lab.Noon()
	observe := func(findings []result.Sign, n int) {
		for range n {
			g.observe(&result.Result{Inspected: true, Integrity: findings, Start: at})
			at = at.Add(time.Minute)
		}
	}
	expect := func(what string, want Sign) {
		t.Helper()
		if diff := cmp.Diff(want, found(&g).Signs[index]); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", what, diff)
		}
	}
	g.observe(&result.Result{Integrity: token}) // not inspected
	observe(clean, 1000)
	if found(&g) != nil {
		t.Errorf("%+v without a finding", found(&g))
	}
	since := at
	observe(token, 1)
	expect("the first one", Sign{Count: 1, Usual: new(0.0)})
	observe(clean, 99)
	observe(token, 1)
	expect("the second one", Sign{Count: 2, Usual: new(0.0), Since: since, Seen: 2, Looked: 101})
	observe(clean, 200)
	expect("some time later", Sign{Count: 2, Usual: new(0.0), Since: since, Seen: 2, Looked: 301})
	observe(clean, 200)
	expect("over", Sign{Count: 2, Usual: new(g.signs[index].Usual.ratio())})

	since = at
	observe(token, 100)
	expect("each one", Sign{Count: 102, Usual: new(g.signs[index].Usual.ratio()), Since: since, Seen: 100, Looked: 100})
	observe(token, maxAnswers)
	expect("for days", Sign{Count: 102 + maxAnswers, Usual: new(1.0)})
	if other := found(&g).Signs[0]; other.Count != 0 || *other.Usual != 0 || other.IsRaised() {
		t.Errorf("of another finding: %+v", other)
	}
}

// One token over and over is never usual: two such answers are enough, the first two as well, and it
// stays raised for as long as it lasts.
func TestOneTokenIsNotLearned(t *testing.T) {
	const index = 2 // of repeated_token
	for _, before := range []int{0, 95, 2000} {
		var g Estimate
		at := lab.Noon()
		observe := func(n int, signs ...result.Sign) {
			for range n {
				g.observe(&result.Result{Inspected: true, Integrity: signs, Start: at})
				at = at.Add(time.Minute)
			}
		}
		observe(before)
		since := at
		observe(1, result.SignOneToken)
		if s := found(&g).Signs[index]; s.IsRaised() {
			t.Errorf("after %d answers one raises it", before)
		}
		observe(1, result.SignOneToken)
		if s := found(&g).Signs[index]; !s.Since.Equal(since) {
			t.Errorf("after %d answers two do not raise it: %+v", before, s)
		}
		observe(2*maxAnswers, result.SignOneToken)
		if s := found(&g).Signs[index]; !s.Since.Equal(since) || *s.Usual != 0 {
			t.Errorf("after %d answers it is usual: %+v", before, s)
		}
		observe(400)
		if s := found(&g).Signs[index]; s.IsRaised() {
			t.Errorf("still raised after 400 good answers: %+v", s)
		}
	}
}

// Answers of one token repeat themselves, which is not learned from them: of answers that are not garbage a loop is as
// unusual as before.
func TestGarbageTeachesNothing(t *testing.T) {
	const index = 1 // of repetition
	var g Estimate
	observe := func(n int, signs ...result.Sign) {
		for range n {
			g.observe(&result.Result{Inspected: true, Integrity: signs, Start: lab.Noon()})
		}
	}
	observe(95)
	observe(500, result.SignRepetition, result.SignOneToken)
	observe(400)
	if s := found(&g).Signs[index]; s.Count != 500 || s.IsRaised() || *s.Usual != 0 {
		t.Errorf("after garbage: %+v", s)
	}
	observe(5, result.SignRepetition)
	if s := found(&g).Signs[index]; !s.IsRaised() {
		t.Errorf("five loops do not raise it: %+v", s)
	}
}

// Before enough answers were seen nothing is usual, and nothing raised.
func TestIntegrityLearns(t *testing.T) {
	var g Estimate
	for i := range minAnswers {
		if f := found(&g); i > 0 && f.Signs[0].Usual != nil {
			t.Fatalf("after %d answers %+v", i, f.Signs[0])
		}
		g.observe(&result.Result{Inspected: true, Integrity: []result.Sign{result.SignScript}})
	}
	if f := found(&g); f.Answers != minAnswers || *f.Signs[0].Usual != 1 || *f.Signs[1].Usual != 0 {
		t.Errorf("%+v", f)
	}
}

// What is usual of the findings in answers is known after a restart: a share that rises
// then is found at once. The counts of findings are those of the process.
func TestIntegrityGoesOnAfterARestart(t *testing.T) {
	inspected := func(l *labOf, n int, findings ...result.Sign) (f *Finding) {
		for range n {
			f = l.Run(lab.With(lab.Probe(256, ms), func(r *result.Result) { r.Start, r.Inspected, r.Integrity = l.Now, true, findings }))
		}
		return f
	}
	l := newLab()
	inspected(l, minAnswers)
	l = l.NextProcess(t)
	if f := inspected(l, 1); f != nil {
		t.Errorf("before the first finding: %+v", f)
	}
	f := inspected(l, 3, result.SignToken)
	token := slices.Index(result.Signs(), result.SignToken)
	if s := f.Signs[token]; s.Since.IsZero() || s.Seen != 3 || s.Count != 3 || f.Answers != 4 {
		t.Errorf("%+v of %d answers", s, f.Answers)
	}
	f = inspected(l.NextProcess(t), 1, result.SignToken)
	if s := f.Signs[token]; s.Since.IsZero() || s.Seen != 4 || s.Count != 1 || f.Answers != 1 {
		t.Errorf("after another restart: %+v of %d answers", s, f.Answers)
	}
}

// Shares that no answers have begin again.
func TestIntegrityThatCannotBe(t *testing.T) {
	for _, data := range []string{
		`[]`, `{"answers":-1}`, `{"answers":1,"signs":{"TOKEN":{"usual":{"found":2,"answers":1}}}}`,
		`{"answers":1,"signs":{"TOKEN":{"sum":15}}}`, `{"answers":1,"signs":{"TOKEN":{"sum":4,"raised":true}}}`,
	} {
		data = strings.ReplaceAll(data, "TOKEN", string(result.SignToken))
		var next Estimate
		if err := workload.Decoded(next.restore)([]byte(data)); err == nil || next.signs != nil || next.before != 0 {
			t.Errorf("%s was taken", data)
		}
	}
}
