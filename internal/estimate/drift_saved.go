package estimate

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"time"
)

// savedDrift is the JSON of a drift.
type savedDrift struct {
	Rerank bool        `json:"rerank,omitempty"`
	First  savedValues `json:"first"`
	Usual  savedValues `json:"usual,omitempty"` // nil where it is First
	Learnt int         `json:"learnt"`
	Noise  float64     `json:"noise"`
	Off    int         `json:"off,omitempty"`
	// Changed is when the latest change was found.
	Changed time.Time `json:"changed,omitzero"`
}

// savedValues are vectors of 32-bit floats, little-endian.
type savedValues [][]byte

func (s *state) saveDrift() any {
	d := s.drift
	if d == nil {
		return nil
	}
	j := savedDrift{Rerank: d.index == indexRerank, First: saveValues(d.first), Learnt: d.learnt, Noise: d.noise, Off: d.off, Changed: d.last}
	if &d.first[0] != &d.usual[0] {
		j.Usual = saveValues(d.usual)
	}
	return j
}

func (s *state) restoreDrift(data []byte) error {
	var j savedDrift
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	d := &drift{learnt: j.Learnt, noise: j.Noise, off: j.Off, last: j.Changed, index: indexEmbedding}
	if j.Rerank {
		d.index = indexRerank
	}
	d.first = restoreValues(j.First)
	d.usual = d.first
	if j.Usual != nil {
		d.usual = restoreValues(j.Usual)
	}
	learnt := 1 <= j.Learnt && j.Learnt <= driftLearn && 0 <= j.Off && j.Off < driftPatience && 0 <= j.Noise && j.Noise <= unsteady
	if d.first == nil || d.usual == nil || !learnt {
		return errors.New("vectors that no answers lead to")
	}
	s.drift = d
	return nil
}

func saveValues(values [][]float32) savedValues {
	all := make(savedValues, len(values))
	for i, v := range values {
		for _, f := range v {
			all[i] = binary.LittleEndian.AppendUint32(all[i], math.Float32bits(f))
		}
	}
	return all
}

// restoreValues returns nil where there is no vector, or one without numbers.
func restoreValues(saved savedValues) [][]float32 {
	var all [][]float32
	for _, b := range saved {
		if len(b) == 0 || len(b)%4 != 0 {
			return nil
		}
		v := make([]float32, len(b)/4)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		all = append(all, v)
	}
	return all
}
