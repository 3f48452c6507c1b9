package answers

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// Finding is what the inspection of answers found since the first finding. It is never changed once made.
type Finding struct {
	// Answers is how many answers were inspected, those before the first finding included.
	Answers uint64
	Signs   [numSigns]Sign // by index in result.Signs
}

// Sign is one kind of finding in the answers.
type Sign struct {
	Count uint64 `json:"answers"` // how many answers had it
	// Usual is the share of the answers that usually have it; nil while that is learnt.
	Usual *float64 `json:"usual_ratio,omitempty"`
	// Since is when the first of the answers came that have it more often than usual;
	// zero while no more have it. Seen is how many of the Looked answers since had it.
	Since  time.Time `json:"-"`
	Seen   int       `json:"answers_since,omitempty"`
	Looked int       `json:"inspected_since,omitempty"`
}

// IsRaised reports whether more answers have the sign than usual.
func (s *Sign) IsRaised() bool { return !s.Since.IsZero() }

// String returns a raised sign in words, as in "2 of 90, usually 0 %".
func (s *Sign) String() string {
	return fmt.Sprintf("%d of %d, usually %.2g %%", s.Seen, s.Looked, 100*s.usual(0))
}

// usual returns Usual; another value while that is learnt.
func (s *Sign) usual(learning float64) float64 {
	if s.Usual == nil {
		return learning
	}
	return *s.Usual
}

const numSigns = 7 // of result.Signs

// The test for findings that become more frequent: a cumulative sum (CUSUM) of the logarithm of how much likelier an
// answer is at the raised share than at the usual one. By simulation (TestIntegrity, BenchmarkIntegrity), where answers
// never had a finding, two within some 200 answers raise it, and never a single one.
const (
	// minAnswers is how many answers are learnt from before any is judged, and
	// maxAnswers after how many older ones begin to fade.
	minAnswers, maxAnswers = 300, 4096
	// priorFindings is how many findings are assumed where there was none yet, and
	// doubt by how many standard errors a share may be above what it seems.
	priorFindings, doubt = 0.001, 1.5
	// leastRaise is by how much a share must rise to be looked for, and mostUsual the share from which on no rise is.
	leastRaise, mostUsual = 0.01, 0.9
	// raisedSum is the sum from which on the share is raised, and calmSum what the sum
	// then falls from until it is so no longer: some 300 answers without a finding.
	raisedSum, calmSum = 14, 3
	// maxLesson is how many findings are learnt from a raised share that is over. So what
	// comes and goes by chance is learnt, and what was a fault is not.
	maxLesson = 3
)

// Estimate watches the signs of corruption in the answers of one endpoint and module. It needs
// no memory before the first one.
type Estimate struct {
	answers uint64
	before  uint64 // answers that an earlier process inspected
	signs   *[numSigns]sign
}

// Observe implements workload.Estimate.
func (g *Estimate) Observe(results []*result.Result, _ time.Time) {
	for _, r := range results {
		g.observe(r)
	}
}

func (g *Estimate) observe(r *result.Result) {
	if !r.Inspected || r.Outcome == result.Canceled {
		return
	}
	g.answers++
	if g.signs == nil {
		if len(r.Integrity) == 0 {
			return
		}
		g.signs = new([numSigns]sign)
		for i := range g.signs {
			g.signs[i].Usual.Answers = float64(min(g.before+g.answers-1, maxAnswers))
		}
	}
	garbage := slices.Contains(r.Integrity, result.SignOneToken)
	for i, finding := range result.Signs() {
		found, of := slices.Contains(r.Integrity, finding), &g.signs[i]
		switch {
		case finding == result.SignOneToken:
			of.observe(found, r.Start, false)
		case !garbage: // which says nothing of what else is usual
			of.observe(found, r.Start, true)
		case found:
			of.count++
		}
	}
}

// Finding implements workload.Estimate: nil before the first sign.
func (g *Estimate) Finding(time.Time) workload.Finding {
	if g.signs == nil {
		return nil
	}
	f := &Finding{Answers: g.answers}
	for i := range g.signs {
		f.Signs[i] = g.signs[i].published()
	}
	return f
}

type sign struct {
	count uint64
	Usual share `json:"usual"`
	// Sum is above 0 from a finding on until it proves to be chance. Recent is the share
	// since then, and Since the answer that it began with.
	Recent share     `json:"recent"`
	Sum    float64   `json:"sum,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Raised bool      `json:"raised,omitempty"`
}

// share is how many of some answers had a finding; fractions remain of what faded.
type share struct {
	Found   float64 `json:"found"`
	Answers float64 `json:"answers"`
}

func (s *share) add(more share) {
	s.Found += more.Found
	s.Answers += more.Answers
	if s.Answers > maxAnswers {
		s.Found *= maxAnswers / s.Answers
		s.Answers = maxAnswers
	}
}

func (s *share) ratio() float64 { return s.Found / max(1, s.Answers) }

// assumed returns a share that the usual one is hardly above.
func (s *share) assumed() float64 {
	return (s.Found + doubt*math.Sqrt(s.Found) + priorFindings) / (s.Answers + 1)
}

// observe takes an answer. Where nothing is learned a sign is never usual, from the first answer on.
func (s *sign) observe(found bool, at time.Time, learns bool) {
	if !learns {
		s.Usual = share{Answers: maxAnswers}
	}
	one := share{Answers: 1}
	if found {
		s.count++
		one.Found = 1
	}
	if s.Usual.Answers < minAnswers || s.Sum == 0 && !found {
		s.Usual.add(one)
		return
	}
	if s.Sum == 0 {
		s.Since, s.Recent = at, share{}
	}
	s.Recent.add(one)
	s.Sum = max(0, s.Sum+s.step(found))
	if s.Raised {
		s.Sum = min(s.Sum, calmSum)
	}
	switch {
	case s.Sum == 0 && s.Raised: // it is over, and may have been chance in part
		s.Raised = false
		s.Usual.add(share{min(s.Recent.Found, maxLesson), s.Recent.Answers})
	case s.Sum == 0: // it was chance
		s.Usual.add(s.Recent)
	case s.Raised && s.Recent.Answers >= maxAnswers && learns: // it is usual now
		*s = sign{count: s.count, Usual: s.Recent}
	case s.Sum >= raisedSum:
		s.Raised, s.Sum = true, calmSum
	}
}

// step returns the logarithm of how much likelier it is at the raised share than at the
// usual one that an answer has a finding, or has none.
func (s *sign) step(found bool) float64 {
	usual := s.Usual.assumed()
	if usual > mostUsual {
		return 0
	}
	raised := usual + (1-usual)*max(leastRaise, min(usual, 0.5))
	if found {
		return math.Log(raised / usual)
	}
	return math.Log((1 - raised) / (1 - usual))
}

func (s *sign) published() Sign {
	p := Sign{Count: s.count}
	if s.Usual.Answers >= minAnswers {
		p.Usual = new(s.Usual.ratio())
	}
	if s.Raised {
		p.Since, p.Seen, p.Looked = s.Since, int(math.Round(s.Recent.Found)), int(math.Round(s.Recent.Answers))
	}
	return p
}

// MarshalJSON implements json.Marshaler.
func (f *Finding) MarshalJSON() ([]byte, error) {
	type sign struct {
		*Sign
		Since float64 `json:"since,omitempty"` // in seconds since 1970
	}
	var d struct {
		Integrity struct {
			Answers  uint64               `json:"answers"`
			Findings map[result.Sign]sign `json:"findings"`
		} `json:"integrity"`
	}
	d.Integrity.Answers, d.Integrity.Findings = f.Answers, map[result.Sign]sign{}
	for i, name := range result.Signs() {
		s := sign{Sign: &f.Signs[i]}
		if s.IsRaised() {
			s.Since = workload.Unix(s.Sign.Since)
		} else if s.Count == 0 {
			continue
		}
		d.Integrity.Findings[name] = s
	}
	return json.Marshal(d)
}

// Figures implements workload.Finding.
func (f *Finding) Figures() []workload.Figure {
	var all uint64
	var kinds []string
	bad := false
	for i, name := range result.Signs() {
		s := &f.Signs[i]
		bad = bad || s.IsRaised()
		if all += s.Count; s.Count > 0 {
			kinds = append(kinds, fmt.Sprintf("%s %d", strings.ReplaceAll(string(name), "_", " "), s.Count))
		}
	}
	if len(kinds) == 0 && !bad {
		return nil
	}
	return []workload.Figure{{
		Label: "corruption", Value: fmt.Sprint(all), Note: fmt.Sprintf("signs in %d answers: %s", f.Answers, strings.Join(kinds, ", ")), Bad: bad,
	}}
}

// News implements workload.News: more answers have a sign of corruption than usual, or no longer.
func (f *Finding) News(before workload.Finding, _ string) (all []workload.Line) {
	if before == nil {
		return nil
	}
	was := before.(*Finding)
	for i, sign := range result.Signs() {
		switch s := &f.Signs[i]; {
		case s.IsRaised() && !was.Signs[i].IsRaised():
			all = append(all, workload.Line{
				Warn: true, Message: "more answers than usual have a sign of corruption", Note: "answers with " + sign.Description() + ": " + s.String(),
				Args: []any{"finding", string(sign), "since", s.Since, "answers", s.Seen, "of", s.Looked, "usual", s.usual(-1)},
			})
		case !s.IsRaised() && was.Signs[i].IsRaised():
			all = append(all, workload.Line{
				Message: "signs of corruption are back to their usual share of answers", Note: "no more answers than usual with " + sign.Description(),
				Args: []any{"finding", string(sign)},
			})
		}
	}
	return all
}

// Learned implements workload.Learner.
func (g *Estimate) Learned() []workload.Learned {
	return []workload.Learned{{Part: "integrity", Version: 1, Save: g.save, Restore: workload.Decoded(g.restore)}}
}

func metrics() []workload.Metric {
	of := func(name, unit, help string, get func(s *Sign) float64) workload.Metric {
		return workload.Metric{
			Name: "integrity_" + name, Unit: unit, Help: help, Label: "finding", Values: config.Texts(result.Signs()),
			Value: workload.Of(func(f *Finding, i int) float64 { return get(&f.Signs[i]) }),
		}
	}
	return []workload.Metric{
		workload.One("integrity_answers_total", "", "Answers inspected for signs of corruption. Absent before the first finding.", func(f *Finding) float64 { return float64(f.Answers) }),
		of("findings_total", "", "Answers with a sign of corruption: a script that the prompt does not have (foreign_script), most of the text repeated (repetition), nothing but one word or character over and over (repeated_token), control or replacement characters (control_character), special tokens or parts of a chat template (special_token), reasoning tags in the text (reasoning_tag), or no finish reason (no_finish_reason). Absent before the first finding of any kind.", func(s *Sign) float64 { return float64(s.Count) }),
		of("usual_ratio", "ratio", "Ratio of answers that usually have the sign of corruption, as learnt for the endpoint and the module. Absent before the first finding of any kind, and while fewer than 300 answers were inspected. Always 0 of repeated_token, which is never learnt.", func(s *Sign) float64 { return workload.Known(s.Usual) }),
		of("raised", "", "1 if more answers have the sign of corruption than usual, beyond chance, 0 otherwise. Absent where inference_probe_integrity_usual_ratio is.", func(s *Sign) float64 {
			if s.IsRaised() {
				return 1
			}
			return workload.Part(s.Usual, func(*float64) float64 { return 0 })
		}),
		of("raised_timestamp_seconds", "seconds", "Unix time of the first of the answers that have the sign of corruption more often than usual. Absent while inference_probe_integrity_raised is not 1.", func(s *Sign) float64 { return workload.Unix(s.Since) }),
	}
}

// savedIntegrity is the JSON of an Estimate. Counters begin again, as others do.
type savedIntegrity struct {
	Answers uint64                `json:"answers"`         // how many were inspected, by earlier processes too
	Signs   map[result.Sign]*sign `json:"signs,omitempty"` // by finding; absent before the first
}

// isSane reports whether answers may have such a share.
func (s *share) isSane() bool {
	return 0 <= s.Found && s.Found <= s.Answers && s.Answers <= maxAnswers+1
}

func (g *Estimate) save() any {
	if g.before+g.answers == 0 {
		return nil
	}
	j := savedIntegrity{Answers: g.before + g.answers}
	if g.signs != nil {
		j.Signs = map[result.Sign]*sign{}
		for i, finding := range result.Signs() {
			j.Signs[finding] = &g.signs[i]
		}
	}
	return j
}

// restore takes up what was learned. A finding that this version does not know is left
// out, and one that the earlier one did not know is learned.
func (g *Estimate) restore(j *savedIntegrity) error {
	next := Estimate{before: j.Answers}
	if len(j.Signs) > 0 {
		next.signs = new([numSigns]sign)
	}
	for i, finding := range result.Signs() {
		s := j.Signs[finding]
		if s == nil {
			continue
		}
		if !s.Usual.isSane() || !s.Recent.isSane() || s.Sum < 0 || s.Sum > raisedSum || s.Raised && s.Sum > calmSum {
			return errors.New("shares that no answers have")
		}
		next.signs[i] = *s
	}
	*g = next
	return nil
}
