package page

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/config"
)

const textFormat = "text/plain; version=0.0.4; charset=utf-8"

// golden is a recorded page with what is to be read of it.
type golden[W any] struct {
	name        string
	text        []byte
	contentType string
	want        W
	server      string // that showed it; "" of a page that was composed
	recorded    string // the day on which it did
}

// goldenPage is a page of testdata/pages.
type goldenPage = golden[goldenSnapshot]

// goldenSnapshot is a Snapshot as it is written by hand.
type goldenSnapshot struct {
	Engine          string                               `yaml:"engine"`
	Model           string                               `yaml:"model"` // of the endpoint, given to the reader
	Found           string                               `yaml:"found"` // by probing, where the page alone does not identify the engine
	Progress        bool                                 `yaml:"progress"`
	Settings        map[config.Setting]string            `yaml:"settings"`
	Values          map[config.Quantity]float64          `yaml:"values"`
	Requests        map[string]float64                   `yaml:"requests"`
	PrefixCacheUnit string                               `yaml:"prefix_cache_unit"`
	Role            string                               `yaml:"role"`
	Histograms      map[config.Quantity]*goldenHistogram `yaml:"histograms"`
	Missing         []config.Quantity                    `yaml:"missing"`
}

// goldenHistogram is a histogram with some of its buckets.
type goldenHistogram struct {
	Count  uint64             `yaml:"count"`
	Sum    float64            `yaml:"sum"`
	Bounds int                `yaml:"bounds"`
	At     map[float64]uint64 `yaml:"at"` // observations up to a bound
}

func goldenPages(t *testing.T) []goldenPage {
	t.Helper()
	return readGolden[goldenSnapshot](t, "pages", "servers")
}

// recordedOn is the day on which a real server showed a page.
var recordedOn = regexp.MustCompile(`(?m)^recorded: "(\d{4}-\d\d-\d\d)"\n`)

// readGolden reads a folder of testdata: each NAME.txt, or NAME.json, has its NAME.want.yml. A page that was composed says so
// in its first line, one of JSON in that of the other file.
func readGolden[W any](t *testing.T, folder ...string) []golden[W] {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", filepath.Join(folder...), "*.[tj][xs]*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	var pages []golden[W]
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, contentType := strings.TrimSuffix(file, ".txt"), textFormat
		if n, isJSON := strings.CutSuffix(file, ".json"); isJSON {
			name, contentType = n, "application/json; charset=utf-8"
		}
		data, err := os.ReadFile(name + ".want.yml")
		if err != nil {
			t.Fatal(err)
		}
		p := golden[W]{name: filepath.Base(name), text: text, contentType: contentType}
		first, _, _ := strings.Cut(string(data), "\n")
		if !bytes.HasPrefix(text, []byte("# composed ")) && !strings.HasPrefix(first, "# composed ") {
			p.server = strings.TrimSuffix(strings.TrimPrefix(first, "# "), ".")
		}
		if m := recordedOn.FindSubmatch(data); m != nil {
			p.recorded, data = string(m[1]), recordedOn.ReplaceAll(data, nil)
		}
		if (p.recorded == "") != (p.server == "") && folder[len(folder)-1] != string(Accelerators) {
			t.Errorf("%s: recorded on %q, by %q", p.name, p.recorded, p.server)
		}
		d := yaml.NewDecoder(bytes.NewReader(data))
		d.KnownFields(true)
		if err := d.Decode(&p.want); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		pages = append(pages, p)
	}
	return pages
}

func mappings(t *testing.T, own map[string]*config.Mapping) *Mappings {
	t.Helper()
	m := NewMappings(Servers, own)
	return m
}

// What is read of a page is what it contains, and nothing else; the engine is
// identified without a hint.
func TestGoldenPages(t *testing.T) {
	m := mappings(t, nil)
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	engines := map[string]bool{}
	for _, p := range goldenPages(t) {
		engines[p.want.Engine] = true
		t.Run(p.name, func(t *testing.T) {
			got, err := m.NewReader().Read(p.text, p.contentType, at, Want{Found: p.want.Found, Model: p.want.Model})
			if err != nil {
				t.Fatal(err)
			}
			compareGolden(t, &p.want, got)
			if p.want.Progress && !got.LastProgress.Equal(at) || !p.want.Progress && !got.LastProgress.IsZero() {
				t.Errorf("last progress %v, want one: %v", got.LastProgress, p.want.Progress)
			}
			hinted, err := m.NewReader().Read(p.text, p.contentType, at, Want{Engine: p.want.Engine, Model: p.want.Model})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(got, hinted); d != "" {
				t.Errorf("the name of the engine changes what is read of its page:\n%s", d)
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(m.byName)) {
		if !engines[name] {
			t.Errorf("no page of %s", name)
		}
	}
}

func compareGolden(t *testing.T, want *goldenSnapshot, got *Snapshot) {
	t.Helper()
	histograms := map[config.Quantity]*goldenHistogram{}
	for q, h := range got.Histograms {
		g := &goldenHistogram{Count: h.Count, Sum: h.Sum, Bounds: len(h.Bounds)}
		if w := want.Histograms[q]; w != nil && w.At != nil {
			g.At = map[float64]uint64{}
			for bound := range w.At {
				if i, ok := slices.BinarySearch(h.Bounds, bound); ok {
					g.At[bound] = h.Counts[i]
				}
			}
		}
		histograms[q] = g
	}
	same := cmp.Options{cmpopts.EquateApprox(1e-12, 0), cmpopts.EquateEmpty()}
	read := &goldenSnapshot{
		Engine: got.Engine, Model: want.Model, Found: want.Found, Progress: want.Progress, Settings: got.Settings, Values: got.Values, Requests: got.Requests,
		PrefixCacheUnit: got.PrefixCacheUnit, Role: got.Role, Histograms: histograms, Missing: got.Missing,
	}
	if d := cmp.Diff(want, read, same); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if got.PrefixCacheRatio >= 0 {
		t.Errorf("hit ratio %v after one reading", got.PrefixCacheRatio)
	}
}

// The labels that a mapping calls copies never add up: a page that has every
// sample a second time, with another value of such a label, reads the same.
func TestCopiesDoNotAdd(t *testing.T) {
	m := mappings(t, nil)
	for _, p := range goldenPages(t) {
		for _, label := range m.Mapping(p.want.Engine).Copies {
			t.Run(p.name+"/"+label, func(t *testing.T) {
				page := secondSamples(p.text, func(labels string) (string, bool) {
					if before, after, ok := strings.Cut(labels, label+`="`); ok {
						return before + label + `="second-` + after, true
					}
					return strings.TrimPrefix(labels+","+label+`="second"`, ","), true
				})
				compareSame(t, m, &p, page)
			})
		}
	}
}

// The samples of other models do not count where the page has those of the
// endpoint's model.
func TestOtherModelsDoNotCount(t *testing.T) {
	m := mappings(t, nil)
	for _, p := range goldenPages(t) {
		name := m.Mapping(p.want.Engine).ModelLabel
		own := name + `="` + p.want.Model + `"`
		if name == "" || p.want.Model == "" || !bytes.Contains(p.text, []byte(own)) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			page := secondSamples(p.text, func(labels string) (string, bool) {
				other := strings.Replace(labels, own, name+`="acme/second"`, 1)
				return other, other != labels
			})
			compareSame(t, m, &p, page)
		})
	}
}

// secondSamples adds samples to a page: after each one, what other makes of its
// labels, unless that is false.
func secondSamples(page []byte, other func(labels string) (string, bool)) []byte {
	var b bytes.Buffer
	for line := range strings.Lines(string(page)) {
		b.WriteString(line)
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if strings.HasPrefix(line, "#") || !ok {
			continue
		}
		name, labels, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
		if labels, ok := other(labels); ok {
			fmt.Fprintf(&b, "%s{%s} %s\n", name, labels, value)
		}
	}
	return b.Bytes()
}

// compareSame compares what is read of another page with what is wanted of p.
func compareSame(t *testing.T, m *Mappings, p *goldenPage, page []byte) {
	t.Helper()
	if len(page) <= len(p.text) {
		t.Fatal("the page has not grown")
	}
	got, err := m.NewReader().Read(page, textFormat, time.Time{}, Want{Model: p.want.Model})
	if err != nil {
		t.Fatal(err)
	}
	compareGolden(t, &p.want, got)
}

// A series that was renamed is absent and said to be missing; three lines of
// configuration bring it back.
func TestRenamedSeries(t *testing.T) {
	i := slices.IndexFunc(goldenPages(t), func(p goldenPage) bool { return p.name == "vllm-v1-dp2" })
	p := goldenPages(t)[i]
	page := bytes.ReplaceAll(p.text, []byte("vllm:num_requests_waiting{"), []byte("vllm:queue_length{"))
	page = bytes.ReplaceAll(page, []byte("vllm:num_requests_waiting gauge"), []byte("vllm:queue_length gauge"))

	got, err := mappings(t, nil).NewReader().Read(page, textFormat, time.Time{}, Want{Model: p.want.Model})
	if err != nil {
		t.Fatal(err)
	}
	without := maps.Clone(p.want.Values)
	delete(without, config.RequestsWaiting)
	if d := cmp.Diff(without, got.Values); d != "" {
		t.Errorf("renamed (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]config.Quantity{config.RequestsWaiting}, got.Missing); d != "" {
		t.Errorf("missing (-want +got):\n%s", d)
	}

	c, err := config.Parse([]byte(`
endpoints: [{url: "http://localhost:8000"}]
engines: {vllm: {values: {requests_waiting: [{series: "vllm:queue_length"}]}}}
`), "test.yml")
	if err != nil {
		t.Fatal(err)
	}
	got, err = mappings(t, c.Engines).NewReader().Read(page, textFormat, time.Time{}, Want{Model: p.want.Model})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(p.want.Values, got.Values); d != "" || got.Missing != nil {
		t.Errorf("with a mapping of its own (-want +got):\n%s\nmissing: %v", d, got.Missing)
	}
}
