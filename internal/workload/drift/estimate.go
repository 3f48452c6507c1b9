// Package drift is the workload of what should stay the same: fixed prompts, the first tokens
// of answers, the score of a passage, the vectors or scores of texts, and what replies say of
// their model. It finds when that has changed.
package drift

import (
	"cmp"
	"math"
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
			{
				Key: "reference_logprob", New: func(*config.Module) (workload.Source, error) { return referenceSource{}, nil },
				Answers: true, Scores: true, Tokens: workload.Short,
			},
			{
				Key: "track_model", New: func(m *config.Module) (workload.Source, error) { return newTrackSource(m), nil },
				Answers: true, Tokens: func(*config.Module, func(string) int) int { return 1 + workload.TemplateTokens },
			},
			{
				Key: "reference_texts", New: func(*config.Module) (workload.Source, error) { return textsSource{}, nil },
				Texts: true, Tokens: func(_ *config.Module, count func(string) int) (n int) {
					for _, text := range ReferenceTexts() {
						n += count(ReferenceQuery + text)
					}
					return n
				},
			},
		},
		Estimate: estimateOf, Metrics: metrics,
	}
}

func estimateOf(_ *config.Endpoint, m *config.Module) workload.Estimate {
	if !m.WatchesModel() {
		return nil
	}
	return &Estimate{window: m.TrackedAnswers()}
}

// Source is what was watched for a change. The set is closed: it is a label
// value.
type Source string

// The sources.
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
	// Changes counts the changes by index in Sources, and LastChange are their
	// times; Watched marks the sources that have anything to watch.
	Changes    [numSources]uint64
	LastChange [numSources]time.Time
	Watched    [numSources]bool
	// Logprob is the latest mean log-probability of the reference passage, in
	// nats per token.
	Logprob *float64
	// Shift is the latest comparison of the first tokens of answers.
	Shift *Shift
	// Drift compares the latest answer to the reference texts with the first.
	Drift *Drift
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
	f := &Finding{Logprob: e.score.latest}
	for i := range e.named {
		c := &e.named[i]
		f.Changes[i], f.LastChange[i], f.Watched[i] = c.count, c.last, c.prompts != nil
	}
	f.Changes[indexLogprob], f.LastChange[indexLogprob] = e.score.count, e.score.last
	f.Watched[indexLogprob] = e.score.latest != nil
	if e.first != nil {
		e.first.findings(f)
	}
	if d := e.drift; d != nil {
		f.Drift = d.latest
		f.Changes[d.index], f.LastChange[d.index], f.Watched[d.index] = d.count, d.last, true
	}
	if f.Watched == [numSources]bool{} {
		return nil
	}
	return f
}

// Learned implements workload.Learner.
func (e *Estimate) Learned() []workload.Learned {
	return []workload.Learned{
		{Part: "logprob", Version: 1, Save: e.score.save, Restore: e.score.restore},
		{Part: "first_token", Version: 1, Save: e.saveFirst, Restore: e.restoreFirst},
		{Part: "drift", Version: 1, Save: e.saveDrift, Restore: e.restoreDrift},
	}
}

// document is a Finding in JSON.
type document struct {
	Logprob *float64 `json:"reference_logprob,omitempty"`
	// LogprobShift and FirstTokenVariation are Shift, of one kind or the other.
	LogprobShift        *float64          `json:"first_token_logprob_shift,omitempty"`
	FirstTokenVariation *float64          `json:"first_token_variation_ratio,omitempty"`
	Drift               *driftDocument    `json:"drift,omitempty"`
	Changes             map[Source]uint64 `json:"changes,omitempty"`
}

// driftDocument is a Drift in JSON.
type driftDocument struct {
	Similarity *float64 `json:"embedding_cosine_similarity,omitempty"`
	Order      *float64 `json:"rerank_order_correlation,omitempty"`
	Distance   *float64 `json:"reference_distance_ratio,omitempty"`
}

// Document implements workload.Finding.
func (f *Finding) Document() any {
	d := document{Logprob: f.Logprob, Drift: (*driftDocument)(f.Drift), Changes: map[Source]uint64{}}
	if s := f.Shift; s != nil && s.Scored {
		d.LogprobShift = &s.Value
	} else if s != nil {
		d.FirstTokenVariation = &s.Value
	}
	for i, source := range Sources() {
		if f.Changes[i] > 0 {
			d.Changes[source] = f.Changes[i]
		}
	}
	return d
}

// Lines implements workload.Finding.
func (f *Finding) Lines(add func(label, format string, args ...any)) {
	if s := f.Shift; s != nil && s.Scored {
		add("first tokens", "log-probabilities %.4f nats from those before, beyond chance", s.Value)
	} else if s != nil {
		add("first tokens", "%.1f %% are others than before, beyond chance", s.Value*100)
	}
	if f.Logprob != nil {
		add("reference", "mean log-probability %.4f nats", *f.Logprob)
	}
	for i, source := range Sources() {
		if n := f.Changes[i]; n > 0 {
			times := "times"
			if n == 1 {
				times = "time"
			}
			add("changed", "%s, %d %s", strings.ReplaceAll(string(source), "_", " "), n, times)
		}
	}
}

// News implements workload.News: model fingerprint changed.
func (f *Finding) News(before workload.Finding, model string) (all []workload.Line) {
	var was Finding
	if before != nil {
		was = *before.(*Finding)
	}
	for i, source := range Sources() {
		if f.Changes[i] > was.Changes[i] {
			all = append(all, workload.Line{
				Warn: true, Message: "model fingerprint changed", Note: "model fingerprint changed: " + string(source), Args: []any{"source", string(source), "model", model},
			})
		}
	}
	return all
}

func metrics() []workload.Metric {
	shift := func(name, unit, help string, scored bool) workload.Metric {
		return workload.Metric{Name: "first_token_" + name, Unit: unit, Help: help, Value: workload.Of(func(f *Finding, _ int) float64 {
			if f.Shift == nil || f.Shift.Scored != scored {
				return math.NaN()
			}
			return f.Shift.Value
		})}
	}
	drift := func(name, unit, help string, get func(d *Drift) *float64) workload.Metric {
		return workload.Metric{Name: name, Unit: unit, Help: help, Value: workload.Of(func(f *Finding, _ int) float64 {
			if f.Drift == nil {
				return math.NaN()
			}
			return workload.Known(get(f.Drift))
		})}
	}
	source := func(name, unit, help string, get func(f *Finding, i int) float64) workload.Metric {
		return workload.Metric{
			Name: "fingerprint_" + name, Unit: unit, Help: help, Label: "source", Values: workload.Texts(Sources()),
			Value: workload.Of(func(f *Finding, i int) float64 {
				if !f.Watched[i] {
					return math.NaN()
				}
				return get(f, i)
			}),
		}
	}
	return []workload.Metric{
		shift("logprob_shift", "", "Difference in nats between the log-probabilities of the first tokens of the latest 96 answers and those before them, beyond what chance explains: the mean over prompts and tokens. About 0 for the same model. Only for modules with track_model, where replies have log-probabilities.", true),
		shift("variation_ratio", "ratio", "Total variation between the first tokens of a day's answers, the latest 96 to 480, and those before them, beyond what chance explains: the ratio of answers that begin differently, as the mean over prompts. About 0 for the same model. Only for modules with track_model, where replies have no log-probabilities.", false),
		{
			Name: "reference_logprob", Help: "Mean log-probability in nats per token that the model assigned to the reference passage in the latest probe. It is constant for the same model with the same weights and arithmetic. Only for modules with reference_logprob.",
			Value: workload.Of(func(f *Finding, _ int) float64 { return workload.Known(f.Logprob) }),
		},
		source("changes_total", "", "Changes of properties that should be constant: the answer to a fixed prompt (answer), the system (system_fingerprint) or the model (model) named in the reply, the score of the reference passage (logprob), of answers to prompts of one word the first tokens (first_token) or their log-probabilities (first_token_logprob), and the vectors (embedding) or scores (rerank) of the reference texts. Absent for sources that the endpoint does not provide.", func(f *Finding, i int) float64 { return float64(f.Changes[i]) }),
		source("last_change_timestamp_seconds", "seconds", "Unix time of the latest change counted by inference_probe_fingerprint_changes_total. Absent before the first change.", func(f *Finding, i int) float64 { return workload.Unix(f.LastChange[i]) }),
		drift("embedding_cosine_similarity", "", "Cosine similarity between the vectors that the endpoint returns for the reference texts and those it returned at first; the lowest of the texts. 1 is the same direction. Absent after a failure and if the vectors have another length than at first. Only for modules with reference_texts at endpoints that embed.", func(d *Drift) *float64 { return d.Similarity }),
		drift("rerank_order_correlation", "", "Rank correlation (Kendall's tau-b) between the scores of the reference texts and the first ones: 1 is the same order, -1 the reverse. Absent after a failure. Only for modules with reference_texts at endpoints that rank.", func(d *Drift) *float64 { return d.Order }),
		drift("reference_distance_ratio", "ratio", "Euclidean distance of the vectors of the reference texts, or of the list of their scores, from the first ones, divided by the norm of the first; the largest of the texts. Unlike the cosine it grows with another norm. Absent after a failure and if the vectors have another length than at first. Only for modules with reference_texts.", func(d *Drift) *float64 { return d.Distance }),
	}
}
