package simulator

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
)

// weights is what may change about the model while it is served; see Options.
// It is never changed once published.
type weights struct {
	version string
	shift   float64
	quality float64
}

// fingerprint is what the replies tell of the weights; "" is nothing.
func (w *weights) fingerprint() string {
	if w.version == "" {
		return ""
	}
	return fmt.Sprintf("fp_%010x", hashText("fingerprint", w.version)>>24)
}

// voice decides the order of the words of an answer to the text; 0 is to count.
func (w *weights) voice(text string) uint64 {
	if w.version == "" {
		return 0
	}
	return hashText("voice", w.version, text) | 1
}

// SetWeights changes Options.WeightsVersion, LogprobShift and Quality while the
// server runs. Requests that have arrived end with what was. quality is from 0
// to 1, and 0 is none.
func (s *Server) SetWeights(version string, logprobShift, quality float64) {
	s.weights.Store(&weights{version, logprobShift, quality})
}

// setWeights is POST /simulator/weights?version=&shift=&quality=; what is left
// out stays as it is.
func (s *Server) setWeights(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	next := *s.weights.Load()
	if q.Has("version") {
		next.version = q.Get("version")
	}
	for name, p := range map[string]*float64{"shift": &next.shift, "quality": &next.quality} {
		if !q.Has(name) {
			continue
		}
		var err error
		if *p, err = strconv.ParseFloat(q.Get(name), 64); err != nil || math.IsNaN(*p) || math.IsInf(*p, 0) {
			http.Error(w, name+" must be a number", http.StatusBadRequest)
			return
		}
	}
	if next.quality < 0 || next.quality > 1 {
		http.Error(w, "quality must be from 0 to 1", http.StatusBadRequest)
		return
	}
	s.SetWeights(next.version, next.shift, next.quality)
	w.WriteHeader(http.StatusNoContent)
}
