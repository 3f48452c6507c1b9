package report

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/prober/check"
)

// document is a result in JSON. What was not measured or not reported is left
// out; names carry their unit. After a failure durations tell what happened
// until then.
type document struct {
	Time     time.Time      `json:"time"`
	Endpoint string         `json:"endpoint"`
	URL      string         `json:"url"`
	Module   string         `json:"module"`
	Outcome  result.Outcome `json:"outcome"`
	Error    string         `json:"error,omitempty"`
	Advice   string         `json:"advice,omitempty"`
	Status   int            `json:"http_status,omitempty"`
	API      string         `json:"api,omitempty"`
	Engine   string         `json:"engine,omitempty"`
	Model    string         `json:"model,omitempty"`
	Prefix   string         `json:"prefix"`

	Concurrency int       `json:"concurrency,omitempty"`
	Length      int       `json:"input_tokens,omitempty"`
	Sent        time.Time `json:"sent,omitzero"`

	TraceID string `json:"trace_id"`
	Finish  string `json:"finish_reason,omitempty"`

	TTFT     *float64            `json:"ttft_seconds,omitempty"`
	TTFO     *float64            `json:"ttfo_seconds,omitempty"`
	TPOT     *float64            `json:"tpot_seconds,omitempty"`
	Speed    *float64            `json:"output_tokens_per_second,omitempty"`
	MaxGap   *float64            `json:"max_gap_seconds,omitempty"`
	Duration *float64            `json:"duration_seconds,omitempty"`
	Phases   map[string]*float64 `json:"phase_seconds,omitempty"`

	Prompt    *int               `json:"prompt_tokens,omitempty"`
	Cached    *int               `json:"cached_prompt_tokens,omitempty"`
	Output    *int               `json:"output_tokens,omitempty"`
	Reasoning *int               `json:"reasoning_tokens,omitempty"`
	Source    result.TokenSource `json:"token_source,omitempty"`
	Vectors   *vectorsDocument   `json:"vectors,omitempty"`
	Answer    *answerDocument    `json:"answer,omitempty"`
	Logprob   *logprobDocument   `json:"logprob,omitempty"`
	Cost      *float64           `json:"cost_usd,omitempty"`

	Server      map[string]*float64 `json:"server_time_seconds,omitempty"`
	RateLimit   map[string]*int     `json:"rate_limit_remaining,omitempty"`
	RetryAfter  *float64            `json:"retry_after_seconds,omitempty"`
	Certificate time.Time           `json:"certificate_not_after,omitzero"`

	Clock       result.Clock    `json:"clock"`
	Merged      int             `json:"merged_events"`
	Reused      bool            `json:"connection_reused"`
	Buffered    bool            `json:"buffered"`
	Imprecise   bool            `json:"imprecise"`
	NoEndMarker bool            `json:"no_end_marker"`
	NoFinish    bool            `json:"no_finish_reason,omitempty"`
	MoreEvents  bool            `json:"more_events_than_tokens,omitempty"`
	Events      []eventDocument `json:"events,omitempty"`
}

// vectorsDocument is what an embedding or rerank endpoint answered.
type vectorsDocument struct {
	Items      int      `json:"items"`
	Dimensions *int     `json:"dimensions,omitempty"`
	Norm       *float64 `json:"mean_norm,omitempty"`
}

// answerDocument is what an answer came to, where it is looked at.
type answerDocument struct {
	Verdict     check.Verdict `json:"verdict,omitempty"`
	Prompt      string        `json:"prompt,omitempty"`
	Hash        string        `json:"hash,omitempty"`
	Model       string        `json:"model,omitempty"`
	Fingerprint string        `json:"system_fingerprint,omitempty"`
	Text        string        `json:"text,omitempty"`
}

// logprobDocument is the score of the reference passage.
type logprobDocument struct {
	Tokens int     `json:"tokens"`
	Mean   float64 `json:"mean"`
}

// eventDocument is a token-bearing event; at_seconds counts from the start.
type eventDocument struct {
	At        float64 `json:"at_seconds"`
	Tokens    int     `json:"tokens,omitempty"`
	Merged    bool    `json:"merged,omitempty"`
	Reasoning bool    `json:"reasoning,omitempty"`
}

// JSON writes one result as one line of JSON. The names of the fields are
// stable. Errors are those of w.
func JSON(w io.Writer, t Target, r *result.Result) error { return encode(w, Document(t, r)) }

// Document returns what JSON writes, for encoding/json.
func Document(t Target, r *result.Result) any { return newDocument(t, r) }

// DocumentWithoutEvents is Document of a result whose events are no longer kept;
// merged is how many of them were merged.
func DocumentWithoutEvents(t Target, r *result.Result, merged int) any {
	d := newDocument(t, r)
	d.Merged, d.Events = merged, nil
	return d
}

func newDocument(t Target, r *result.Result) *document {
	d := &document{
		Time: r.Start.UTC(), Endpoint: t.Endpoint, URL: t.URL, Module: t.Module,
		Outcome: r.Outcome, Advice: Advice(r.Outcome, r.Status, r.Err), Status: r.Status,
		API: r.API, Engine: r.Engine, Model: r.Model, Prefix: r.Prefix,
		Concurrency: r.Concurrency, Length: r.Length, Sent: r.Sent.UTC(),
		TraceID: hex.EncodeToString(r.TraceID[:]), Finish: r.Finish,
		RetryAfter: seconds(r.RetryAfter), Certificate: r.CertNotAfter.UTC(),
		Clock: r.Clock, Merged: r.MergedEvents(), Reused: r.Reused,
		Buffered: r.Buffered, Imprecise: r.Imprecise, NoEndMarker: r.NoEndMarker,
		NoFinish: r.NoFinish, MoreEvents: r.MoreEvents,
	}
	if r.Err != nil {
		d.Error = r.Err.Error()
	}
	d.setTiming(&r.Timing)
	d.setAmounts(r)
	d.setAnswer(r)
	if usd, ok := costOf(t.Price, r); ok {
		d.Cost = &usd
	}
	d.Server = present(map[string]*float64{
		"queue": seconds(r.Server.Queue), "prefill": seconds(r.Server.Prefill), "decode": seconds(r.Server.Decode),
	})
	d.RateLimit = present(map[string]*int{
		"requests": count(r.RateLimit.Requests), "tokens": count(r.RateLimit.Tokens),
	})
	for _, e := range r.Events {
		d.Events = append(d.Events, eventDocument{At: inSeconds(e.At), Tokens: e.Tokens, Merged: e.Merged, Reasoning: e.Reasoning})
	}
	return d
}

func (d *document) setTiming(t *result.Timing) {
	d.TTFT, d.TTFO, d.TPOT = seconds(t.TTFT), seconds(t.TTFO), seconds(t.TPOT)
	d.MaxGap, d.Duration = seconds(t.MaxGap), seconds(t.Duration)
	if t.TPOT > 0 {
		d.Speed = new(1 / inSeconds(t.TPOT))
	}
	phases := map[string]*float64{}
	for i, p := range t.Phases {
		phases[result.Phase(i).String()] = seconds(p)
	}
	d.Phases = present(phases)
}

func (d *document) setAmounts(r *result.Result) {
	t := &r.Tokens
	d.Prompt, d.Cached, d.Output, d.Reasoning = count(t.Prompt), count(t.Cached), count(t.Output), count(t.Reasoning)
	if t.Output >= 0 {
		d.Source = t.Source
	}
	if v := &r.Vectors; v.Items > 0 {
		d.Vectors = &vectorsDocument{Items: v.Items}
		if v.Dimensions > 0 {
			d.Vectors.Dimensions, d.Vectors.Norm = &v.Dimensions, &v.Norm
		}
	}
}

func (d *document) setAnswer(r *result.Result) {
	if r.Answer != (result.Answer{}) {
		a := answerDocument(r.Answer)
		d.Answer = &a
	}
	if r.Logprob.Tokens > 0 {
		s := logprobDocument(r.Logprob)
		d.Logprob = &s
	}
}

// seconds returns d, nil where it is absent.
func seconds(d time.Duration) *float64 {
	if d < 0 {
		return nil
	}
	return new(inSeconds(d))
}

// inSeconds is the nearest number to d in seconds, which prints with no more
// digits than d has; d.Seconds is a sum, and may be another one.
func inSeconds(d time.Duration) float64 { return float64(d) / 1e9 }

// count returns n, nil where it is unknown.
func count(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

// present drops what is nil.
func present[T any](m map[string]*T) map[string]*T {
	for name, v := range m {
		if v == nil {
			delete(m, name)
		}
	}
	return m
}

// encode writes v as one line.
func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
