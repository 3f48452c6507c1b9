package api

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

const teiEmbedPath = "/embed"

// tei is the native protocol of Text Embeddings Inference, POST /embed. A
// server has one model, which a request does not name.
func tei() Protocol {
	type request struct {
		Inputs []string `json:"inputs"`
	}
	return Protocol{
		Name: "tei", Engine: TEI, Operation: OperationEmbeddings,
		Kind: Embedding, Framing: stream.Whole, MediaTypes: []string{jsonType},
		URL:    func(base *url.URL, _ string) *url.URL { return underTEI(base, teiEmbedPath) },
		Header: acceptHeader(jsonType),
		Body: func(p Params) ([]byte, error) {
			return encodeInputs(p, request{Inputs: p.Inputs})
		},
		NewDecoder: func() Decoder { return new(embeddingDecoder) },
		Models: &ModelList{
			URL:   func(base *url.URL) *url.URL { return underTEI(base, tgiInfoPath) },
			Parse: parseTGIInfo,
		},
		ModelOptional: true,
		Usage:         teiUsage,
		ServerTimes:   teiTimes,
		Doc: Doc{
			Unmet: true,
			Title: "Text Embeddings Inference", Servers: "TEI",
			Auth: "`http.authorization.credentials`",
			End:  "the end of the body", Usage: "header `x-compute-tokens`", ServerTimes: "headers `x-queue-time` and `x-inference-time`",
		},
	}
}

func underTEI(base *url.URL, path string) *url.URL {
	return fixed(base, path, teiEmbedPath, tgiInfoPath, rerankPath, "/v1")
}

// teiTimes reads the server's own timing, which TEI has in milliseconds. The
// whole of an inference is Prefill: there is nothing to decode.
func teiTimes(h http.Header) ServerTimes {
	return ServerTimes{
		Queue:   headerMilliseconds(h, "X-Queue-Time"),
		Prefill: headerMilliseconds(h, "X-Inference-Time"),
		Decode:  -1,
	}
}

// headerMilliseconds reads a duration from a header; -1 is absent or not
// believable.
func headerMilliseconds(h http.Header, name string) time.Duration {
	ms, err := strconv.ParseFloat(h.Get(name), 64)
	if err != nil || !(ms >= 0 && ms <= float64(maxServerTime/time.Millisecond)) {
		return -1
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// teiUsage reads the number of tokens that were computed. A prompt has no other
// count: text-embeddings-inference keeps no prefix cache.
func teiUsage(h http.Header) *Usage {
	n := remaining(h.Get("X-Compute-Tokens"))
	if n == Unknown || n > maxCount {
		return nil
	}
	u := noUsage()
	u.Prompt = n
	return &u
}
