// Package drift is the workload of what should stay the same: fixed prompts, the first tokens of answers, the score of
// a passage, the vectors or scores of texts, and what replies say of their model. It finds when that has changed.
package drift

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// Workload returns the workload.
func Workload() workload.Workload {
	return workload.Workload{
		Kinds: []workload.Kind{
			{Key: "reference_logprob", New: newReferenceSource, Answers: true, Scores: true, Tokens: workload.Short},
			{
				Key: "track_model", New: func(_ *config.Endpoint, m *config.Module) (workload.Source, error) {
					return newTrackSource(m.TrackedAnswers() / asksPerDay), nil
				},
				Answers: true, Tokens: func(*config.Module, func(string) int) int { return 1 + workload.TemplateTokens },
			},
			{
				Key: "reference_texts", New: newTextsSource, Texts: true, Tokens: func(_ *config.Module, count func(string) int) (n int) {
					for _, text := range Reference().Texts {
						n += count(Reference().Query + text)
					}
					return n
				},
			},
		},
		Estimate: estimateOf, Finding: new(Finding), Metrics: metrics,
	}
}

func estimateOf(_ *config.Endpoint, m *config.Module) workload.Estimate {
	if !m.WatchesModel() {
		return nil
	}
	return &Estimate{window: m.TrackedAnswers()}
}

// Source is what was watched for a change. The set is closed: it is a label value.
type Source string

const (
	SourceAnswer      Source = "answer"             // the text of the answer to a fixed prompt
	SourceFingerprint Source = "system_fingerprint" // the system as the reply names it
	SourceModel       Source = "model"              // the model as the reply names it
	SourceLogprob     Source = "logprob"            // the score of the reference passage
	// The first tokens of answers to prompts of one word.
	SourceFirstToken        Source = "first_token"
	SourceFirstTokenLogprob Source = "first_token_logprob" // their log-probabilities
	SourceEmbedding         Source = "embedding"           // the vectors of the reference texts
	SourceRerank            Source = "rerank"              // the scores of the reference texts
)

// Sources lists the closed set.
func Sources() []Source {
	return []Source{SourceAnswer, SourceFingerprint, SourceModel, SourceLogprob, SourceFirstToken, SourceFirstTokenLogprob, SourceEmbedding, SourceRerank}
}

// Finding is what is known of changes; nil is not known.
type Finding struct {
	// Logprob is the latest mean log-probability of the reference passage, in nats per token.
	Logprob *float64 `json:"reference_logprob,omitempty"`
	// Shift is the latest comparison of the first tokens of answers.
	Shift
	// Drift compares the latest answer to the reference texts with the first.
	Drift *Drift `json:"drift,omitempty"`
	// Changes counts the changes, of sources with any. LastChange are their times by index
	// in Sources; Watched marks the sources that have anything to watch.
	Changes    map[Source]uint64     `json:"changes,omitempty"`
	LastChange [numSources]time.Time `json:"-"`
	Watched    [numSources]bool      `json:"-"`
	// Scores is that the scores of the reference passage are others than usual; nil while they are not.
	Scores *Change `json:"-"`
}

// watch adds what a watched source came to.
func (f *Finding) watch(index int, changes uint64, last time.Time) {
	f.LastChange[index], f.Watched[index] = last, true
	if changes > 0 {
		f.Changes[Sources()[index]] = changes
	}
}

// Estimate watches for changes.
type Estimate struct {
	window int               // of firstTokens
	named  [numNamed]changes // by index in Sources
	score  score
	first  *firstTokens // nil until there is one
	drift  *drift       // nil until there is an answer to the reference texts
}

// Observe implements workload.Estimate.
func (e *Estimate) Observe(results []*result.Result, now time.Time) {
	for _, r := range results {
		if r.Outcome != result.Canceled {
			e.observe(r, now)
		}
	}
}

func (e *Estimate) observe(r *result.Result, now time.Time) {
	e.score.observe(r, now)
	if r.First != nil {
		e.first = cmp.Or(e.first, &firstTokens{window: e.window})
		e.first.observe(r, now)
	}
	e.observeDrift(r, now)
	a := &r.Answer
	e.named[indexAnswer].observe(a.Prompt, a.Hash, answerRule(), now)
	e.named[indexFingerprint].observe("", a.Fingerprint, nameRule(), now)
	e.named[indexModel].observe("", a.Model, nameRule(), now)
}

// Finding implements workload.Estimate.
func (e *Estimate) Finding(time.Time) workload.Finding {
	f := &Finding{Logprob: e.score.latest, Scores: e.score.change(), Changes: map[Source]uint64{}}
	for i := range e.named {
		if c := &e.named[i]; c.prompts != nil {
			f.watch(i, c.count, c.last)
		}
	}
	f.watch(indexLogprob, e.score.count, e.score.Changed)
	f.Watched[indexLogprob] = e.score.latest != nil
	if e.first != nil {
		e.first.findings(f)
	}
	if d := e.drift; d != nil {
		f.Drift = d.latest
		f.watch(d.index, d.count, d.last)
	}
	if f.Watched == [numSources]bool{} && f.Scores == nil {
		return nil
	}
	return f
}

// Learned implements workload.Learner.
func (e *Estimate) Learned() []workload.Learned {
	return []workload.Learned{
		{Part: "logprob", Version: 1, Save: e.score.save, Restore: workload.Decoded(e.score.restore)},
		{Part: "first_token", Version: 1, Save: e.saveFirst, Restore: workload.Decoded(e.restoreFirst)},
		{Part: "drift", Version: 1, Save: e.saveDrift, Restore: workload.Decoded(e.restoreDrift)},
	}
}

// Figures implements workload.Finding.
func (f *Finding) Figures() (all []workload.Figure) {
	add := func(label, value, note string) {
		all = append(all, workload.Figure{Label: label, Value: value, Note: note})
	}
	if f.Logprobs != nil {
		add("first tokens", fmt.Sprintf("%.4f nats", *f.Logprobs), "from the log-probabilities before, beyond chance")
	}
	if f.Variation != nil {
		add("first tokens", fmt.Sprintf("%.1f %%", *f.Variation*100), "are others than before, beyond chance")
	}
	if f.Logprob != nil {
		add("reference", fmt.Sprintf("%.4f nats", *f.Logprob), "mean log-probability")
	}
	if f.Drift != nil && f.Drift.Distance != nil {
		add("distance", fmt.Sprintf("%.1f %%", *f.Drift.Distance*100), "from the first vectors or scores of the reference texts")
	}
	for _, source := range Sources() {
		if n := f.Changes[source]; n > 0 {
			times := "times"
			if n == 1 {
				times = "time"
			}
			add("changed", strings.ReplaceAll(string(source), "_", " ")+",", fmt.Sprintf("%d %s", n, times))
		}
	}
	return all
}

// News implements workload.News: model fingerprint changed.
func (f *Finding) News(before workload.Finding, model string) (all []workload.Line) {
	var was Finding
	if before != nil {
		was = *before.(*Finding)
	}
	for _, source := range Sources() {
		if f.Changes[source] > was.Changes[source] {
			all = append(all, workload.Line{
				Warn: true, Message: "model fingerprint changed", Note: "model fingerprint changed: " + string(source), Args: []any{"source", string(source), "model", model},
			})
		}
	}
	return all
}

func metrics() []workload.Metric {
	known := func(name, unit, help string, get func(f *Finding) *float64) workload.Metric {
		return workload.One(name, unit, help, func(f *Finding) float64 { return workload.Known(get(f)) })
	}
	drift := func(name, unit, help string, get func(d *Drift) *float64) workload.Metric {
		return workload.One(name, unit, help, func(f *Finding) float64 {
			return workload.Part(f.Drift, func(d *Drift) float64 { return workload.Known(get(d)) })
		})
	}
	source := func(name, unit, help string, get func(f *Finding, i int) float64) workload.Metric {
		return workload.Metric{
			Name: "identity_" + name, Unit: unit, Help: help, Label: "source", Values: config.Texts(Sources()),
			Value: workload.Of(func(f *Finding, i int) float64 { return workload.If(f.Watched[i], get(f, i)) }),
		}
	}
	return []workload.Metric{
		known("first_token_logprob_shift", "", "Difference in nats between the log-probabilities of the first tokens of the latest 96 answers and those before them, beyond what chance explains: the mean over prompts and tokens. About 0 for the same model. Only for modules with track_model, where replies have log-probabilities.", func(f *Finding) *float64 { return f.Logprobs }),
		known("first_token_variation_ratio", "ratio", "Total variation between the first tokens of a day's answers, the latest 96 to 480, and those before them, beyond what chance explains: the ratio of answers that begin differently, as the mean over prompts. About 0 for the same model. Only for modules with track_model, where replies have no log-probabilities.", func(f *Finding) *float64 { return f.Variation }),
		known("reference_logprob", "", "Mean log-probability in nats per token that the model assigned to the reference passage in the latest probe. It is constant for the same model with the same weights and arithmetic. Only for modules with reference_logprob.", func(f *Finding) *float64 { return f.Logprob }),
		source("changes_total", "", "Changes of properties that should be constant, by source: the answer to a fixed prompt, the system_fingerprint or the model in the reply, the score of the reference passage (logprob), the first_token of answers or its log-probabilities (first_token_logprob), the vectors (embedding) or scores (rerank) of the reference texts. Absent for sources that the endpoint does not provide.", func(f *Finding, i int) float64 { return float64(f.Changes[Sources()[i]]) }),
		source("last_change_timestamp_seconds", "seconds", "Unix time of the latest change counted by inference_probe_identity_changes_total. Absent before the first change.", func(f *Finding, i int) float64 { return workload.Unix(f.LastChange[i]) }),
		drift("embedding_cosine_similarity", "", "Cosine similarity between the vectors that the endpoint returns for the reference texts and those it returned at first; the lowest of the texts. 1 is the same direction. Absent after a failure and if the vectors have another length than at first. Only for modules with reference_texts at endpoints that embed.", func(d *Drift) *float64 { return d.Similarity }),
		drift("rerank_order_correlation", "", "Rank correlation (Kendall's tau-b) between the scores of the reference texts and the first ones: 1 is the same order, -1 the reverse. Absent after a failure. Only for modules with reference_texts at endpoints that rank.", func(d *Drift) *float64 { return d.Order }),
		drift("reference_distance_ratio", "ratio", "Euclidean distance of the vectors or scores of the reference texts from the first ones, divided by the norm of the first; the largest of the texts. Absent after a failure and if the vectors have another length than at first. Only for modules with reference_texts.", func(d *Drift) *float64 { return d.Distance }),
	}
}
