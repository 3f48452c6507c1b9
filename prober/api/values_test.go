package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// decodeValues decodes a body by a decoder that keeps the numbers.
func decodeValues(t *testing.T, p Protocol, body string) [][]float32 {
	t.Helper()
	d, ok := p.NewDecoder().(ValueDecoder)
	if !ok {
		t.Fatalf("%s keeps no values", p.Name)
	}
	var delta Delta
	if err := d.Decode(nil, []byte(body), &delta); err != nil || delta.Values != nil {
		t.Errorf("unasked: %v, %v", delta.Values, err)
	}
	d.KeepValues()
	if err := d.Decode(nil, []byte(body), &delta); err != nil {
		t.Errorf("%s: %v", body, err)
	}
	return delta.Values
}

func TestValuesOfEmbeddings(t *testing.T) {
	f := func(name, body string, want ...[]float32) {
		t.Helper()
		for _, p := range []Protocol{openAIEmbeddings(), tei(), ollamaEmbed(), cohereEmbed()} {
			if diff := cmp.Diff(want, decodeValues(t, p, body)); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", p.Name, name, diff)
			}
		}
	}
	a, b := []float32{3, 4}, []float32{0, -1.5}
	f("by index", `{"data":[{"index":0,"embedding":[3,4]},{"index":1,"embedding":[0,-1.5]}]}`, a, b)
	f("in another order", `{"data":[{"index":1,"embedding":[0,-1.5]},{"index":0,"embedding":[3,4]}]}`, a, b)
	f("base64", `{"data":[{"index":1,"embedding":"AAAAAAAAwL8="},{"index":0,"embedding":"AABAQAAAgEA="}]}`, a, b)
	f("without an index", `{"embeddings":[[3,4],[0,-1.5]]}`, a, b)
	f("a bare list", `[[3.0,4e0],[0,-15e-1]]`, a, b)
	f("an index twice", `{"data":[{"index":1,"embedding":[3,4]},{"index":1,"embedding":[0,-1.5]}]}`)
	f("an index beyond", `{"data":[{"index":0,"embedding":[3,4]},{"index":2,"embedding":[0,-1.5]}]}`)
	f("a negative index", `{"data":[{"index":0,"embedding":[3,4]},{"index":-1,"embedding":[0,-1.5]}]}`)
	f("an index of one only", `{"data":[{"index":0,"embedding":[3,4]},{"embedding":[0,-1.5]}]}`)
	f("a text without a vector", `{"data":[{"index":0,"embedding":[3,4]},{"index":1,"embedding":[null,null]}]}`)
	f("nothing", `[]`)
	most := "[" + strings.TrimSuffix(strings.Repeat("1,", maxKeptNumbers), ",") + "]"
	if got := decodeValues(t, tei(), "["+most+"]"); len(got) != 1 || len(got[0]) != maxKeptNumbers {
		t.Errorf("%d vectors of the most numbers that are kept", len(got))
	}
	f("too many numbers", "["+most+",[1]]")
}

func TestValuesOfScores(t *testing.T) {
	f := func(name, body string, want ...float32) {
		t.Helper()
		got := decodeValues(t, rerank(), body)
		if want == nil {
			if got != nil {
				t.Errorf("%s: %v, want none", name, got)
			}
			return
		}
		if diff := cmp.Diff([][]float32{want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	f("TEI", `[{"index":1,"score":0.75},{"index":0,"score":-0.5}]`, -0.5, 0.75)
	f("Cohere", `{"results":[{"index":2,"relevance_score":3},{"index":0,"relevance_score":2},{"index":1,"relevance_score":1}]}`, 2, 1, 3)
	f("without an index", `[{"score":0.75},{"score":-0.5}]`)
	f("a text without a score", `[{"index":0,"score":0.75},{"index":1}]`)
	f("an index twice", `[{"index":1,"score":0.75},{"index":1,"score":-0.5}]`)
	f("nothing", `[]`)
}
