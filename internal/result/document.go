package result

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Target is what was probed, in the words of the configuration.
type Target struct {
	// Endpoint is the endpoint's name, URL where it is.
	Endpoint, URL string
	// Module is the name of the module.
	Module string
	// Price is what tokens cost there; nil is not known.
	Price *config.Price
}

// Cost returns what the tokens cost in US dollars, by the server's counts; false where tokens have no price or were not
// counted. Prompt tokens that are not known to come from the cache have the full price.
func (r *Result) Cost(price *config.Price) (usd float64, ok bool) {
	t := &r.Tokens
	if !price.PerToken() || t.Prompt < 0 {
		return 0, false
	}
	return price.At(r.Start).USD(t.Prompt, t.Cached, max(0, t.Output)), true
}

// Document is a result in JSON. What was not measured or not reported is left out; names carry their unit. After a
// failure the durations are those until then.
type Document struct {
	Time     time.Time `json:"time"`
	Endpoint string    `json:"endpoint"`
	URL      string    `json:"url"`
	Module   string    `json:"module"`
	Outcome  Outcome   `json:"outcome"`
	Error    string    `json:"error,omitempty"`
	Advice   string    `json:"advice,omitempty"`
	Status   int       `json:"http_status,omitempty"`
	API      string    `json:"api,omitempty"`
	Engine   string    `json:"engine,omitempty"`
	Model    string    `json:"model,omitempty"`
	Prefix   string    `json:"prefix"`

	Concurrency int       `json:"concurrency,omitempty"`
	Length      int       `json:"input_tokens,omitempty"`
	Turn        *Turn     `json:"turn,omitempty"`
	Sent        time.Time `json:"sent,omitzero"`

	TraceID string `json:"trace_id"`
	Finish  string `json:"finish_reason,omitempty"`

	TTFT     *float64            `json:"ttft_seconds,omitempty"`
	TTFO     *float64            `json:"ttfo_seconds,omitempty"`
	TPOT     *float64            `json:"tpot_seconds,omitempty"`
	Speed    *float64            `json:"output_tokens_per_second,omitempty"`
	TextRate *float64            `json:"output_characters_per_second,omitempty"`
	MaxGap   *float64            `json:"max_gap_seconds,omitempty"`
	Duration *float64            `json:"duration_seconds,omitempty"`
	Stall    *DocumentStall      `json:"stall,omitempty"`
	Phases   map[string]*float64 `json:"phase_seconds,omitempty"`

	Prompt    *int             `json:"prompt_tokens,omitempty"`
	Cached    *int             `json:"cached_prompt_tokens,omitempty"`
	Output    *int             `json:"output_tokens,omitempty"`
	Reasoning *int             `json:"reasoning_tokens,omitempty"`
	Source    TokenSource      `json:"token_source,omitempty"`
	PerEvent  *float64         `json:"tokens_per_event,omitempty"`
	Vectors   *DocumentVectors `json:"vectors,omitempty"`
	Answer    *Answer          `json:"answer,omitempty"`
	Call      *DocumentCall    `json:"call,omitempty"`
	Logprob   *Logprob         `json:"logprob,omitempty"`
	Cost      *float64         `json:"cost_usd,omitempty"`

	Server      map[string]*float64 `json:"server_time_seconds,omitempty"`
	RateLimit   map[string]*int     `json:"rate_limit_remaining,omitempty"`
	RetryAfter  *float64            `json:"retry_after_seconds,omitempty"`
	Certificate time.Time           `json:"certificate_not_after,omitzero"`
	Retires     time.Time           `json:"retires,omitzero"`
	Deprecated  time.Time           `json:"deprecated,omitzero"`

	Clock       Clock           `json:"clock"`
	Merged      int             `json:"merged_events"`
	Reused      bool            `json:"connection_reused"`
	Buffered    bool            `json:"buffered"`
	Imprecise   bool            `json:"imprecise"`
	NoEndMarker bool            `json:"no_end_marker"`
	NoFinish    bool            `json:"no_finish_reason,omitempty"`
	MoreEvents  bool            `json:"more_events_than_tokens,omitempty"`
	CapIgnored  bool            `json:"max_tokens_ignored,omitempty"`
	Integrity   []Sign          `json:"integrity,omitempty"`
	Events      []DocumentEvent `json:"events,omitempty"`

	Beside []*Document `json:"beside,omitempty"`
}

// DocumentStall is the longest silence that was judged; at_seconds counts from the start.
type DocumentStall struct {
	Side     Side     `json:"side"`
	At       float64  `json:"at_seconds"`
	Duration float64  `json:"seconds"`
	Samples  int      `json:"samples"`
	Evidence []string `json:"evidence"`
}

// DocumentVectors is what an embedding or rerank endpoint answered.
type DocumentVectors struct {
	Items      int      `json:"items"`
	Dimensions *int     `json:"dimensions,omitempty"`
	Norm       *float64 `json:"mean_norm,omitempty"`
}

// DocumentCall is when a call of a function came.
type DocumentCall struct {
	FirstArgument float64 `json:"first_argument_seconds"`
	Complete      float64 `json:"complete_seconds"`
}

// DocumentEvent is a token-bearing event; at_seconds counts from the start.
type DocumentEvent struct {
	At        float64 `json:"at_seconds"`
	Tokens    int     `json:"tokens,omitempty"`
	Merged    bool    `json:"merged,omitempty"`
	Reasoning bool    `json:"reasoning,omitempty"`
}

// NewDocument returns the document of a result, which must not be changed afterwards.
func NewDocument(t Target, r *Result) *Document {
	d := &Document{
		Time: r.Start.UTC(), Endpoint: t.Endpoint, URL: t.URL, Module: t.Module,
		Outcome: r.Outcome, Advice: r.Advice(), Status: r.Status,
		API: r.API, Engine: r.Engine, Model: r.Model, Prefix: r.Prefix,
		Concurrency: r.Concurrency, Length: r.Length, Sent: r.Sent.UTC(),
		Turn:    r.Turn,
		TraceID: hex.EncodeToString(r.TraceID[:]), Finish: r.Finish,
		RetryAfter: Seconds(r.RetryAfter), Certificate: r.CertNotAfter.UTC(),
		Clock: r.Clock, Merged: r.MergedEvents(), Reused: r.Reused,
		Buffered: r.Buffered, Imprecise: r.Imprecise, NoEndMarker: r.NoEndMarker,
		NoFinish: r.NoFinish, MoreEvents: r.MoreEvents, CapIgnored: r.MaxTokensIgnored, Integrity: r.Integrity,
	}
	d.Retires, d.Deprecated = DateOf(r.Retirement.End()), DateOf(r.Retirement.Deprecated)
	if r.Err != nil {
		d.Error = r.Err.Error()
	}
	d.setTiming(&r.Timing)
	if s := r.Stall; s != nil {
		d.Stall = &DocumentStall{s.Side, inSeconds(s.At), inSeconds(s.Duration), s.Samples, s.Evidence}
	}
	d.setAmounts(r)
	if r.Answer != (Answer{}) {
		d.Answer = &r.Answer
	}
	if r.Call != (Call{}) {
		d.Call = &DocumentCall{inSeconds(r.Call.FirstArgument), inSeconds(r.Call.Complete)}
	}
	if r.Logprob.Tokens > 0 {
		d.Logprob = &r.Logprob
	}
	if usd, ok := r.Cost(t.Price); ok {
		d.Cost = &usd
	}
	d.Server = present(map[string]*float64{
		"queue": Seconds(r.Server.Queue), "prefill": Seconds(r.Server.Prefill), "decode": Seconds(r.Server.Decode),
	})
	d.RateLimit = present(map[string]*int{
		"requests": count(r.RateLimit.Requests), "tokens": count(r.RateLimit.Tokens),
	})
	d.Beside = stats.Map(r.Beside, func(b *Result) *Document { return NewDocument(t, b) })
	d.Events = stats.Map(r.Events, func(e Event) DocumentEvent {
		return DocumentEvent{At: inSeconds(e.At), Tokens: e.Tokens, Merged: e.Merged, Reasoning: e.Reasoning}
	})
	return d
}

func (d *Document) setTiming(t *Timing) {
	d.TTFT, d.TTFO, d.TPOT = Seconds(t.TTFT), Seconds(t.TTFO), Seconds(t.TPOT)
	d.MaxGap, d.Duration = Seconds(t.MaxGap), Seconds(t.Duration)
	if t.TPOT > 0 {
		d.Speed = new(1 / inSeconds(t.TPOT))
	}
	if t.PerCharacter > 0 {
		d.TextRate = new(1 / inSeconds(t.PerCharacter))
	}
	phases := map[string]*float64{}
	for i, p := range t.Phases {
		phases[Phase(i).String()] = Seconds(p)
	}
	d.Phases = present(phases)
}

func (d *Document) setAmounts(r *Result) {
	t := &r.Tokens
	d.Prompt, d.Cached, d.Output, d.Reasoning = count(t.Prompt), count(t.Cached), count(t.Output), count(t.Reasoning)
	if t.Output >= 0 {
		d.Source = t.Source
	}
	if tokens, events := r.EventTokens(); events > 0 {
		d.PerEvent = new(float64(tokens) / float64(events))
	}
	if v := &r.Vectors; v.Items > 0 {
		d.Vectors = &DocumentVectors{Items: v.Items}
		if v.Dimensions > 0 {
			d.Vectors.Dimensions, d.Vectors.Norm = &v.Dimensions, &v.Norm
		}
	}
}

// Seconds returns d, nil where it is absent.
func Seconds(d time.Duration) *float64 {
	if d < 0 {
		return nil
	}
	return new(inSeconds(d))
}

// DateOf returns the time of Unix seconds; the zero time where they are 0.
func DateOf(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
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

// InWords renders d with three significant digits in µs, ms or s.
func InWords(d time.Duration) string {
	switch us, ms := float64(d)/1e3, float64(d)/1e6; { // from 999.5 on three digits would read 1000
	case us < 999.5:
		return ThreeDigits(us) + " µs"
	case ms < 999.5:
		return ThreeDigits(ms) + " ms"
	}
	return ThreeDigits(d.Seconds()) + " s"
}

// ThreeDigits renders v >= 0 with three significant digits, whole numbers in full.
func ThreeDigits(v float64) string {
	decimals := 0
	switch {
	case v == 0:
	case v < 9.995:
		decimals = 2
	case v < 99.95:
		decimals = 1
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// SecondsInWords renders seconds as InWords does.
func SecondsInWords(seconds float64) string {
	return InWords(time.Duration(seconds * float64(time.Second)))
}
