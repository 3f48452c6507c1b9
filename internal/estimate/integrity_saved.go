package estimate

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// savedIntegrity is the JSON of integrity. Counters begin again, as others do.
type savedIntegrity struct {
	// Answers is how many were inspected, by earlier processes too.
	Answers uint64 `json:"answers"`
	// Signs are by finding; absent before the first.
	Signs map[result.Sign]savedSign `json:"signs,omitempty"`
}

// savedSign is the JSON of a sign.
type savedSign struct {
	Usual  savedShare `json:"usual"`
	Recent savedShare `json:"recent"`
	Sum    float64    `json:"sum,omitempty"`
	Since  time.Time  `json:"since,omitzero"`
	Raised bool       `json:"raised,omitempty"`
}

// savedShare is the JSON of a share.
type savedShare struct {
	Found   float64 `json:"found"`
	Answers float64 `json:"answers"`
}

func (s *share) saved() savedShare { return savedShare{s.found, s.answers} }

func (s savedShare) share() share { return share{s.Found, s.Answers} }

func (s savedShare) isSane() bool {
	return 0 <= s.Found && s.Found <= s.Answers && s.Answers <= maxAnswers+1
}

func (g *integrity) save() any {
	if g.before+g.answers == 0 {
		return nil
	}
	j := savedIntegrity{Answers: g.before + g.answers}
	if g.signs != nil {
		j.Signs = map[result.Sign]savedSign{}
		for i, finding := range result.Signs() {
			s := &g.signs[i]
			j.Signs[finding] = savedSign{s.usual.saved(), s.recent.saved(), s.sum, s.since, s.raised}
		}
	}
	return j
}

// restore takes up what was learned. A finding that this version does not know is left
// out, and one that the earlier one did not know is learned.
func (g *integrity) restore(data []byte) error {
	var j savedIntegrity
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	next := integrity{before: j.Answers}
	if len(j.Signs) > 0 {
		next.signs = new([numSigns]sign)
	}
	for i, finding := range result.Signs() {
		s, ok := j.Signs[finding]
		if !ok {
			continue
		}
		if !s.Usual.isSane() || !s.Recent.isSane() || s.Sum < 0 || s.Sum > raisedSum || s.Raised && s.Sum > calmSum {
			return errors.New("shares that no answers have")
		}
		next.signs[i] = sign{usual: s.Usual.share(), recent: s.Recent.share(), sum: s.Sum, since: s.Since, raised: s.Raised}
	}
	*g = next
	return nil
}
