package result

import (
	_ "embed"
	"slices"
	"sync"

	"github.com/inference-exporter/inference_exporter/internal/asset"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

//go:embed words.yml
var wordsFile []byte

// wordList is words.yml: the closed sets in their order, and the texts of their values.
type wordList struct {
	outcomes []Outcome
	skips    []SkipReason
	signs    []Sign

	texts, advice map[string]string // by value
	statuses      map[string]string // advice by HTTP status, or class as in 5xx
}

var words = sync.OnceValue(func() *wordList {
	type word struct{ Value, Text, Advice string }
	var file struct {
		Outcomes, Skips, Signs []word
		Statuses               map[string]string
	}
	asset.Decode("words.yml", wordsFile, &file)
	w := &wordList{texts: map[string]string{}, advice: map[string]string{}, statuses: file.Statuses}
	for _, v := range slices.Concat(file.Outcomes, file.Skips, file.Signs) {
		w.texts[v.Value], w.advice[v.Value] = v.Text, v.Advice
	}
	w.outcomes = stats.Map(file.Outcomes, func(v word) Outcome { return Outcome(v.Value) })
	w.skips = stats.Map(file.Skips, func(v word) SkipReason { return SkipReason(v.Value) })
	w.signs = stats.Map(file.Signs, func(v word) Sign { return Sign(v.Value) })
	return w
})
