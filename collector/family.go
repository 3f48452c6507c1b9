package collector

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// namePrefix begins the name of every family of this program.
const namePrefix = "inference_"

// Type is the type of a metric family, in the words of the text format.
type Type string

const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
	Summary   Type = "summary"
)

// typeOf returns the type of a family of this name that is no histogram or summary.
func typeOf(name string) Type {
	if strings.HasSuffix(name, "_total") {
		return Counter
	}
	return Gauge
}

// Group is what a family describes.
type Group string

// The groups, in the order of the documentation.
const (
	GroupEndpoint Group = "endpoint" // what is configured
	GroupProbe    Group = "probe"    // what the probes found
	GroupServer   Group = "server"   // the servers' own metrics
	GroupGateway  Group = "gateway"  // the pages of gateways in front of endpoints
	GroupGPU      Group = "gpu"      // the GPUs of this machine
	GroupExporter Group = "exporter" // the exporter itself
)

// Family describes one metric family.
type Family struct {
	// Name is the full name.
	Name string
	// Group is what the family describes.
	Group Group
	// Type is the metric type.
	Type Type
	// Unit is the base unit, always a suffix of Name (less _total); empty for plain counts and states.
	Unit string
	// Labels are the label names. Families of endpoints, probes and servers carry the configured labels as well. A
	// label without a value is left out: the model while it is not known, and the lengths and the concurrency of
	// modules that have one length and ask one request at a time.
	Labels []string
	// Values is the closed set of values of the last of Labels; nil where that label is open.
	Values []string
	// Kinds are the kinds of endpoint that have the family; nil is all. A
	// family that means nothing for a kind is absent there, and not 0.
	Kinds []api.Kind
	// Help is the meaning, in one or two sentences, and Notes what the documentation has to say beside it.
	Help, Notes string
}

// opts returns the description in client_golang's form.
func (f Family) opts() prometheus.Opts {
	return prometheus.Opts{Name: f.Name, Help: f.Help, Unit: f.Unit}
}

// histogramOpts returns the description of a classic and native histogram in client_golang's form.
func (f Family) histogramOpts(bounds []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: f.Name, Help: f.Help, Unit: f.Unit, Buckets: bounds,
		NativeHistogramBucketFactor:    nativeFactor,
		NativeHistogramMaxBucketNumber: nativeMaxBuckets,
		NativeHistogramMaxExemplars:    -1,
	}
}

// Catalogue returns every family that the exporter can expose under its own prefix, group by group. The families of the
// Go runtime and the process come from client_golang and are not listed.
func Catalogue() []Family {
	probes := stats.Map(probeFamilies(), func(f *probeFamily) Family { return f.Family })
	return slices.Concat(
		sections()["endpoints"], probes, descriptions(findingsFamilies()), descriptions(serverFamilies()), gatewayFamilies(),
		gpuFamilies(), sections()["pods"], sections()["gpu pages"], sections()["exporter"],
	)
}

func descriptions[V any](families []*familyOf[V]) []Family {
	return stats.Map(families, func(f *familyOf[V]) Family { return f.Family })
}

// ReservedLabels returns the label names that the families use themselves, so
// that no configured label may have one of them. Sorted, and not to be changed.
func ReservedLabels() []string { return reservedLabels() }

var reservedLabels = sync.OnceValue(func() []string {
	names := []string{"le", "quantile"}
	for _, f := range Catalogue() {
		if f.Group != GroupGateway && f.Group != GroupGPU && f.Group != GroupExporter {
			names = append(names, f.Labels...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
})

// family is a Family of a store with everything rendered that is the same for all of its series.
type family struct {
	Family
	// own is the label that the family adds to those of a series.
	own ownLabel
	// pairs are the rendered pairs of that label, one for each of Values, or a single empty one.
	pairs []labelText
	// order lists the indexes of pairs in the order of the label's values.
	order []int
	// bounds are the upper bounds of a histogram, without +Inf; nil where each series has its own.
	bounds []float64
	// text and open are the parts of the two text formats, proto is the part
	// of the protobuf message before its metrics.
	text, open lineParts
	proto      string
}

// familyOf is a family whose samples come from a V.
type familyOf[V any] struct {
	*family
	// emit encodes the samples of one series.
	emit func(e encoder, f *family, v V)
}

// emitValue encodes a counter or a gauge unless it is NaN.
func emitValue(e encoder, t Type, own int, v float64) {
	switch {
	case math.IsNaN(v):
	case t == Counter:
		e.counter(own, v)
	default:
		e.gauge(own, v)
	}
}

// emitOne emits the value of a series; NaN is absent.
func emitOne[V any](get func(v V) float64) func(e encoder, f *family, v V) {
	return func(e encoder, f *family, v V) { emitValue(e, f.Type, 0, get(v)) }
}

// emitEach emits the values of a series by index in the values of the own label; NaN is absent.
func emitEach[V any](get func(v V, i int) float64) func(e encoder, f *family, v V) {
	return func(e encoder, f *family, v V) {
		for _, i := range f.order {
			emitValue(e, f.Type, i, get(v, i))
		}
	}
}

// newOf returns a family of families.yml, given without the prefix of its name.
func newOf[V any](name string, emit func(e encoder, f *family, v V)) *familyOf[V] {
	return &familyOf[V]{newFamily(written(name), nil), emit}
}

// newInfo returns a family of families.yml whose samples are 1, each with all labels of a series.
func newInfo[V any](name string, blocks func(v V) []*labelBlock) *familyOf[V] {
	return newOf(name, func(e encoder, _ *family, v V) {
		for _, block := range blocks(v) {
			e.labels(block, time.Time{})
			e.gauge(0, 1)
		}
	})
}

// inOrder sorts families by name, as a page has them.
func inOrder[V any](families []*familyOf[V]) []*familyOf[V] {
	slices.SortFunc(families, func(a, b *familyOf[V]) int { return strings.Compare(a.Name, b.Name) })
	return families
}

// lineParts are the constant parts of a family in a text format.
type lineParts struct {
	header                     string   // comment lines
	sample, bucket, sum, count string   // names, each with its opening brace
	le                         []string // bound labels with the closing brace, +Inf last
}

// newFamily renders the constant parts of a family. The last of its labels is its own if it has
// values. The type may be left to the name.
func newFamily(f Family, bounds []float64) *family {
	f.Type = cmp.Or(f.Type, typeOf(f.Name))
	out := &family{Family: f, bounds: bounds, pairs: []labelText{{}}, order: []int{0}}
	if f.Values != nil {
		own := f.Labels[len(f.Labels)-1]
		out.own, out.pairs, out.order = ownLabel(max(0, slices.Index(ownNames[:], own))), nil, nil
		for i, v := range f.Values {
			text, proto := appendPair(nil, nil, pair{own, v})
			out.pairs = append(out.pairs, labelText{string(text), string(proto)})
			out.order = append(out.order, i)
		}
		slices.SortFunc(out.order, func(a, b int) int { return strings.Compare(f.Values[a], f.Values[b]) })
	}
	out.text = textParts(&out.Family, bounds, false)
	out.open = textParts(&out.Family, bounds, true)
	out.proto = protoHeader(&out.Family)
	return out
}

// textParts renders the constant parts for the text format 0.0.4 or, if open, for OpenMetrics 1.0.
func textParts(f *Family, bounds []float64, open bool) lineParts {
	help, name, unit := strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(f.Help), f.Name, ""
	if open {
		help = strings.ReplaceAll(help, `"`, `\"`)
		// OpenMetrics names a counter's family without the suffix of its sample.
		name = strings.TrimSuffix(f.Name, "_total")
		if f.Unit != "" {
			unit = "# UNIT " + name + " " + f.Unit + "\n"
		}
	}
	p := lineParts{
		header: "# HELP " + name + " " + help + "\n# TYPE " + name + " " + string(f.Type) + "\n" + unit,
		sample: f.Name + "{",
		bucket: f.Name + "_bucket{",
		sum:    f.Name + "_sum{",
		count:  f.Name + "_count{",
	}
	for _, b := range bounds {
		p.le = append(p.le, `le="`+string(appendFloat(nil, b, open))+`"} `)
	}
	p.le = append(p.le, `le="+Inf"} `)
	return p
}

// protoHeader renders the fields of a MetricFamily message other than its metrics.
func protoHeader(f *Family) string {
	kind := map[Type]dto.MetricType{
		Counter: dto.MetricType_COUNTER, Gauge: dto.MetricType_GAUGE,
		Histogram: dto.MetricType_HISTOGRAM, Summary: dto.MetricType_SUMMARY,
	}[f.Type]
	b := appendString(nil, fieldFamilyName, f.Name)
	b = appendString(b, fieldFamilyHelp, f.Help)
	b = protowire.AppendTag(b, fieldFamilyType, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(kind))
	if f.Unit != "" {
		b = appendString(b, fieldFamilyUnit, f.Unit)
	}
	return string(b)
}

// maxModelBytes bounds the model label, which a server chooses.
const maxModelBytes = 128

// ownLabel is a label that a family adds to those of its series, as an index in ownNames. A label
// block knows for each where it goes, because labels are sorted by name.
type ownLabel int

const ownNone ownLabel = 0

// ownNames are the names of the own labels, sorted; the first is none.
var ownNames = [...]string{
	"", "cause", "end", "finding", "finish", "incident", "kind", "load", "metric", "outcome", "part", "phase", "quantity", "reason", "resource", "setting", "side", "slo", "source", "stat",
	"state", "verdict", "when", "witness",
}

type pair struct{ name, value string }

// labelText holds labels in rendered form.
type labelText struct {
	text  string // name="value", with a comma after each
	proto string // the label fields of a Metric message
}

// labelBlock is the label set of one series, rendered once. It is immutable.
type labelBlock struct {
	labelText
	at *ownPlaces // shared: there is a block for each series
}

// ownPlaces is where each own label goes among the others of a block.
type ownPlaces [len(ownNames)]struct{ text, proto uint32 }

// labeller renders the labels of the series of a store. It is safe for concurrent use.
type labeller struct {
	reserved []string

	mu     sync.Mutex
	places map[ownPlaces]*ownPlaces // of blocks whose labels are of the same lengths
}

// maxPlaces bounds the places that are shared: where most lengths differ, sharing gains nothing.
const maxPlaces = 1 << 10

func newLabeller() *labeller {
	return &labeller{reserved: ReservedLabels(), places: map[ownPlaces]*ownPlaces{}}
}

// share returns the same places for equal ones.
func (l *labeller) share(at ownPlaces) *ownPlaces {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.places[at]; known != nil {
		return known
	}
	own := new(at)
	if len(l.places) < maxPlaces {
		l.places[at] = own
	}
	return own
}

// block renders base and the configured labels. Empty values are left out, as they mean the same as no label; so are
// configured labels with a reserved name, which would make a page that nobody can read.
func (l *labeller) block(base []pair, configured map[string]string) *labelBlock {
	all := make([]pair, 0, 32) // as many as there mostly are, so that they need no heap
	for _, p := range base {
		if p.value != "" {
			all = append(all, pair{p.name, strings.ToValidUTF8(p.value, "\uFFFD")})
		}
	}
	for name, value := range configured {
		if value != "" && !slices.Contains(l.reserved, name) {
			all = append(all, pair{name, strings.ToValidUTF8(value, "\uFFFD")})
		}
	}
	slices.SortFunc(all, func(x, y pair) int { return strings.Compare(x.name, y.name) })
	text, at := renderBlock(all)
	return &labelBlock{text, l.share(at)}
}

// renderBlock renders labels that are sorted by name.
func renderBlock(all []pair) (labelText, ownPlaces) {
	var at ownPlaces
	text, proto := make([]byte, 0, 1<<10), make([]byte, 0, 1<<10) // mostly enough, as above
	own := ownNone + 1
	mark := func(until func(string) bool) {
		for ; int(own) < len(ownNames) && until(ownNames[own]); own++ {
			at[own].text, at[own].proto = uint32(len(text)), uint32(len(proto))
		}
	}
	for _, p := range all {
		mark(func(name string) bool { return name < p.name })
		text, proto = appendPair(text, proto, p)
	}
	mark(func(string) bool { return true })
	at[ownNone].text, at[ownNone].proto = uint32(len(text)), uint32(len(proto))
	both := string(append(text, proto...)) // in one piece, and no more room than they need
	return labelText{both[:len(text)], both[len(text):]}, at
}

// valueEscaper writes the value of a label as both text formats want it.
var valueEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// appendPair appends one label in both forms.
func appendPair(text, proto []byte, p pair) (longerText, longerProto []byte) {
	text = append(append(text, p.name...), `="`...)
	text = append(append(text, valueEscaper.Replace(p.value)...), `",`...)
	message := appendString(appendString(make([]byte, 0, 256), fieldPairName, p.name), fieldPairValue, p.value)
	proto = protowire.AppendTag(proto, fieldMetricLabel, protowire.BytesType)
	return text, protowire.AppendBytes(proto, message)
}

// compareLabels orders label sets as client_golang orders the metrics of a
// family: by number of labels, then by values in the order of the names.
func compareLabels(a, b *labelBlock) int {
	first := 0 // that differs
	x, y := a.proto, b.proto
	for x != "" && y != "" {
		var v, w string
		v, x = nextValue(x)
		w, y = nextValue(y)
		first = cmp.Or(first, strings.Compare(v, w))
	}
	return cmp.Or(len(x)-len(y), first) // more labels are left of one of them, or of none
}

// nextValue returns the value of the first label of rendered ones, and those after it.
func nextValue(proto string) (value, rest string) {
	label, rest := cutField(proto)
	_, label = cutField(label) // the name
	value, _ = cutField(label)
	return value, rest
}

// cutField returns the content of the first field of bytes of a protobuf message, whose
// tag is one byte, and what follows it.
func cutField(message string) (content, rest string) {
	n, i := int(message[1]&0x7f), 1
	for shift := 7; message[i] >= 0x80; shift += 7 {
		i++
		n |= int(message[i]&0x7f) << shift
	}
	return message[i+1 : i+1+n], message[i+1+n:]
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
