package estimate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// Integrity is what the inspection of answers found since the first finding. It is never
// changed once made.
type Integrity struct {
	// Answers is how many answers were inspected, those before the first finding
	// included.
	Answers uint64
	// Signs are by index in result.Signs.
	Signs [numSigns]Sign
}

// Sign is one kind of finding in the answers.
type Sign struct {
	// Count is how many answers had it.
	Count uint64
	// Usual is the share of the answers that usually have it; negative while that is
	// learnt.
	Usual float64
	// Since is when the first of the answers came that have it more often than usual;
	// zero while no more have it. Seen is how many of the Looked answers since had it.
	Since        time.Time
	Seen, Looked int
}

// IsRaised reports whether more answers have the sign than usual.
func (s *Sign) IsRaised() bool { return !s.Since.IsZero() }

// String returns a raised sign in words, as in "2 of 90, usually 0 %".
func (s *Sign) String() string {
	return fmt.Sprintf("%d of %d, usually %.2g %%", s.Seen, s.Looked, 100*max(0, s.Usual))
}

// numSigns is how many result.Signs there are.
const numSigns = 6

// The test for findings that become more frequent: a cumulative sum (CUSUM) of the
// logarithm of how much likelier an answer is at the raised share than at the usual one.
// Its constants come from simulation (TestIntegrity, BenchmarkIntegrity). Where answers
// never had a finding, two of them within some 200 answers raise it, and never a single
// one.
const (
	// minAnswers is how many answers are learnt from before any is judged, and
	// maxAnswers after how many older ones begin to fade.
	minAnswers, maxAnswers = 300, 4096
	// priorFindings is how many findings are assumed where there was none yet, and
	// doubt by how many standard errors a share may be above what it seems.
	priorFindings, doubt = 0.001, 1.5
	// leastRaise is by how much a share must rise to be looked for, and mostUsual the
	// share from which on no rise is.
	leastRaise, mostUsual = 0.01, 0.9
	// raisedSum is the sum from which on the share is raised, and calmSum what the sum
	// then falls from until it is so no longer: some 300 answers without a finding.
	raisedSum, calmSum = 14, 3
	// maxLesson is how many findings are learnt from a raised share that is over. So what
	// comes and goes by chance is learnt, and what was a fault is not.
	maxLesson = 3
)

// integrity watches the findings in the answers of one endpoint and module. It needs no
// memory before the first one.
type integrity struct {
	answers uint64
	before  uint64 // answers that an earlier process inspected
	signs   *[numSigns]sign
}

// observe adds a result, if its answer was inspected.
func (g *integrity) observe(r *result.Result) {
	if !r.Inspected {
		return
	}
	g.answers++
	if g.signs == nil {
		if len(r.Integrity) == 0 {
			return
		}
		g.signs = new([numSigns]sign)
		for i := range g.signs {
			g.signs[i].usual.answers = float64(min(g.before+g.answers-1, maxAnswers))
		}
	}
	for i, finding := range result.Signs() {
		g.signs[i].observe(slices.Contains(r.Integrity, finding), r.Start)
	}
}

// found returns what is known; nil before the first finding.
func (g *integrity) found() *Integrity {
	if g.signs == nil {
		return nil
	}
	f := &Integrity{Answers: g.answers}
	for i := range g.signs {
		f.Signs[i] = g.signs[i].published()
	}
	return f
}

// sign watches one kind of finding.
type sign struct {
	count uint64
	usual share
	// sum is above 0 from a finding on until it proves to be chance. recent is the share
	// since then, and since the answer that it began with.
	sum    float64
	recent share
	since  time.Time
	raised bool
}

// share is how many of some answers had a finding; fractions remain of what faded.
type share struct{ found, answers float64 }

// add adds answers, and lets older ones fade.
func (s *share) add(more share) {
	s.found += more.found
	s.answers += more.answers
	if s.answers > maxAnswers {
		s.found *= maxAnswers / s.answers
		s.answers = maxAnswers
	}
}

// ratio returns the share; 0 of no answers.
func (s *share) ratio() float64 { return s.found / max(1, s.answers) }

// assumed returns a share that the usual one is hardly above.
func (s *share) assumed() float64 {
	return (s.found + doubt*math.Sqrt(s.found) + priorFindings) / (s.answers + 1)
}

// observe adds an answer.
func (s *sign) observe(found bool, at time.Time) {
	one := share{answers: 1}
	if found {
		s.count++
		one.found = 1
	}
	if s.usual.answers < minAnswers || s.sum == 0 && !found {
		s.usual.add(one)
		return
	}
	if s.sum == 0 {
		s.since, s.recent = at, share{}
	}
	s.recent.add(one)
	s.sum = max(0, s.sum+s.step(found))
	if s.raised {
		s.sum = min(s.sum, calmSum)
	}
	switch {
	case s.sum == 0 && s.raised: // it is over, and may have been chance in part
		s.raised = false
		s.usual.add(share{min(s.recent.found, maxLesson), s.recent.answers})
	case s.sum == 0: // it was chance
		s.usual.add(s.recent)
	case s.raised && s.recent.answers >= maxAnswers: // it is usual now
		*s = sign{count: s.count, usual: s.recent}
	case s.sum >= raisedSum:
		s.raised, s.sum = true, calmSum
	}
}

// step returns the logarithm of how much likelier it is at the raised share than at the
// usual one that an answer has a finding, or has none.
func (s *sign) step(found bool) float64 {
	usual := s.usual.assumed()
	if usual > mostUsual {
		return 0
	}
	raised := usual + (1-usual)*max(leastRaise, min(usual, 0.5))
	if found {
		return math.Log(raised / usual)
	}
	return math.Log((1 - raised) / (1 - usual))
}

// published returns what is known of the kind.
func (s *sign) published() Sign {
	p := Sign{Count: s.count, Usual: -1}
	if s.usual.answers >= minAnswers {
		p.Usual = s.usual.ratio()
	}
	if s.raised {
		p.Since, p.Seen, p.Looked = s.since, int(math.Round(s.recent.found)), int(math.Round(s.recent.answers))
	}
	return p
}
