// Package result holds what a probe found: its outcome, its durations and counts, or why a run measured nothing.
package result

import (
	"net/netip"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// SeriesID identifies probes that belong together: those of one endpoint and module that ask for the same.
type SeriesID struct {
	// Endpoint and Module are names of the configuration, Prefix the prefix policy. Records are
	// of an endpoint, and name it beside.
	Endpoint string `json:"-"`
	Module   string `json:"module"`
	Prefix   string `json:"prefix,omitempty"`
	// InputTokens and OutputTokens are the lengths of a rung of a ladder, and
	// Concurrency the size of a burst; "" where there is none.
	InputTokens  string `json:"input_tokens,omitempty"`
	OutputTokens string `json:"output_tokens,omitempty"`
	Concurrency  string `json:"concurrency,omitempty"`
}

// Absent is the value of a duration that was not measured. Any negative duration means the same.
const Absent time.Duration = -1

// Clock names the clock that stamped what a probe received.
type Clock string

const (
	ClockKernel  Clock = "kernel"  // the kernel's receive timestamp of the probe's socket
	ClockProcess Clock = "process" // the monotonic clock, read after a read returned
)

// Clocks lists the closed set.
func Clocks() []Clock { return []Clock{ClockKernel, ClockProcess} }

// TokenSource names where a count of output tokens comes from.
type TokenSource string

const (
	TokensFromUsage TokenSource = "usage" // the server's own count
	// TokensFromEvents is the number of token-bearing events, used where the server reports no usage.
	TokensFromEvents TokenSource = "events"
)

// TokenSources lists the closed set.
func TokenSources() []TokenSource { return []TokenSource{TokensFromUsage, TokensFromEvents} }

// Phase is one of the consecutive parts of a probe. The durations of the
// phases of one probe add up to its end-to-end duration.
type Phase int

// The phases, in order.
const (
	PhaseDNS        Phase = iota // name resolution
	PhaseConnect                 // TCP connect, or picking up a kept connection
	PhaseTLS                     // TLS handshake
	PhaseWrite                   // sending the request
	PhaseFirstByte               // request sent to first byte of the reply
	PhaseFirstToken              // first byte to first token
	PhaseDecode                  // first token to last token
	PhaseClose                   // last token to the end of the reply
	NumPhases
)

// PhaseNames lists the label values of the phases, in order.
func PhaseNames() []string {
	return []string{"dns", "connect", "tls", "write", "first_byte", "first_token", "decode", "close"}
}

// String returns the label value of the phase.
func (p Phase) String() string { return PhaseNames()[p] }

// Event is one token-bearing event of the reply.
type Event struct {
	// At is the arrival, counted from Result.Start.
	At time.Duration
	// ReadLag is from the kernel's stamp to the return of the read; Absent with ClockProcess.
	ReadLag time.Duration
	// Tokens is how many tokens the event carries, by the server's running count; 0 is unknown.
	Tokens int
	// Merged means that At is an upper bound, so that gaps beside it are not measurements: a later token
	// shares the read that completed the event, or other data does and the prober was late to read.
	Merged bool
	// Reasoning means that the event carries reasoning and nothing that a user would see.
	Reasoning bool
}

// Tokens are the token counts of a probe. -1 is not reported, which is not 0.
type Tokens struct {
	// Prompt is the length of the prompt as the server counted it, and Cached the part of it that
	// came from the prefix cache.
	Prompt, Cached int
	// Output is all generated tokens, and Reasoning the part of them that is reasoning.
	Output, Reasoning int
	// Source says where Output comes from.
	Source TokenSource
}

// Timing are the durations of a probe; each may be Absent.
type Timing struct {
	// TTFT is from the start of the request on a ready connection to the first token of any channel
	// (t6 - t2), TTFO to the first that a user sees (t7 - t2).
	TTFT, TTFO time.Duration
	// TPOT is the time per output token after the first event's, (tL - t6)/(N - N1), with N1 by
	// TokenSpan.FirstTokens. Where reasoning tokens left no events, or a summary instead, it is over
	// the answer alone, and Absent where that is not known.
	TPOT time.Duration
	// PerCharacter is the time per Unicode character, of any channel, over the same events as TPOT. Tokens of two
	// tokenizers are not alike, and characters are.
	PerCharacter time.Duration
	// MaxGap is the longest silence between two token events.
	MaxGap time.Duration
	// Duration is from issuing the request to the end of the reply (tE - t1), set-up of the connection
	// included, and Phases its consecutive parts.
	Duration time.Duration
	Phases   [NumPhases]time.Duration
}

// Setup returns how long the connection took to set up, with which Duration begins; 0 on a kept connection.
func (t *Timing) Setup() time.Duration {
	return max(0, t.Phases[PhaseDNS]) + max(0, t.Phases[PhaseConnect]) + max(0, t.Phases[PhaseTLS])
}

// RequestDuration returns Duration without Setup; Absent if Duration is.
func (t *Timing) RequestDuration() time.Duration {
	if t.Duration < 0 {
		return Absent
	}
	return t.Duration - t.Setup()
}

// Result is what one probe measured. It is immutable once returned.
type Result struct {
	// Scheduled is when the probe was due (t0), and StartLag from then to when it was begun; the zero time
	// and Absent when nobody scheduled it, as of the later requests of a run.
	Scheduled time.Time
	StartLag  time.Duration
	// Start is when the request was issued (t1). In a burst it is later by the
	// wait for the others, as if the connection had been set up just in time.
	Start time.Time
	// Outcome says how the probe ended, and Err the reason of anything but a success: short, bounded,
	// without secrets. It may quote the server.
	Outcome Outcome
	Err     error
	// Status is the HTTP status of the reply; 0 without one.
	Status int
	// API is the name of the wire protocol, Kind what its endpoints do, Engine
	// the server software and Model the model asked; "" is not known.
	API    string
	Kind   api.Kind
	Engine string
	Model  string
	// Prefix is the prefix policy of the prompt, "cold" or "warm".
	Prefix string
	// Concurrency is how many requests of a burst were to start together; 0 outside of bursts.
	Concurrency int
	// Beside are requests of the same run that only load the server meanwhile: they cost, as Spent has it, and are no probes.
	Beside []*Result
	// Sent is when the first byte of the request was handed to the kernel (t2); the zero time when none was.
	Sent time.Time
	// Length is the length in tokens that the prompt was made to; 0 where it was not made to length.
	Length int
	// Turn says which turn of a conversation this is; nil outside of conversations.
	Turn *Turn
	// PromptBytes is the length of all that is asked; 0 before there is a prompt.
	PromptBytes int
	// Answer is what the answer came to; the zero value where it is not looked at.
	Answer Answer
	// Call is when the call came that was asked for; the zero value where none was, and of one that is not valid.
	Call Call
	// Logprob is the score of the reference passage; no tokens without one.
	Logprob Logprob
	// First is the first token of the answer; nil where it is not watched.
	First *FirstToken
	// TraceID identifies the probe in the traceparent header and in exemplars.
	TraceID [16]byte
	// Clock says which clock stamped Events, the token-bearing events in order. After a failure Timing and
	// Events keep what happened before it and must not be published as latency.
	Clock  Clock
	Timing Timing
	Events []Event
	// Decoded is the part of Events whose tokens are known: all of them, or the answer
	// after reasoning that left none; nothing of a stream that was buffered.
	Decoded TokenSpan
	Tokens  Tokens
	// Characters is how many Unicode characters the answer had by then: text, refusal and calls, without reasoning.
	Characters int
	// Vectors is what an embedding or rerank endpoint answered; the zero value of others. Values are
	// those for the reference texts: a vector for each text, or one vector of their scores; nil elsewhere,
	// and where the reply does not show which text each belongs to.
	Vectors api.Vectors
	Values  [][]float32
	// Finish is the finish reason in the closed set of api.FinishReasons.
	Finish string
	// Server is what the reply reports of the server's own time, and RateLimit of the quota left.
	Server    api.ServerTimes
	RateLimit api.RateLimit
	// RetryAfter is how long a reply with status 429 or 503, or with an error of
	// such a status in it, asks to wait; Absent without.
	RetryAfter time.Duration
	// Retirement is when the API or the model is said to end, by the headers of the reply and the list of models.
	Retirement api.Retirement
	// CertNotAfter is the earliest expiry in the server's certificate chain; the zero time without TLS.
	CertNotAfter time.Time
	// Address is the IP address that the connection is to, of a proxy if there is one; the
	// zero value without a connection.
	Address netip.Addr
	// Reused means that the connection had served an earlier probe.
	Reused bool
	// Inspected means that the answer was looked at for signs of corruption, and Integrity are those that it has.
	Inspected bool
	Integrity []Sign
	// Buffered means that an answer of several tokens came in one burst: a proxy between held it back.
	Buffered bool
	// NoEndMarker means that the reply ended without the protocol's marker, and NoFinish without a finish
	// reason, which a success may where real servers of the protocol leave it out.
	NoEndMarker bool
	NoFinish    bool
	// MoreEvents means that there were more token events than tokens, so that the first ones may be text of a gateway.
	// Unless all that may be came at one moment, or at the pace of the rest, TTFT, TPOT and MaxGap are Absent.
	MoreEvents bool
	// Stall is the longest silence, if it was long enough to judge which side it was on; nil without one, and on systems other than Linux.
	Stall *Stall
	// MaxTokensIgnored means that the answer had more tokens than the server was allowed
	// to generate, by more than what counts differ by.
	MaxTokensIgnored bool
	// Imprecise means that the prober cannot vouch for the latencies of this probe, so that none is published: it
	// was too busy, its clock too unsteady, or the reply compressed.
	Imprecise bool
}

// Answer is what an answer came to, apart from its time.
type Answer struct {
	// Verdict is the result of the check; "" where nothing was expected.
	Verdict Verdict `json:"verdict,omitempty"`
	// Prompt identifies the prompt that was sent, 16 hex digits.
	Prompt string `json:"prompt,omitempty"`
	// Hash identifies the text of the answer, 16 hex digits; "" where nothing is
	// watched for changes, and of an answer that is not complete.
	Hash string `json:"hash,omitempty"`
	// Model is the name of the model, and Fingerprint that of the system, as the
	// reply reports them; bounded, "" where it does not.
	Model       string `json:"model,omitempty"`
	Fingerprint string `json:"system_fingerprint,omitempty"`
	// Reason says why the verdict is not the one wanted, without a word of the answer;
	// "" where the check has no more to say, and of a failure, whose error says it.
	Reason string `json:"reason,omitempty"`
	// Text is the beginning of an answer that was not as expected, for the log, or the
	// whole of any answer, of at most 64 KiB; "" unless the module asks for it.
	Text string `json:"text,omitempty"`
}

// Call is when a call of a function came, counted from the start of the request on a ready connection.
type Call struct {
	// FirstArgument is until the first piece of the arguments, Complete until the last piece of the last call.
	FirstArgument, Complete time.Duration
}

// Logprob is the score of a given text.
type Logprob struct {
	// Tokens is how many tokens were scored, Mean their mean log-probability in nats.
	Tokens int     `json:"tokens"`
	Mean   float64 `json:"mean"`
}

// FirstToken is the first token of an answer to the prompt of Answer.
type FirstToken struct {
	// Text is the text of the first token, of any channel; bounded.
	Text string
	// Top are the likeliest first tokens, the likeliest first; nil where the reply has none.
	Top []api.TokenLogprob
}

// Affinity is by what a balancer can keep the turns of a conversation together. The set is closed: it is a label value.
type Affinity string

const (
	AffinitySession Affinity = "session" // a header with the same value in all turns
	AffinityNone    Affinity = "none"    // no such header: the prompts alone begin alike
)

// Affinities lists the closed set.
func Affinities() []Affinity { return []Affinity{AffinityNone, AffinitySession} }

// Turn is a turn of a conversation; nil is a request outside of conversations.
type Turn struct {
	// Number counts from 1.
	Number int `json:"number"`
	// Affinity is that of all turns of the conversation.
	Affinity Affinity `json:"affinity"`
	// Replica is the replica that answered, as the header of the reply names it; bounded, "" is not known.
	Replica string `json:"replica,omitempty"`
}

// Index returns the number of the turn; 0 outside of conversations.
func (t *Turn) Index() int {
	if t == nil {
		return 0
	}
	return t.Number
}

// MergedEvents counts the events whose arrival is only an upper bound.
func (r *Result) MergedEvents() int {
	return stats.Count(r.Events, func(e Event) bool { return e.Merged })
}

// Side is which side of a connection a stall is due to. The set is closed: it is a label value.
type Side string

const (
	// SideNetwork is the way there and back: segments were lost or late, and the host answered before or after.
	SideNetwork Side = "network"
	// SideServer is the process that answers: its host, or that of a proxy before it, acknowledged and sent nothing.
	SideServer Side = "server"
	// SideHost is the server's host, or the way to it: it did not even acknowledge.
	SideHost Side = "host"
	// SideExporter is this process: data was there, or could have been, and was not read in time.
	SideExporter Side = "exporter"
	// SideUnknown is a stall of which the kernel showed too little.
	SideUnknown Side = "unknown"
)

// Sides lists the closed set.
func Sides() []Side { return []Side{SideNetwork, SideServer, SideHost, SideExporter, SideUnknown} }

// Description returns the side in words, as in "a stall of the network".
func (s Side) Description() string {
	switch s {
	case SideHost:
		return "the server's host or the way to it"
	case SideUnknown:
		return "an unknown side"
	}
	return "the " + string(s)
}

// Stall is the longest silence of a reply that was long enough to ask the kernel for its reason. It is immutable.
type Stall struct {
	Side Side
	// At is when the silence began, counted from Result.Start, and Duration how long it lasted, by the process' clock.
	At, Duration time.Duration
	// Samples is how often the kernel was asked during the silence.
	Samples int
	// Evidence is what speaks for the side, in words that hold nothing from others.
	Evidence []string
}
