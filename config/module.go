package config

import (
	"errors"
	"reflect"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"gopkg.in/yaml.v3"
)

// Prefix is how the prompts of a module relate to each other.
type Prefix string

// The policies, which Module.Prefix describes.
const (
	PrefixCold         Prefix = "cold"
	PrefixWarm         Prefix = "warm"
	PrefixPaired       Prefix = "paired"
	PrefixConversation Prefix = "conversation"
)

// Connection is how a probe gets its connection.
type Connection string

// The ways, which Module.Connection describes.
const (
	ConnectionNew   Connection = "new"
	ConnectionReuse Connection = "reuse"
)

// Bounds of what a module may ask for.
const (
	maxLengths     = 16
	maxRungs       = 32
	maxLevels      = 8
	maxWeight      = 1000 // of a length or a prompt, relative to others
	maxPromptBytes = 1 << 20
	maxBurstTokens = 4_000_000 // all are in memory at once, at some 6 bytes each
	maxBurstBytes  = 6 * maxBurstTokens
)

// Module says what to ask, in terms that hold for every protocol, so that one
// module gives comparable numbers everywhere.
type Module struct {
	// Interval is the time from the start of a probe to that of the next. Default: `global.interval`.
	Interval model.Duration `yaml:"interval"`
	// Timeout limits a whole probe, connection included. Default: `global.timeout`.
	Timeout model.Duration `yaml:"timeout"`
	// Timeouts limit the parts of a probe. None may exceed the timeout; a default that would is cut to it.
	Timeouts Timeouts `yaml:"timeouts"`
	// InputTokens is the wanted length of the prompt in tokens, or several; see below. It is reached within a few probes from
	// the server's own count.
	InputTokens Lengths `yaml:"input_tokens,omitempty" default:"256" range:"[1,2000000]"`
	// OutputTokens caps the answer in tokens, reasoning included, or several; see below.
	OutputTokens Lengths `yaml:"output_tokens,omitempty" default:"64" range:"[1,100000]"`
	// Traffic draws the lengths of prompts and answers from the requests of users, as the metrics pages of the servers
	// count them, instead of asking `input_tokens` and `output_tokens`, which are asked until the requests of users are
	// known. Default: no such draw.
	Traffic *Traffic `yaml:"traffic,omitempty" excludes:"prompt,prompts_file,questions,reference_logprob,track_model,reference_texts,tool_call,structured,prefix: warm,prefix: paired,prefix: conversation,concurrency"`
	// BatchSize is how many texts one probe sends to an endpoint that embeds or ranks.
	BatchSize int `yaml:"batch_size,omitempty" default:"8" range:"[1,2048]"`
	// Prefix is `cold` (every prompt begins differently, so that no cached prefix helps), `warm` (the same prompt
	// again), `paired` (a cold prompt, and then the very same again: what the prefix cache is worth) or `conversation`
	// (a cold prompt, and then turn after turn, each with all turns and answers before it: what an agent gets of the
	// prefix cache). Prompts that are not made to length are warm.
	Prefix Prefix `yaml:"prefix" default:"cold" oneof:"cold,warm,paired,conversation"`
	// Turns is how many turns a conversation has.
	Turns int `yaml:"turns,omitempty" default:"4" range:"[2,8]" requires:"prefix: conversation"`
	// Concurrency lists how many requests to start at the same moment, in rising order, at most 8: one burst after the
	// other, each with series of its own with the label `concurrency`. A burst with errors ends the run. Bursts are
	// judged by no objective, and hold at most 4,000,000 prompt tokens together. Default: one request, which is no
	// burst.
	Concurrency []int `yaml:"concurrency,omitempty" range:"[1,256]" items:"some,rising" excludes:"prefix: paired,prefix: conversation,connection: reuse"`
	// Arrivals has the requests of a burst start one after the other, as those of users
	// do; see [workloads](workloads.md#arrivals). Default: all at once.
	Arrivals *Arrivals `yaml:"arrivals,omitempty"`
	// Load makes the module a load test: the load of many users, one level after the other, which ends at once when
	// users wait. It is no probe, and counts for no state, no SLO and no uptime. Defaults with it: `interval` 24h,
	// `connection` reuse. Default: no load test.
	Load *LoadTest `yaml:"load,omitempty" excludes:"concurrency,arrivals,prefix: paired,prefix: conversation,questions,reference_logprob,track_model,reference_texts,tool_call,structured,fingerprint,expect,log_answers"`
	// Interference is the length in tokens of one long prompt, beside which a run asks its own: one request alone, then
	// the long prompt and, 50 ms later, the other one again. It shows how much longer a user waits for a first token
	// while the server computes a long prompt; see [workloads](workloads.md#interference). Default: none.
	Interference int `yaml:"interference,omitempty" range:"[512,2000000]" excludes:"prompt,prompts_file,questions,reference_logprob,track_model,reference_texts,tool_call,structured,traffic,concurrency,load,prefix: warm,prefix: paired,prefix: conversation,connection: reuse"`
	// Prompt is the text to ask, instead of one that is made to length; at most 1 MiB.
	Prompt string `yaml:"prompt,omitempty"`
	// PromptsFile is a file with prompts of your own; see below.
	PromptsFile string `yaml:"prompts_file,omitempty"`
	// Questions asks the built-in questions with known answers in turn, and counts the right ones.
	Questions bool `yaml:"questions,omitempty"`
	// ReferenceLogprob has the server score a fixed passage instead of asking for an answer, on servers that can: the
	// mean log-probability moves when weights, quantization or tokenizer change.
	ReferenceLogprob bool `yaml:"reference_logprob,omitempty"`
	// TrackModel asks prompts of one word for one token each, and compares the first tokens of the latest 96 answers
	// with those before: their log-probabilities where replies have them, else the tokens themselves, of a day's
	// answers: 96 to 480. They change with weights, quantization, template or tokenizer. Default of `interval` with it:
	// 15m.
	TrackModel bool `yaml:"track_model,omitempty"`
	// ReferenceTexts has an endpoint that embeds or ranks do that to a fixed set of
	// texts, and compares the vectors or scores with those of its first answers.
	ReferenceTexts bool `yaml:"reference_texts,omitempty"`
	// ToolCall asks for one call of a function with a small fixed schema, on protocols that have it, and counts what
	// came of it; see [workloads](workloads.md#calls-of-tools-and-json).
	ToolCall bool `yaml:"tool_call,omitempty"`
	// Structured asks for an answer in JSON by a small fixed schema, in the protocol's
	// own way, and counts what came of it.
	Structured bool `yaml:"structured,omitempty"`
	// Fingerprint watches the answer to `prompt` or the questions, asked at
	// temperature 0, and what the reply says about its model, for changes.
	Fingerprint bool `yaml:"fingerprint,omitempty"`
	// Expect says what the answer to `prompt` must be; see below.
	Expect *Expect `yaml:"expect,omitempty"`
	// LogAnswers logs the answers that are not as expected, shortened. Default: no answer is logged.
	LogAnswers bool `yaml:"log_answers,omitempty" requires:"expect|prompts_file|questions|tool_call|structured"`
	// Connection is `new` (one connection per probe) or `reuse` (one kept per endpoint and module).
	Connection Connection `yaml:"connection" default:"new" oneof:"new,reuse"`
	// SLO is what is promised of endpoints when they are asked this; see [`endpoints[].slo`](#endpointsslo), whose
	// place it takes as a whole. Default: that of the endpoint.
	SLO *SLO `yaml:"slo,omitempty"`

	// Prompts are those of PromptsFile, as they were when the configuration was loaded; nil without.
	Prompts []Prompt `yaml:"-"`
	// KeepAnswer keeps the text of each answer in its result.
	KeepAnswer bool `yaml:"-"`
	// PresetSLO is the SLO of the built-in module of this name, for endpoints without one; nil without.
	PresetSLO *SLO `yaml:"-"`
}

// Timeouts limit the parts of a probe.
type Timeouts struct {
	// Connect limits name resolution, TCP connect and TLS handshake together.
	Connect model.Duration `yaml:"connect" default:"10s"`
	// Headers limits the time from the request to the reply's headers. Default: `first_token`.
	Headers model.Duration `yaml:"headers"`
	// FirstToken limits the time from the request to the first token.
	FirstToken model.Duration `yaml:"first_token" default:"30s"`
	// Stall limits the silence between two tokens.
	Stall model.Duration `yaml:"stall" default:"15s"`
}

// complete sets what follows from what is asked and from the timeout, and reads files.
func (m *Module) complete(r *report, p path) {
	m.Ask().complete(m, r, p)
	if m.Load != nil {
		m.Load.completeModule(m, r, p)
	}
	t, at := &m.Timeouts, p.key("timeouts")
	orDefault(r, at.key("headers"), &t.Headers, t.FirstToken)
	r.limit(at.key("connect"), &t.Connect, p.key("timeout"), m.Timeout)
	r.limit(at.key("headers"), &t.Headers, p.key("timeout"), m.Timeout)
	r.limit(at.key("first_token"), &t.FirstToken, p.key("timeout"), m.Timeout)
	r.limit(at.key("stall"), &t.Stall, p.key("timeout"), m.Timeout)
	r.loadLines(p.key("prompts_file"), m.PromptsFile, func(data []byte) (mistakes []lineError) {
		m.Prompts, mistakes = parsePrompts(data)
		return mistakes
	})
}

func (m *Module) check(r *report, p path) {
	if n := max(1, len(m.InputTokens.Ladder)) * max(1, len(m.OutputTokens.Ladder)); n > maxRungs {
		r.errorf(p.key("output_tokens"), "%d pairs of input_tokens and output_tokens, more than %d", n, maxRungs)
	}
	m.validateConcurrency(r, p)
	if at, least := p.key("interference"), 4*m.InputTokens.Max(); m.Interference > 0 && m.Interference < least && !r.failed[at] {
		r.errorf(at, "want at least four times input_tokens, %d: a prompt that is hardly longer is no long one", least)
	}
	m.validateArrivals(r, p)
	m.validateLengths(r, p)
	m.validateLoad(r, p)
	m.validateAsk(r, p)
	m.validateAnswers(r, p)
	if wake := p.key("slo").key("wake"); r.written(wake) {
		r.errorf(wake, "is an objective of endpoints, not of modules")
	}
	m.SLO.checkCounted(r, p.key("slo"), []*Module{m}, "has no effect with %s")
}

// Rung is a module with a single length, or a mix, where the module has a ladder.
type Rung struct {
	*Module
	// InputLabel and OutputLabel are the values of the labels input_tokens and output_tokens; "" without such a ladder.
	InputLabel, OutputLabel string
}

// Rungs returns the module, or one for each combination of lengths where it has ladders.
func (m *Module) Rungs() []Rung {
	inputs, inputLabels := m.InputTokens.rungs()
	outputs, outputLabels := m.OutputTokens.rungs()
	if len(inputs)*len(outputs) == 1 {
		return []Rung{{Module: m}}
	}
	var all []Rung
	for i, in := range inputs {
		for j, out := range outputs {
			own := *m
			own.InputTokens, own.OutputTokens = in, out
			all = append(all, Rung{&own, inputLabels[i], outputLabels[j]})
		}
	}
	return all
}

// textProblem returns what is wrong with the text of a prompt; nil if nothing is.
func textProblem(text string) error {
	switch {
	case text == "":
		return errors.New("an empty text")
	case len(text) > maxPromptBytes:
		return errors.New("more than 1 MiB")
	case !utf8.ValidString(text):
		return errors.New("not valid UTF-8")
	}
	return nil
}

// validateLengths rejects several lengths where estimates would mix them.
func (m *Module) validateLengths(r *report, p path) {
	beside, want := "", "give each a module of its own"
	switch {
	case len(m.Concurrency) > 0:
		beside = "concurrency"
	case m.Interference > 0:
		beside = "interference"
	case m.Prefix.IsRelated():
		beside = "prefix: " + string(m.Prefix)
	case m.Traffic != nil:
		beside, want = "traffic", "want the one to ask until the traffic is known"
	default:
		return
	}
	wantOne := func(key string, l Lengths) {
		if len(l.Ladder) > 1 || len(l.Mix) > 1 {
			r.errorf(p.key(key), "several lengths beside %s; %s", beside, want)
		}
	}
	wantOne("input_tokens", m.InputTokens)
	if m.Prefix != PrefixPaired {
		wantOne("output_tokens", m.OutputTokens)
	}
}

// Bursts returns how many requests a run starts together, one burst after the other; nil is one request alone.
func (m *Module) Bursts() []int {
	if m.Interference > 0 {
		return []int{1, 2}
	}
	return m.Concurrency
}

func (m *Module) validateConcurrency(r *report, p path) {
	at := p.key("concurrency")
	if n := len(m.Concurrency); n > maxLevels {
		r.errorf(at, "%d levels, more than %d", n, maxLevels)
	}
	for i, level := range m.Concurrency {
		if r.failed[at.index(i)] {
			return
		}
		if n := level * len(m.Prompt); n > maxBurstBytes {
			r.errorf(at.index(i), "%d bytes of prompts at once, more than %d", n, maxBurstBytes)
		}
		if n := level * m.InputTokens.Max(); n > maxBurstTokens {
			r.errorf(at.index(i), "%d prompt tokens at once, more than %d", n, maxBurstTokens)
		}
	}
}

// Interactive is the built-in module that an endpoint uses without others.
const Interactive = "interactive"

// Preset is a built-in module, which the file may change key by key.
type Preset struct {
	// Name is the name of the module.
	Name string
	// Purpose is the kind of request that the module resembles, in a few words.
	Purpose string
	// Module is what it has otherwise than any module.
	Module yaml.Node
}

// Presets returns the built-in modules, which are not to be changed.
var Presets = embedded[[]Preset]("presets.yml")

// usePreset makes a module with defaults the built-in one of that name, if there is one.
func (m *Module) usePreset(name string) {
	for _, preset := range Presets() {
		if preset.Name == name {
			(&decoder{report: newReport(name)}).value(&preset.Module, "", reflect.ValueOf(m).Elem())
			m.PresetSLO, m.SLO = m.SLO, nil
		}
	}
}
