package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Lengths are numbers of tokens to ask for: one (`256`), a ladder of several that are each asked by themselves (`[8000,
// 32000]`), or a mix from which each probe draws by weight (`{256: 3, 2048: 1}`).
type Lengths struct {
	// Ladder are the lengths of a ladder in the order of the file, one for a plain number; nil for a mix.
	Ladder []int
	// Mix are the lengths of a mix, short ones first; nil without.
	Mix []WeightedLength
}

// WeightedLength is a length and how often it is drawn relative to the others.
type WeightedLength struct {
	Tokens int
	Weight float64
}

// TotalWeight returns the sum of the weights.
func TotalWeight(all []WeightedLength) float64 {
	return stats.Sum(all, func(w WeightedLength) float64 { return w.Weight })
}

// Tokens is a single length.
func Tokens(n int) Lengths { return Lengths{Ladder: []int{n}} }

// Max returns the longest length; 0 where there is none.
func (l Lengths) Max() int {
	longest := 0
	for _, n := range l.Ladder {
		longest = max(longest, n)
	}
	for _, w := range l.Mix {
		longest = max(longest, w.Tokens)
	}
	return longest
}

// Mean returns the length that is asked on average, but of a ladder of several; 0 where there is none.
func (l Lengths) Mean() int {
	if len(l.Mix) == 0 {
		return l.Max()
	}
	sum := stats.Sum(l.Mix, func(w WeightedLength) float64 { return float64(w.Tokens) * w.Weight })
	return int(math.Round(sum / TotalWeight(l.Mix)))
}

// Words returns the lengths in a few words; "-" for none.
func (l Lengths) Words() string {
	switch {
	case l.IsZero():
		return "-"
	case len(l.Mix) > 0:
		return strings.Join(stats.Map(l.Mix, func(w WeightedLength) string { return fmt.Sprintf("%d (%g)", w.Tokens, w.Weight) }), " or ")
	}
	return joinInts(l.Ladder)
}

func joinInts(all []int) string { return strings.Join(stats.Map(all, strconv.Itoa), ", ") }

// IsZero reports whether there is no length.
func (l Lengths) IsZero() bool { return len(l.Ladder) == 0 && len(l.Mix) == 0 }

// rungs returns each length of a ladder by itself, with its label: "" where there is only one.
func (l Lengths) rungs() (all []Lengths, labels []string) {
	if len(l.Ladder) < 2 {
		return []Lengths{l}, []string{""}
	}
	for _, n := range l.Ladder {
		all, labels = append(all, Tokens(n)), append(labels, strconv.Itoa(n))
	}
	return all, labels
}

// MarshalYAML writes the lengths as they are read.
func (l Lengths) MarshalYAML() (any, error) {
	switch {
	case len(l.Mix) > 0:
		weights := map[int]float64{}
		for _, w := range l.Mix {
			weights[w.Tokens] = w.Weight
		}
		return weights, nil
	case len(l.Ladder) == 1:
		return l.Ladder[0], nil
	}
	return l.Ladder, nil
}

func (d *decoder) lengths(n *yaml.Node, p path, out *Lengths) {
	if n.Kind != yaml.ScalarNode && len(n.Content) == 0 {
		d.errorf(p, "no length; want at least one, or leave the key out")
		return
	}
	switch n.Kind {
	case yaml.ScalarNode:
		if length, ok := d.length(n, p); ok {
			*out = Tokens(length)
		}
	case yaml.SequenceNode:
		var l Lengths
		for i, c := range n.Content {
			d.lines[p.index(i)] = c.Line
			if length, ok := d.length(target(c), p.index(i)); ok {
				l.Ladder = append(l.Ladder, length)
			}
		}
		*out = l
	case yaml.MappingNode:
		*out = Lengths{Mix: d.mix(n, p)}
	}
}

func (d *decoder) length(n *yaml.Node, p path) (length int, ok bool) {
	ok = d.plainValue(n, p, &length, "a number of tokens, a list of them, or a mapping of them to weights", "!!int")
	return length, ok
}

func (d *decoder) mix(n *yaml.Node, p path) []WeightedLength {
	var all []WeightedLength
	for _, e := range d.pairs(n, p) {
		at := p.key(e.key)
		d.lines[at] = e.line
		length, err := strconv.Atoi(e.key)
		if err != nil || strconv.Itoa(length) != e.key {
			d.errorf(at, "expected a plain number of tokens as the key, got %s", quote(e.key))
			continue
		}
		all = append(all, WeightedLength{Tokens: length, Weight: d.decimal(target(e.value), at)})
	}
	slices.SortFunc(all, func(a, b WeightedLength) int { return cmp.Compare(a.Tokens, b.Tokens) })
	return all
}

func (l Lengths) validate(r *report, p path, bounds *interval) {
	if n := len(l.Ladder) + len(l.Mix); n > maxLengths {
		r.errorf(p, "%d lengths, more than %d", n, maxLengths)
	}
	checkBounds := func(at path, n int) {
		if !bounds.contains(float64(n)) {
			r.errorf(at, "must be %s, got %d", bounds, n)
		}
	}
	for i, n := range l.Ladder {
		at := p
		if r.written(p.index(i)) {
			at = p.index(i)
		}
		checkBounds(at, n)
		if slices.Contains(l.Ladder[:i], n) {
			r.errorf(at, "%d is listed twice", n)
		}
	}
	for _, w := range l.Mix {
		at := p.key(strconv.Itoa(w.Tokens))
		checkBounds(at, w.Tokens)
		if !isWeight(w.Weight) {
			r.errorf(at, "expected a weight above 0 and up to %d, got %v", maxWeight, w.Weight)
		}
	}
}

// isWeight reports whether something may be drawn that often relative to others.
func isWeight(weight float64) bool { return weight > 0 && weight <= maxWeight }

// Traffic has a module ask what users ask: requests whose lengths are drawn from what
// the servers of the endpoint counted lately.
type Traffic struct {
	// MaxInputTokens bounds the length of prompts, as a budget does: longer ones are cut to it.
	MaxInputTokens int `yaml:"max_input_tokens" default:"4096" range:"[1,2000000]"`
	// MaxOutputTokens bounds the length of answers in the same way.
	MaxOutputTokens int `yaml:"max_output_tokens" default:"256" range:"[1,100000]"`
}

// MeanLengths returns the mean lengths of prompts and answers that are asked; 0 of those that are not made to length.
// Where they are those of users, it is what is asked until these are known.
func (m *Module) MeanLengths() TracedRequest {
	if m.Load != nil && m.Load.Trace != nil {
		return m.Load.Mean
	}
	return TracedRequest{Input: m.InputTokens.Mean(), Output: m.OutputTokens.Mean()}
}

// MaxInput returns how many tokens a prompt that is made to length is to have at most.
func (m *Module) MaxInput() int { return max(m.InputTokens.Max(), m.longest().Input) }

// MaxOutput returns how many tokens an answer may have at most.
func (m *Module) MaxOutput() int { return max(m.OutputTokens.Max(), m.longest().Output) }

// longest returns the longest prompt and answer of lengths that are drawn from users or from a recording.
func (m *Module) longest() (most TracedRequest) {
	if m.Traffic != nil {
		most.Input, most.Output = m.Traffic.MaxInputTokens, m.Traffic.MaxOutputTokens
	}
	if m.Load != nil {
		most.Input, most.Output = max(most.Input, m.Load.Longest.Input), max(most.Output, m.Load.Longest.Output)
	}
	return most
}

// turnTokens is more tokens than a turn adds to the prompt of the next one beside
// its answer: the text of the user and the template around both messages.
const turnTokens = 128

// IsRelated reports whether a run asks requests one after the other whose prompts begin alike.
func (p Prefix) IsRelated() bool { return p == PrefixPaired || p == PrefixConversation }

// First returns the policy of the first request of a run.
func (p Prefix) First() Prefix {
	if p.IsRelated() {
		return PrefixCold
	}
	return p
}

// TurnsBefore returns how many tokens more the prompt of a turn may have than that
// of the first turn, which is 1: the turns before it, with their answers.
func (m *Module) TurnsBefore(turn int) int {
	return max(0, turn-1) * (m.OutputTokens.Max() + turnTokens)
}
