package prober

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/check"
	"github.com/inference-exporter/inference_exporter/prober/prompt"
)

// questionSource makes the questions of a module, one after the other.
type questionSource interface {
	// next returns the next question, of so many texts where an endpoint embeds
	// or ranks and of one elsewhere. context is how many tokens the model has
	// room for, 0 where that is not known.
	next(texts, context int) question
}

// question is what one request asks.
type question struct {
	// texts are what to ask: the one prompt, the texts to embed or to rank, or
	// the one text to score; none where there are messages.
	texts []string
	// query is what texts are ranked by; "" is rerankQuery.
	query string
	// messages are a conversation to go on with.
	messages []api.Message
	// length is how many tokens each text was made to, and wanted how many it is
	// to have; 0 where it was not made to length.
	length, wanted int
	// later is how many tokens the later turns of a conversation add at most.
	later int
	// output caps the answer in tokens; exact asks for one of that length, where
	// the server can.
	output int
	exact  bool
	// id identifies the prompt in Answer; "" where it is made to length.
	id string
	// scripts are those of the texts or messages.
	scripts check.Scripts
	// first takes the first token of a good answer; nil where it is not watched.
	first func(*result.FirstToken)
	// judge says what an answer is worth, and why it is not right; nil where
	// nothing is expected.
	judge func(check.Answer) (result.Verdict, string)
	// tool is a function to call, schema what the answer is to follow; nil is none.
	tool   *api.Tool
	schema json.RawMessage
	// must makes a failure of an answer that is not right.
	must bool
	// skip is why not to ask now; nil where it can be asked.
	skip *result.Skip
	// learn takes the server's count of all texts, and returns why an answer to
	// them is not one to what was to be asked; nil where nothing is learnt.
	learn func(tokens int) *result.Skip
}

// newQuestionSource returns what makes a module's questions.
func newQuestionSource(m *config.Module) (questionSource, error) {
	switch {
	case m.ReferenceLogprob:
		return referenceSource{}, nil
	case m.TrackModel:
		return newBorderSource(m), nil
	case m.ReferenceTexts:
		return textsSource{}, nil
	case m.ToolCall:
		return newToolSource(m)
	case m.Structured:
		return newStructuredSource(m)
	case m.Questions:
		return newBuiltInSource(m), nil
	case m.PromptsFile != "":
		if len(m.Prompts) == 0 {
			return nil, fmt.Errorf("prompts_file %q has no prompt", m.PromptsFile)
		}
		return newFileSource(m), nil
	case m.Prompt != "":
		return newPromptSource(m)
	}
	return newLengthSource(m), nil
}

// lengthSource asks prompts made to length, each for an answer as long as its cap
// where the server can be made to.
type lengthSource struct {
	prompts *prompt.Mix
	prefix  prompt.Prefix
	outputs []prompt.Length
	rng     *rand.Rand
	learnt  bool         // the server has counted a prompt
	later   int          // tokens that the later turns of a conversation add
	traffic *trafficDraw // nil where lengths are those of the module
}

func newLengthSource(m *config.Module) *lengthSource {
	a := &lengthSource{prefix: prompt.Prefix(m.Prefix), outputs: lengthsOf(m.OutputTokens), rng: newRand(), later: m.TurnsBefore(m.Turns)}
	a.prompts = prompt.NewMix(lengthsOf(m.InputTokens), a.prefix, a.rng)
	if m.Traffic != nil {
		a.traffic = newTrafficDraw(m, a.rng)
	}
	return a
}

func (a *lengthSource) next(texts, context int) question {
	from, first, output := a.prompts, prompt.Prompt{}, 0
	if a.traffic != nil {
		first, output = a.traffic.next(a.prompts)
	} else {
		first, output = a.prompts.Next(), prompt.Draw(a.outputs, a.rng)
	}
	wanted := first.Target
	// Before the first count a prompt may be half as long again as it should be.
	// One that does not fit is refused, and never counted.
	if !a.learnt && context > 0 && wanted+wanted/2+output+a.later > context {
		from = prompt.NewMix([]prompt.Length{{Tokens: wanted * 2 / 3}}, a.prefix, a.rng)
		first = from.Next()
	}
	q := question{texts: []string{first.Text}, length: first.Target, wanted: wanted, later: a.later, output: output, exact: true}
	asked := prompt.Prompt{Words: first.Words, Target: wanted}
	if c, resting := a.prompts.Resting(asked, time.Now()); resting {
		q.skip = truncates(c)
	}
	for len(q.texts) < texts {
		q.texts = append(q.texts, from.Like(first).Text)
	}
	q.learn = func(tokens int) *result.Skip {
		a.learnt = true
		c := prompt.Count{Words: first.Words, Tokens: tokens / texts}
		switch a.prompts.Learn(asked, c.Tokens, time.Now()) {
		case prompt.Truncated:
			return truncates(c)
		case prompt.Short:
			return skip(result.SkipTruncated, "the server counts %d tokens of a prompt made to have %d: either it truncates prompts, "+
				"or the next one is longer", c.Tokens, wanted)
		default:
			return nil
		}
	}
	return q
}

// truncates is why prompts of a length are not asked, of which the server made c.
func truncates(c prompt.Count) *result.Skip {
	return skip(result.SkipTruncated, "the server truncates prompts: it counts %d tokens of one of %d words; "+
		"raise its context length (num_ctx of Ollama) or lower input_tokens", c.Tokens, c.Words)
}

// lengthsOf returns the lengths to draw from.
func lengthsOf(l config.Lengths) []prompt.Length {
	if len(l.Mix) == 0 {
		return []prompt.Length{{Tokens: l.Max()}}
	}
	all := make([]prompt.Length, len(l.Mix))
	for i, w := range l.Mix {
		all[i] = prompt.Length{Tokens: w.Tokens, Weight: w.Weight}
	}
	return all
}

// promptSource asks the one prompt of a module, whose answer may have to be as
// expected.
type promptSource struct {
	question
	outputs []prompt.Length
	rng     *rand.Rand
}

func newPromptSource(m *config.Module) (*promptSource, error) {
	a := &promptSource{
		question: question{texts: []string{m.Prompt}, id: check.Hash(m.Prompt), scripts: check.ScriptsOf(m.Prompt)},
		outputs:  lengthsOf(m.OutputTokens), rng: newRand(),
	}
	if m.Expect == nil {
		return a, nil
	}
	expected, err := check.New(m.Expect)
	if err != nil {
		return nil, fmt.Errorf("expect: %w", err)
	}
	a.must = true
	a.judge = expected.Judge
	return a, nil
}

func (a *promptSource) next(int, int) question {
	q := a.question
	q.output = prompt.Draw(a.outputs, a.rng)
	return q
}

// deckSource asks questions of a list, each by its weight. An answer that is not
// the expected one counts as such and is no failure: a small model may be wrong.
type deckSource struct {
	deck    *prompt.Deck
	outputs []prompt.Length
	rng     *rand.Rand
	at      func(i int) question // without a cap
}

func newDeckSource(m *config.Module, n int, weight func(i int) float64, at func(i int) question) *deckSource {
	rng := newRand()
	return &deckSource{deck: prompt.NewDeck(n, weight, rng), outputs: lengthsOf(m.OutputTokens), rng: rng, at: at}
}

func (d *deckSource) next(int, int) question {
	q := d.at(d.deck.Next())
	q.output = prompt.Draw(d.outputs, d.rng)
	return q
}

// newFileSource returns a source of the prompts of a file.
func newFileSource(m *config.Module) *deckSource {
	weight := func(i int) float64 { return m.Prompts[i].Weight }
	return newDeckSource(m, len(m.Prompts), weight, func(i int) question { return questionOf(&m.Prompts[i]) })
}

// questionOf returns the question that a prompt of a file is.
func questionOf(p *config.Prompt) question {
	var q question
	var whole strings.Builder
	for _, m := range p.Messages {
		q.messages = append(q.messages, api.Message{Role: m.Role, Content: m.Content})
		whole.WriteString(m.Role + "\n" + m.Content + "\n")
	}
	q.id, q.scripts = check.Hash(whole.String()), check.ScriptsOf(whole.String())
	if len(p.Messages) == 1 && p.Messages[0].Role == "user" {
		q.texts, q.messages = []string{p.Messages[0].Content}, nil
	}
	if p.Expected != "" {
		q.judge = func(a check.Answer) (result.Verdict, string) { return check.Contains(a.Text, p.Expected), "" }
	}
	return q
}

// newBuiltInSource returns a source of the built-in questions.
func newBuiltInSource(m *config.Module) *deckSource {
	all := check.Questions()
	return newDeckSource(m, len(all), nil, func(i int) question {
		return question{
			texts: []string{all[i].Text}, id: check.Hash(all[i].Text),
			judge: func(a check.Answer) (result.Verdict, string) { return all[i].Judge(a.Text), "" },
		}
	})
}

// referenceSource has the reference passage scored, which never changes.
type referenceSource struct{}

func (referenceSource) next(int, int) question {
	return question{texts: []string{prompt.ReferencePassage}, id: check.Hash(prompt.ReferencePassage)}
}

// textsSource has the reference texts embedded or ranked, which never change.
type textsSource struct{}

func (textsSource) next(int, int) question {
	return question{texts: prompt.ReferenceTexts(), query: prompt.ReferenceQuery}
}

const (
	// maxAnswer bounds what is kept of an answer's text, maxName the name of a
	// model or a system, and maxLogged an answer in the log; bytes.
	maxAnswer = 64 << 10
	maxName   = 256
	maxLogged = 200
	// usualToken and usualAnswer are the bytes of a token and of an answer that
	// memory is set aside for when a reply begins.
	usualToken, usualAnswer = 12, 2 << 10
)

// content collects what a user would see of an answer. What is past the bound is
// dropped.
type content struct {
	text      []byte
	calls     check.Calls
	reasoning []byte // before any text
	inspect   bool   // the answer is looked at for signs of corruption
	calling   bool   // a call is asked for
	identify  bool   // the names below are asked for
	first     bool   // of the answer the first token is watched
	model     string // the first that the reply names
	system    string
	top       []api.TokenLogprob // the likeliest first tokens
}

// newContent returns a content for the answer to a question; nil where nothing looks at
// it. The many answers of a burst, which nothing but their time is asked of, are not
// inspected.
func (q *request) newContent() *content {
	if q.served.protocol.Kind != api.Generation {
		return nil
	}
	m := q.prober.module
	c := &content{identify: m.Fingerprint || m.TrackModel, first: m.TrackModel, inspect: q.slot == nil && !m.TrackModel, calling: q.question.tool != nil}
	if q.question.judge == nil && !c.identify && !c.inspect && !m.KeepAnswer {
		return nil
	}
	c.text = make([]byte, 0, min(q.question.output*usualToken, usualAnswer))
	return c
}

// add takes what a frame adds.
func (a *content) add(d *api.Delta) {
	for _, text := range [...][]byte{d.Text, d.Refusal} {
		a.text = appendBounded(a.text, text)
	}
	if (a.inspect || a.calling) && len(a.text) == 0 {
		a.reasoning = appendBounded(a.reasoning, d.Reasoning)
	}
	if a.first {
		a.addFirst(d)
	}
	if a.calling {
		a.calls.Add(d.Calls)
	}
	if !a.identify {
		return
	}
	if a.model == "" {
		a.model = string(d.Model)
	}
	if a.system == "" {
		a.system = string(d.Fingerprint)
	}
}

// appendBounded appends as much of a text as there is room for.
func appendBounded(all, text []byte) []byte {
	return append(all, text[:min(len(text), maxAnswer-len(all))]...)
}

// inspected returns the answer or, where it has not begun, the reasoning.
func (a *content) inspected() string {
	if len(a.text) == 0 {
		return string(a.reasoning)
	}
	return string(a.text)
}

// inspect looks for signs that the answer was corrupted.
func (r *reply) inspect() {
	a := r.answer
	if a == nil || !a.inspect {
		return
	}
	r.result.Inspected = true
	found := check.Inspect(check.Answer{Text: a.inspected(), Finish: r.finish}, r.request.question.scripts)
	if r.result.NoFinish {
		found = append(found, result.SignNoFinish)
	}
	r.result.Integrity = found
}

// addFirst takes what a frame adds to the first token, which may be one of reasoning
// or of a tool call.
func (a *content) addFirst(d *api.Delta) {
	a.text = appendBounded(appendBounded(a.text, d.Reasoning), d.Tool)
	if a.top == nil {
		a.top = d.Top
	}
}

// answerVerdict looks at a complete answer, where the module wants that.
func (r *reply) answerVerdict() error {
	a, q := r.answer, &r.request.question
	if a == nil {
		return nil
	}
	out, text := &r.result.Answer, string(a.text)
	names := r.request.prober.endpoint.names
	out.Model, out.Fingerprint = names.Clean(a.model), names.Clean(a.system)
	switch {
	case a.first:
		r.result.First = &result.FirstToken{Text: text[:min(len(text), maxName)], Top: a.top}
		q.first(r.result.First)
	case a.identify:
		out.Hash = check.Hash(text)
	}
	if r.request.prober.module.KeepAnswer {
		out.Text = r.attempt.known().Block(a.shown(), maxAnswer)
	}
	if q.judge == nil {
		return nil
	}
	verdict, reason := q.judge(check.Answer{Text: text, Finish: r.finish, Calls: a.calls.List(), Reasoning: string(a.reasoning)})
	out.Verdict = verdict
	if verdict.IsRight() {
		return nil
	}
	if r.request.prober.module.LogAnswers {
		out.Text = r.attempt.known().Line(a.shown(), maxLogged)
	}
	if q.must {
		return fail(result.CheckFailed, "%s: %s", verdict, reason)
	}
	out.Reason = reason
	return nil
}
