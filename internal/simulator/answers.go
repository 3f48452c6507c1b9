package simulator

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload/answers"
)

// answerTo returns the words of the answer to a prompt that ends with one of answers.Questions, and what it is worth;
// false for any other prompt. A greedy answer depends on the weights alone: of n questions the model then knows n x
// quality, rounded, and which ones is the version's. A sampled answer is drawn.
func (s *Server) answerTo(a *request, w *weights) ([]string, result.Verdict, bool) {
	text := strings.TrimSpace(a.text)
	i := slices.IndexFunc(s.questions, func(q answers.Question) bool { return strings.HasSuffix(text, q.Text) })
	if i < 0 {
		return nil, "", false
	}
	id := s.questions[i].ID
	known := float64(s.rank(id, w)) < math.Round(w.quality*float64(len(s.questions)))
	kind := int(hashText("kind", w.version, id) % uint64(len(result.AnswerVerdicts())-1))
	if a.sampled {
		known = s.rng.Float64() < w.quality
		kind = s.rng.IntN(len(result.AnswerVerdicts()) - 1)
	}
	verdict := result.VerdictCorrect
	if !known {
		verdict = slices.DeleteFunc(result.AnswerVerdicts(), func(v result.Verdict) bool { return v == result.VerdictCorrect })[kind]
	}
	return strings.Fields(s.answerOf(i, verdict)), verdict, true
}

// rank is the place of a question in the order in which weights of a version learn them, from 0.
func (s *Server) rank(id string, w *weights) int {
	order := func(id string) uint64 { return hashText("question", w.version, id) }
	return stats.Count(s.questions, func(q answers.Question) bool { return order(q.ID) < order(id) })
}

// answerOf returns an answer to question i that is worth the verdict.
func (s *Server) answerOf(i int, v result.Verdict) string {
	q := s.questions[i]
	switch v {
	case result.VerdictWrong:
		return s.wrongAnswer(i)
	case result.VerdictWrongFormat:
		return "Having thought about it I would say " + q.Answers[0] + " but please do check that."
	case result.VerdictRefused:
		return "I am sorry, but I cannot help with that."
	case result.VerdictRepetition:
		return strings.Repeat("and then once more ", 12)
	}
	return q.Right()
}

// wrongAnswer is the answer to one of the next questions, in the form that question i wants.
func (s *Server) wrongAnswer(i int) string {
	q := s.questions[i]
	for _, next := range slices.Concat(s.questions[i:], s.questions) {
		switch other := next.Answers[0]; {
		case slices.Contains(q.Answers, other):
		case q.Key != "":
			return fmt.Sprintf("{%q: %q}", q.Key, other)
		default:
			return other
		}
	}
	return "" // cannot happen: questions have several answers
}

// vocabulary is the words of the simulated model: the numbers from zero to ninety-nine, one word per token.
var vocabulary = sync.OnceValue(func() []string {
	words := strings.Fields(`zero one two three four five six seven eight nine ten eleven twelve
		thirteen fourteen fifteen sixteen seventeen eighteen nineteen`)
	for _, ten := range strings.Fields("twenty thirty forty fifty sixty seventy eighty ninety") {
		words = append(words, ten)
		for _, one := range words[1:10] {
			words = append(words, ten+"-"+one)
		}
	}
	return words
})

// answerText is the text of one answer, a word a token. The zero value counts from zero, again and again.
type answerText struct {
	fixed  []string // the answer to a question; the words of the vocabulary come after
	tight  bool     // no space is between the words of fixed
	offset int      // the word of the vocabulary that it begins with
	order  uint64   // decides the order of the words; 0 is to count
	flipAt int      // the word, counted from 1, from which on it says something else than it would have; 0 is none
}

// append appends word i, after the space that separates it.
func (p *answerText) append(dst []byte, i int) []byte {
	if i > 0 && !p.tight {
		dst = append(dst, ' ')
	}
	if i < len(p.fixed) {
		return append(dst, p.fixed[i]...)
	}
	v, word := vocabulary(), i
	if p.order != 0 {
		word = int(mix(p.order, uint64(i)) % uint64(len(v)))
	}
	if p.flipAt > 0 && i+1 >= p.flipAt {
		word += len(v) / 2
	}
	return append(dst, v[(p.offset+word)%len(v)]...)
}

// form is what a request wants the answer to be: a call of a function, or JSON.
type form struct {
	tool   string // the name of the function; "" is JSON
	sample string // JSON that meets the schema
}

// formOf returns what a request wants the answer to be; nil is text.
func (q *reading) formOf(v *fastjson.Value) *form {
	tool := at(v, q.Tool)
	if schema := at(tool, q.Parameters); schema != nil {
		return &form{string(tool.GetStringBytes("name")), jsonOf(sampleOf(schema))}
	}
	schema := at(v, q.Schema)
	if text := schema.GetStringBytes(); text != nil {
		schema, _ = fastjson.ParseBytes(text)
	}
	if schema.GetObject("properties") == nil {
		return nil
	}
	return &form{"", jsonOf(sampleOf(schema))}
}

// sampleOf returns a value that meets a schema of objects, strings and numbers.
func sampleOf(schema *fastjson.Value) any {
	if values := schema.GetArray("enum"); len(values) > 0 {
		return string(values[0].GetStringBytes())
	}
	switch string(schema.GetStringBytes("type")) {
	case "object":
		object := map[string]any{}
		schema.GetObject("properties").Visit(func(name []byte, member *fastjson.Value) { object[string(name)] = sampleOf(member) })
		return object
	case "integer", "number":
		return 1815
	}
	return "Paris"
}

// composeForm decides on a call or an answer in JSON: the function, "" for text, what follows it, and what it is worth.
func (x *exchange) composeForm() (name, text string, verdict result.Verdict) {
	f := x.request.form
	name, text = f.tool, f.sample
	switch verdict = cmp.Or(x.request.spoilt, x.s.drawVerdict(f)); {
	case verdict == result.VerdictTruncated:
		text = text[:len(text)/2]
	case verdict == result.VerdictBadSchema:
		text = `{"location":"Paris"}`
	case verdict == result.VerdictBadJSON:
		text = strings.TrimPrefix(text, `{"`) // as parsers did that lost the first token
	case f.tool == "":
		verdict = result.VerdictValid // text can be nothing else
	case verdict == result.VerdictWrongTool:
		name = "functions." + name + ":0"
	case verdict == result.VerdictNoCall:
		name, text = "", "It is sunny there."
	case verdict == result.VerdictLeakedIntoContent:
		name, text = "", fmt.Sprintf("<tool_call>\n{\"name\": %q, \"arguments\": %s}\n</tool_call>", name, text)
	}
	return name, text, verdict
}

// drawVerdict draws what the next call or answer in JSON is worth.
func (s *Server) drawVerdict(f *form) result.Verdict {
	all := result.ToolCallVerdicts() // Valid is the first
	if f.tool == "" {
		all = result.StructuredVerdicts()
	}
	if s.rng.Float64() >= s.o.BadCalls {
		return all[0]
	}
	return all[1+s.rng.IntN(len(all)-1)]
}

// sayForm puts a call or JSON in the place of the answer, and returns its length and how it ends.
func (x *exchange) sayForm() (int, finish) {
	name, text, verdict := x.composeForm()
	x.text.tight, x.call, x.verdict = true, name, verdict
	if name != "" {
		x.text.fixed = []string{""} // the name
	}
	for piece := range slices.Chunk([]byte(text), bytesPerToken) {
		x.text.fixed = append(x.text.fixed, string(piece))
	}
	n, reason := x.reasoning+len(x.text.fixed), finishStop
	if limit := x.request.maxOutput; limit > 0 && limit < n {
		n, reason = limit, finishLength
		x.verdict = result.VerdictTruncated
	}
	return n, reason
}
