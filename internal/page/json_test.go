package page

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/inference-exporter/inference_exporter/config"
)

const jsonFormat = "application/json; charset=utf-8"

func TestFlatten(t *testing.T) {
	for _, tc := range []struct{ name, page, want string }{
		{"numbers", `{"b":{"c":1.5,"d":-2},"a":1e3}`, "a 1000\nb_c 1.5\nb_d -2\n"},
		{"booleans, nothing and texts of no list", `{"up":true,"down":false,"none":null,"id":"x"}`, "down 0\nup 1\n"},
		{"a time", `{"at":"1970-01-01T01:00:30.25+01:00","day":"1970-01-01"}`, "at 30.25\n"},
		{"an empty list", `{"models":[]}`, "models 0\n"},
		{"texts of an object in a list", `{"m":[{"name":"a","n":1,"d":{"kind":"k","n":2},"at":"1970-01-01T00:00:01Z"},{"n":3}]}`, `m 2
m_at{d_kind="k",name="a"} 1
m_d_n{d_kind="k",name="a"} 2
m_n{d_kind="k",name="a"} 1
m_n 3
`},
		{"a list in a list", `{"a":{"m":[{"name":"x","r":[{"name":"y","n":1}]}]}}`, `a_m 1
a_m_r{name="x"} 1
a_m_r_n{name="x",r_name="y"} 1
`},
		{"other items", `{"m":[1,"a",[2],{"n":3}]}`, "m 4\nm_n 3\n"},
		{"a list alone", `[{"name":"a","n":1}]`, `n{name="a"} 1` + "\n"},
		{"a number alone", `5`, ""},
		{"keys that are no names", `{"1d":1,"a-b":{"é.c":2},"":3}`, "_ 3\n_1d 1\na_b___c 2\n"},
		{"texts that are escaped", `{"m":[{"s":"a\"b\\c\nd\u0000e","n":1}]}`, `m 1` + "\n" + `m_n{s="a\"b\\c\nde"} 1` + "\n"},
		{"a long text", `{"m":[{"s":"` + strings.Repeat("x", maxJSONText+1) + `","n":1}]}`, "m 1\nm_n 1\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := flatten([]byte(tc.page))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, string(got)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// What a page of JSON makes a reader hold is bounded, whatever it is.
func TestFlattenBounds(t *testing.T) {
	texts := func(n int) string { // an object with texts of n bytes and more
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, `"k%d":"%s",`, i, strings.Repeat("x", maxJSONText))
		}
		return b.String()
	}
	numbers := strings.TrimSuffix(strings.Repeat(`{"n":1},`, 1000), ",")
	for _, tc := range []struct {
		name, page string
		reason     Reason
	}{
		{"too long", `[` + strings.Repeat(" ", maxJSON) + `]`, ReasonTooLarge},
		{"a text for each of many numbers", `{"m":[{` + texts(15<<10) + `"r":[` + numbers + `]}]}`, ReasonTooLarge},
		{"cut off", `{"m":[`, ReasonFormat},
		{"no JSON", `<html>`, ReasonFormat},
		{"a number that is none", `{"n":1e999}`, ReasonFormat},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := flatten([]byte(tc.page))
			if p, ok := err.(*PageError); !ok || p.Reason != tc.reason {
				t.Errorf("error %v, want one of reason %s", err, tc.reason)
			}
		})
	}
	deep := strings.Repeat(`{"a":`, maxJSONDepth+1) + "1" + strings.Repeat("}", maxJSONDepth+1)
	if got, err := flatten([]byte(deep)); err != nil || len(got) > 0 {
		t.Errorf("an object too deep: %q, %v; want nothing", got, err)
	}
	got, err := flatten([]byte(`{"m":[{` + texts(maxJSON-1000) + `"n":1}]}`))
	if err != nil || len(got) > 2*maxSeriesBytes {
		t.Errorf("an object of texts: %v, %d bytes for two samples", err, len(got))
	}
}

const ownJSON = `
endpoints: [{url: "http://localhost:8000"}]
engines:
  acme:
    sentinels: [queue_length]
    format: json
    values:
      requests_waiting: [{series: queue_length}]
      kv_cache_usage_ratio: [{series: cache_used, over: {series: cache_size}}]
`

// A page of JSON is read by a mapping of JSON alone, and one of Prometheus by no such mapping.
func TestFormatOfMapping(t *testing.T) {
	c, err := config.Parse([]byte(ownJSON), "test.yml")
	if err != nil {
		t.Fatal(err)
	}
	m := mappings(t, c.Engines)
	read := func(page, contentType string, w Want) (*Snapshot, error) {
		return m.NewReader().Read([]byte(page), contentType, time.Unix(1, 0), w)
	}
	s, err := read(`{"queue_length":3,"cache":{"used":5,"size":20}}`, jsonFormat, Want{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[config.Quantity]float64{config.RequestsWaiting: 3, config.KVCacheUsage: 0.25}, s.Values); d != "" || s.Engine != "acme" {
		t.Errorf("engine %s (-want +got):\n%s", s.Engine, d)
	}
	for _, size := range []string{"0", "null"} {
		if s, err = read(`{"queue_length":3,"cache":{"used":5,"size":`+size+`}}`, jsonFormat, Want{}); err != nil || len(s.Values) != 1 {
			t.Errorf("a part of %s: %v, %v; want no share", size, s, err)
		}
	}
	const other = `content type "application/json": want the text format of Prometheus`
	for _, tc := range []struct {
		name, page, contentType string
		want                    Want
		reason                  Reason
		text                    string
	}{
		{"another object", `{"iterations":7}`, jsonFormat, Want{}, ReasonFormat, other},
		{"an object without numbers", `{}`, jsonFormat, Want{Engine: "acme"}, ReasonFormat, other},
		{"the series of an engine's page", `{"vllm":{"num_requests_running":1}}`, jsonFormat, Want{Engine: "vllm"}, ReasonFormat, other},
		{"the series of JSON on a page", "queue_length 3\n", textFormat, Want{Engine: "acme"}, ReasonUnmapped, ""},
		{"a text", "queue_length 3\n", jsonFormat, Want{Engine: "acme"}, ReasonFormat, ""},
	} {
		_, err := read(tc.page, tc.contentType, tc.want)
		if p, ok := err.(*PageError); !ok || p.Reason != tc.reason || tc.text != "" && err.Error() != tc.text {
			t.Errorf("%s: error %v, want reason %s", tc.name, err, tc.reason)
		}
	}
}

// An endpoint that probing found to be Ollama has its page without any configuration, beside whatever path of the API it
// names; one of an unknown engine is not asked for it.
func TestOllamaIsFound(t *testing.T) {
	s := newSite(t, pages{"/api/ps": answer(`{"models":[{"name":"m:latest","size":10,"size_vram":5}]}`, "Content-Type", jsonFormat)})
	for _, path := range []string{"", "/v1", "/api/chat"} {
		l := newLab(t, func(c *config.Endpoint, o *Options) {
			o.Mappings = NewMappings(Servers, nil)
			c.URL, c.Servers.Find, c.Model = urlOf(t, s.URL+path), true, "m:latest"
		})
		l.known.Engine = "ollama"
		got := l.expect(s, path, []string{"/api/ps"}, Up)
		want := map[config.Quantity]float64{"models_loaded": 1, "loaded_models_bytes": 10, "loaded_models_gpu_bytes": 5}
		if d := cmp.Diff(want, got[0].Snapshot.Values); d != "" || got[0].Server != s.Listener.Addr().String() {
			t.Errorf("server %s (-want +got):\n%s", got[0].Server, d)
		}
	}
	if slices.Contains(mappings(t, nil).Pages(""), "/api/ps") {
		t.Error("a server of an unknown engine is asked for /api/ps")
	}
}

// FuzzFlatten holds that what is made of JSON is a page that can be parsed, within its bounds.
func FuzzFlatten(f *testing.F) {
	for _, seed := range []string{
		`{"models":[{"name":"a:b","size":1,"details":{"families":["x"],"kind":"k"},"expires_at":"2026-11-26T14:38:31.5-07:00"}]}`,
		`[{"a":[{"b":[{"c":"d","e":true}]}]},null,1]`, `{"":{"":[{"":"","__name__":"x","le":"1"}]}}`, `{"m_bucket":[{"le":"+Inf","n":1}]}`,
		`{"a\u0000":[{"\"":"\\\n","n":-0.0}]}`, `5`, `[[[[]]]]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := openPage([]byte(text), jsonFormat)
		if err != nil {
			checkPageError(t, err)
			return
		}
		if len(p.text) > maxPage+maxJSON {
			t.Fatalf("%d bytes of %d", len(p.text), len(text))
		}
		if err := p.each(func() error { var ls labels.Labels; p.parser.Labels(&ls); return nil }, func() {}); err != nil {
			t.Errorf("%q: %v", p.text, err)
		}
	})
}

// Texts of objects around a list are repeated in its items: a page that would copy them for long is refused.
func TestRepeatedTextsAreBounded(t *testing.T) {
	around := `"t":"` + strings.Repeat("x", 250) + `"`
	for i := range 50 {
		around += fmt.Sprintf(`,"t%d":%q`, i, strings.Repeat("x", 250))
	}
	page := `{"l":[{` + around + `,"i":[` + strings.Repeat(`{"a":"b"},`, 90_000) + `{"a":"b","n":1}]}]}`
	if len(page) > maxJSON {
		t.Fatalf("the page has %d bytes", len(page))
	}
	if text, err := flatten([]byte(page)); err == nil {
		t.Errorf("a page of %d bytes is read as %d", len(page), len(text))
	}
}
