package collector

import (
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxModelBytes bounds the model label, the one value that a server chooses.
const maxModelBytes = 128

// ownLabel is a label that a family adds to those of its series. A label block
// knows for each where it goes, because labels are sorted by name.
type ownLabel int

const (
	ownNone ownLabel = iota
	ownFinish
	ownKind
	ownOutcome
	ownPhase
	ownQuantity
	ownReason
	ownResource
	ownSLO
	ownSource
	ownStat
	ownState
	ownVerdict
	numOwn
)

// ownNames are the names of the own labels, sorted.
var ownNames = [numOwn]string{
	ownFinish: "finish", ownKind: "kind", ownOutcome: "outcome", ownPhase: "phase", ownQuantity: "quantity",
	ownReason: "reason", ownResource: "resource", ownSLO: "slo", ownSource: "source", ownStat: "stat", ownState: "state",
	ownVerdict: "verdict",
}

// ownLabelOf returns the own label of a name; ownNone for an unknown one.
func ownLabelOf(name string) ownLabel {
	return ownLabel(max(0, slices.Index(ownNames[:], name)))
}

// pair is one label.
type pair struct{ name, value string }

// labelText holds labels in rendered form.
type labelText struct {
	text  string // name="value", with a comma after each
	proto string // the label fields of a Metric message
}

// labelBlock is the label set of one series, rendered once. It is immutable.
type labelBlock struct {
	pairs []pair // sorted by name
	labelText
	// at is where each own label goes. Small numbers, because there is a block for
	// each series.
	at [numOwn]struct{ text, proto uint32 }
}

// newLabelBlock renders base and the configured labels. Empty values are left
// out, as they mean the same as no label; so are configured labels with a
// reserved name, which would make a page that nobody can read.
func newLabelBlock(base []pair, configured map[string]string, reserved []string) *labelBlock {
	b := &labelBlock{}
	for _, p := range base {
		if p.value != "" {
			b.pairs = append(b.pairs, pair{p.name, strings.ToValidUTF8(p.value, "\uFFFD")})
		}
	}
	for name, value := range configured {
		if value != "" && !slices.Contains(reserved, name) {
			b.pairs = append(b.pairs, pair{name, strings.ToValidUTF8(value, "\uFFFD")})
		}
	}
	slices.SortFunc(b.pairs, func(x, y pair) int { return strings.Compare(x.name, y.name) })
	b.render()
	return b
}

// render fills the rendered forms from the pairs.
func (b *labelBlock) render() {
	var text, proto strings.Builder
	own := ownNone + 1
	mark := func(until func(string) bool) {
		for ; own < numOwn && until(ownNames[own]); own++ {
			b.at[own].text, b.at[own].proto = uint32(text.Len()), uint32(proto.Len())
		}
	}
	for _, p := range b.pairs {
		mark(func(name string) bool { return name < p.name })
		r := renderPair(p)
		text.WriteString(r.text)
		proto.WriteString(r.proto)
	}
	mark(func(string) bool { return true })
	b.at[ownNone].text, b.at[ownNone].proto = uint32(text.Len()), uint32(proto.Len())
	b.text, b.proto = text.String(), proto.String()
}

// valueEscaper writes the value of a label as both text formats want it.
var valueEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// renderPair renders one label.
func renderPair(p pair) labelText {
	escaped := valueEscaper.Replace(p.value)
	message := appendString(appendString(nil, fieldPairName, p.name), fieldPairValue, p.value)
	proto := protowire.AppendTag(nil, fieldMetricLabel, protowire.BytesType)
	return labelText{
		text:  p.name + `="` + escaped + `",`,
		proto: string(protowire.AppendBytes(proto, message)),
	}
}

// compareLabels orders label sets as client_golang orders the metrics of a
// family: by number of labels, then by values in the order of the names.
func compareLabels(a, b *labelBlock) int {
	if d := len(a.pairs) - len(b.pairs); d != 0 {
		return d
	}
	for i := range a.pairs {
		if d := strings.Compare(a.pairs[i].value, b.pairs[i].value); d != 0 {
			return d
		}
	}
	return 0
}

// boundModel makes a server's model name fit for a label value.
func boundModel(name string) string {
	name = strings.ToValidUTF8(name, "\uFFFD")
	if len(name) <= maxModelBytes {
		return name
	}
	cut := maxModelBytes
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut]
}
