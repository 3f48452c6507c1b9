package result

import (
	_ "embed"
	"slices"
	"sync"

	"github.com/inference-exporter/inference_exporter/internal/asset"
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
	var file struct {
		Outcomes, Skips, Signs []struct{ Value, Text, Advice string }
		Statuses               map[string]string
	}
	asset.Decode("words.yml", wordsFile, &file)
	w := &wordList{texts: map[string]string{}, advice: map[string]string{}, statuses: file.Statuses}
	for _, v := range slices.Concat(file.Outcomes, file.Skips, file.Signs) {
		w.texts[v.Value], w.advice[v.Value] = v.Text, v.Advice
	}
	for _, v := range file.Outcomes {
		w.outcomes = append(w.outcomes, Outcome(v.Value))
	}
	for _, v := range file.Skips {
		w.skips = append(w.skips, SkipReason(v.Value))
	}
	for _, v := range file.Signs {
		w.signs = append(w.signs, Sign(v.Value))
	}
	return w
})
