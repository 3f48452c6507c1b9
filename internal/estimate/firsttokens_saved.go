package estimate

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// savedFirstTokens is the JSON of firstTokens. Counters begin again, as others do.
type savedFirstTokens struct {
	// Samples are the answers one after the other, as encoding/binary has them: some
	// 50 bytes each.
	Samples []byte       `json:"samples"`
	Fresh   int          `json:"fresh"`
	Changed [2]time.Time `json:"changed"`
}

// saveFirst returns what is kept of the first tokens; nil is nothing.
func (s *state) saveFirst() any {
	if s.first == nil {
		return nil
	}
	return s.first.save()
}

// restoreFirst takes up what saveFirst returned.
func (s *state) restoreFirst(data []byte) error {
	next := &firstTokens{window: s.window}
	if err := next.restore(data); err != nil {
		return err
	}
	s.first = next
	return nil
}

func (f *firstTokens) save() any {
	if len(f.samples) == 0 {
		return nil
	}
	samples, err := binary.Append(nil, binary.LittleEndian, f.samples)
	if err != nil {
		return nil // cannot happen: the size is fixed
	}
	return savedFirstTokens{samples, f.fresh, f.last}
}

func (f *firstTokens) restore(data []byte) error {
	var j savedFirstTokens
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	size := binary.Size(firstToken{})
	n := len(j.Samples) / size
	if n*size != len(j.Samples) || n > f.window*(1+referenceWindows) || j.Fresh < 0 || j.Fresh > f.window/testsPerWindow+n {
		return errors.New("not as many answers as can be")
	}
	samples := make([]firstToken, n)
	if _, err := binary.Decode(j.Samples, binary.LittleEndian, samples); err != nil {
		return fmt.Errorf("decode answers: %w", err)
	}
	next := firstTokens{window: f.window, samples: samples, fresh: j.Fresh, last: j.Changed}
	for i := range samples {
		if !samples[i].isSane() {
			return errors.New("log-probabilities that no answer has")
		}
		next.seen[kind(samples[i].N > 0)] = true
	}
	*f = next
	return nil
}

// isSane reports whether there may be such an answer.
func (f *firstToken) isSane() bool {
	if f.N > keptTokens {
		return false
	}
	for _, p := range f.Logprobs {
		if math.IsNaN(float64(p)) || math.Abs(float64(p)) > maxSavedScore*10 {
			return false
		}
	}
	return true
}
