package api

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// batch is what a reply about inputs decodes to.
type batch struct {
	Vectors Vectors
	Prompt  int
	Prefill time.Duration
	Err     ServerError
	Broken  bool // the reply is not of the protocol
}

// decodeBatch reads a body as a probe would.
func decodeBatch(t testing.TB, p Protocol, body io.Reader) batch {
	t.Helper()
	got := batch{Prompt: Unknown, Prefill: -1}
	frames := stream.New(p.Framing, body, stream.DefaultLimits())
	f, err := frames.Next()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := frames.Next(); err != io.EOF {
		t.Errorf("after the frame: %v, want EOF", err)
	}
	var d Delta
	if err := p.NewDecoder().Decode(f.Event, f.Data, &d); err != nil {
		got.Broken = isProtocolError(err)
		return got
	}
	if d.HasToken() || d.Tokens != Unknown || d.Done != (d.Err == nil) || (d.Vectors == nil) != (d.Err != nil) {
		t.Errorf("%+v", d)
	}
	if d.Vectors != nil {
		got.Vectors = *d.Vectors
	}
	if d.Usage != nil {
		got.Prompt = d.Usage.Prompt
		if want := (Usage{got.Prompt, Unknown, Unknown, Unknown}); *d.Usage != want {
			t.Errorf("usage %+v", d.Usage)
		}
	}
	if d.Server != nil {
		got.Prefill = d.Server.Prefill
	}
	if d.Err != nil {
		got.Err = *d.Err
	}
	return got
}

func near() cmp.Option { return cmpopts.EquateApprox(0, 1e-12) }

// TestEmbeddingCaptures decodes recorded replies. Norms were computed from the
// recordings with other tools.
func TestEmbeddingCaptures(t *testing.T) {
	f := func(file string, p Protocol, want batch) {
		t.Helper()
		body := readCapture(t, file)
		check := func(how string, r io.Reader) {
			t.Helper()
			if d := cmp.Diff(want, decodeBatch(t, p, r), near()); d != "" {
				t.Errorf("%s, %s (-want +got):\n%s", file, how, d)
			}
		}
		check("whole", bytes.NewReader(body))
		check("byte by byte", iotest.OneByteReader(bytes.NewReader(body)))
		for seed := range uint64(5) {
			check("random pieces", &cutter{body, rand.New(rand.NewPCG(seed, 0))})
		}
	}
	f("ollama_api_embed", ollamaEmbed(), batch{Vectors: Vectors{2, 256, 0.9999999756608287}, Prompt: 7, Prefill: 29536015 - 1652684})
	f("ollama_v1_embeddings", openAIEmbeddings(), batch{Vectors: Vectors{1, 256, 0.9999999350119068}, Prompt: 2, Prefill: -1})
	f("llamacpp_v1_embeddings", openAIEmbeddings(), batch{
		Prompt: Unknown, Prefill: -1,
		Err: ServerError{Status: 501, Type: "not_supported_error", Message: "This server does not support embeddings. Start it with `--embeddings`"},
	})
}

// TestEmbeddingReplies decodes replies that are composed from the documentation
// of the servers, and odd ones. 3, 4 has the norm 5, and 3, 4, 12 has 13.
func TestEmbeddingReplies(t *testing.T) {
	f := func(name, body string, want batch) {
		t.Helper()
		for _, p := range []Protocol{openAIEmbeddings(), tei(), ollamaEmbed(), cohereEmbed()} {
			if d := cmp.Diff(want, decodeBatch(t, p, strings.NewReader(body)), near()); d != "" {
				t.Errorf("%s, %s (-want +got):\n%s", p.Name, name, d)
			}
		}
	}
	of := func(items, dimensions int, norm float64, prompt int) batch {
		return batch{Vectors: Vectors{items, dimensions, norm}, Prompt: prompt, Prefill: -1}
	}
	broken := batch{Prompt: Unknown, Prefill: -1, Broken: true}

	f("OpenAI", `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[3,4]},{"object":"embedding","index":1,"embedding":[0,1]}],"model":"m","usage":{"prompt_tokens":7,"total_tokens":7}}`, of(2, 2, 3, 7))
	f("OpenAI, base64", `{"object":"list","data":[{"embedding":"AABAQAAAgEAAAEBB","index":0,"object":"embedding"}],"usage":{"prompt_tokens":7,"total_tokens":7}}`, of(1, 3, 13, 7))
	f("vLLM", `{"id":"embd-1","object":"list","created":1,"model":"m","data":[{"index":0,"object":"embedding","embedding":[3.0e0,-4]}],"usage":{"prompt_tokens":7,"total_tokens":7,"completion_tokens":0,"prompt_tokens_details":null}}`, of(1, 2, 5, 7))
	f("TEI", `[[3.0,4.0],[3.0,-4.0]]`, of(2, 2, 5, Unknown))
	f("Ollama", `{"model":"m","embeddings":[[3,4]],"total_duration":9000000,"prompt_eval_count":7}`, batch{Vectors: Vectors{1, 2, 5}, Prompt: 7, Prefill: 9 * time.Millisecond})
	f("Cohere", `{"id":"x","embeddings":{"float":[[3,4]]},"texts":["a"],"meta":{"api_version":{"version":"2"},"billed_units":{"input_tokens":6.0},"tokens":{"input_tokens":7}},"response_type":"embeddings_by_type"}`, of(1, 2, 5, 7))
	f("Cohere, billed only", `{"embeddings":{"float":[[3,4]]},"meta":{"billed_units":{"input_tokens":6}}}`, of(1, 2, 5, 6))
	f("Cohere v1", `{"embeddings":[[3,4]],"response_type":"embeddings_floats"}`, of(1, 2, 5, Unknown))

	f("white space", " [ [ 3 ,\n4\t] ,\r\n[ 3.0 , 4 ] ] ", of(2, 2, 5, Unknown))
	f("vectors of different lengths", `[[3,4],[3,4,12]]`, of(2, Unknown, 9, Unknown))
	f("no vectors", `{"data":[],"usage":{"prompt_tokens":0}}`, of(0, 0, 0, 0))
	f("nothing at all", `[]`, of(0, 0, 0, Unknown))
	f("empty vectors", `{"data":[{"embedding":[]},{"embedding":null},{},null,7]}`, of(0, 0, 0, Unknown))
	f("vectors of nulls, as of numbers that are not finite", `[[null,null],[3,4]]`, of(1, 2, 5, Unknown))
	f("a bare vector", `[3,4]`, of(0, 0, 0, Unknown))
	f("numbers where vectors belong", `{"other":[3,4],"data":[{"embedding":0}]}`, of(0, 0, 0, Unknown))
	f("one number where vectors belong", `{"other":[3,4],"data":[0]}`, of(0, 0, 0, Unknown))
	f("brackets in texts", `{"a":"[1,2]","\"b[":"\\","data":[{"text":"]\"[3,4]","embedding":[3,4]}]}`, of(1, 2, 5, Unknown))
	f("base64 that is none", `{"data":[{"embedding":"!"},{"embedding":""},{"embedding":"AAA="},{"embedding":"AABAQAAAgEA="}]}`, of(1, 2, 5, Unknown))

	f("error", `{"error":"model not found"}`, batch{Prompt: Unknown, Prefill: -1, Err: ServerError{Message: "model not found"}})
	f("not a number", `{"data":[{"embedding":"AADAfw=="}]}`, broken)
	f("infinite norm", `[[1e200,1e200]]`, broken)
	f("number past any float", `[[1e999]]`, broken)
	f("no number of JSON", `[[nan],[inf]]`, of(0, 0, 0, Unknown))
	f("no list", `{"object":"list"}`, broken)
	f("HTML", `<html>`, broken)
	f("cut in a vector", `[[3,4`, broken)
	f("cut after a vector", `[[3,4]`, broken)
	f("cut in a text", `{"data":"[3,4`, broken)
	f("text after the value", `[[3,4]]]`, broken)
}

func TestManyVectors(t *testing.T) {
	// More numbers than parseJSON lets through, as a usual batch has.
	row := "[" + strings.TrimSuffix(strings.Repeat("0.5,", 4096), ",") + "]"
	body := "[" + strings.TrimSuffix(strings.Repeat(row+",", 64), ",") + "]"
	got := decodeBatch(t, tei(), strings.NewReader(body))
	if want := (batch{Vectors: Vectors{64, 4096, 32}, Prompt: Unknown, Prefill: -1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	hostile := "[" + strings.Repeat("[0],", maxValues+1) + "[0]]"
	if got := decodeBatch(t, tei(), strings.NewReader(hostile)); !got.Broken {
		t.Errorf("too many vectors: %+v", got)
	}
}

func TestEmbeddingBodies(t *testing.T) {
	f := func(p Protocol, want string) {
		t.Helper()
		checkBody(t, p, Params{Model: "m", Prompt: "ignored", Inputs: []string{"a <b>", "c"}}, want)
		if body, err := p.Body(Params{Model: "m", Prompt: "ignored"}, new(Adjustment)); err == nil {
			t.Errorf("%s without inputs: %s, want an error", p.Name, body)
		}
	}
	f(openAIEmbeddings(), `{"model":"m","input":["a <b>","c"],"encoding_format":"float"}`)
	f(tei(), `{"inputs":["a <b>","c"]}`)
	f(ollamaEmbed(), `{"model":"m","input":["a <b>","c"]}`)
	f(cohereEmbed(), `{"model":"m","input_type":"search_document","texts":["a <b>","c"],"embedding_types":["float"]}`)
}

func TestEmbeddingURLs(t *testing.T) {
	f := func(p Protocol, base, want string) {
		t.Helper()
		checkURL(t, p.Name, func(u *url.URL) *url.URL { return p.URL(u, "m") }, base, want)
	}
	f(openAIEmbeddings(), "http://h", "http://h/v1/embeddings")
	f(openAIEmbeddings(), "https://h/openai/v1", "https://h/openai/v1/embeddings")
	f(openAIEmbeddings(), "http://h/v1/embeddings", "http://h/v1/embeddings")
	f(openAIEmbeddings(), "http://h/v1/chat/completions", "http://h/v1/embeddings")
	f(openAIEmbeddings(), "https://h/openai/deployments/d?api-version=1", "https://h/openai/deployments/d/embeddings?api-version=1")
	f(tei(), "http://h:8080", "http://h:8080/embed")
	f(tei(), "http://h/prefix/", "http://h/prefix/embed")
	f(tei(), "http://h/embed?a=1", "http://h/embed?a=1")
	f(tei(), "http://h/v1", "http://h/embed")
	f(ollamaEmbed(), "http://h:11434", "http://h:11434/api/embed")
	f(ollamaEmbed(), "http://h/api", "http://h/api/embed")
	f(ollamaEmbed(), "http://h/api/embed", "http://h/api/embed")
	f(cohereEmbed(), "https://api.cohere.com", "https://api.cohere.com/v2/embed")
	f(cohereEmbed(), "https://api.cohere.com/v2", "https://api.cohere.com/v2/embed")
	f(cohereEmbed(), "https://api.cohere.com/v2/embed", "https://api.cohere.com/v2/embed")
	checkURL(t, "tei models", tei().Models.URL, "http://h/embed", "http://h/info")
	checkURL(t, "ollama-embed models", ollamaEmbed().Models.URL, "http://h/embed", "http://h/embed/api/tags")
}

func TestTEITimes(t *testing.T) {
	f := func(queue, inference string, want ServerTimes) {
		t.Helper()
		h := http.Header{}
		h.Set("x-queue-time", queue)
		h.Set("x-inference-time", inference)
		h.Set("x-total-time", "9")
		if _, got := tei().Headers(h); got != want {
			t.Errorf("%q, %q: %+v, want %+v", queue, inference, got, want)
		}
	}
	f("0", "12", ServerTimes{0, 12 * time.Millisecond, -1})
	f("1.5", "", ServerTimes{1500 * time.Microsecond, -1, -1})
	f("-1", "NaN", ServerTimes{-1, -1, -1})
	f("1e300", "soon", ServerTimes{-1, -1, -1})
	if _, got := tei().Headers(http.Header{}); got != (ServerTimes{-1, -1, -1}) {
		t.Errorf("no header: %+v", got)
	}
}

func TestTEIModel(t *testing.T) {
	got, err := tei().Models.Parse([]byte(`{"model_id":"BAAI/bge-m3","model_sha":null,"max_input_length":8192,"max_client_batch_size":32,"version":"1.9.3"}`))
	if err != nil || len(got) != 1 || got[0].ID != "BAAI/bge-m3" {
		t.Errorf("%+v, %v", got, err)
	}
}

// fuzzWhole checks what must hold for any reply about inputs.
func fuzzWhole(f *testing.F, p Protocol) {
	for _, s := range []string{
		"", "[]", "{}", "null", "[[3,4],[3,4,12]]", `{"data":[{"embedding":[3,4]}],"usage":{"prompt_tokens":1}}`, `{"data":[{"embedding":"AABAQAAAgEA="}]}`,
		`{"embeddings":{"float":[[1e99]]},"meta":{"tokens":{"input_tokens":-1}}}`, `{"embeddings":[[1]],"total_duration":2,"load_duration":1}`,
		`{"results":[{"index":0,"relevance_score":-1.5}],"usage":{"total_tokens":3}}`, `[{"index":0,"score":0.5}]`, `{"error":"x"}`, `[[1e200,1e200]]`,
		`[[1,2]`, `"\"[1]`, `[-]`, `[1,]`, `[[`, `{"a":"\`,
	} {
		f.Add([]byte(s), []byte(s))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		given := bytes.Clone(second)
		decoder := p.NewDecoder()
		var before, d, fresh Delta
		_ = decoder.Decode(nil, first, &before)
		err := decoder.Decode(nil, second, &d)
		checkDelta(t, &d, err)
		if !bytes.Equal(second, given) {
			t.Fatal("the input was changed")
		}
		if v := d.Vectors; v != nil && (v.Items < 0 || v.Items > maxValues || v.Dimensions < Unknown || !(v.Norm >= 0) || math.IsInf(v.Norm, 0)) {
			t.Fatalf("vectors %+v", v)
		}
		if again := p.NewDecoder().Decode(nil, second, &fresh); (again == nil) != (err == nil) || errors.Is(again, ErrProtocol) != errors.Is(err, ErrProtocol) {
			t.Fatalf("%v, but fresh %v", err, again)
		}
		if diff := cmp.Diff(fresh, d); diff != "" {
			t.Fatalf("the frame before shows (-fresh +second):\n%s", diff)
		}
	})
}

func FuzzEmbedding(f *testing.F) { fuzzWhole(f, openAIEmbeddings()) }

func BenchmarkEmbedding(b *testing.B) {
	row := "[" + strings.TrimSuffix(strings.Repeat("-0.0069292834,", 1024), ",") + "]"
	body := []byte(`{"data":[` + strings.TrimSuffix(strings.Repeat(`{"embedding":`+row+`},`, 32), ",") + `]}`)
	p := openAIEmbeddings()
	var d Delta
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() { // a decoder is for one reply
		if err := p.NewDecoder().Decode(nil, body, &d); err != nil {
			b.Fatal(err)
		}
	}
}
