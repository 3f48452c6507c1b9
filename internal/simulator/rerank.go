package simulator

import (
	"bytes"
	"encoding/json"
	"strings"
)

// teiRerank is TEI's POST /rerank: texts in, a bare list of scores out.
func teiRerank() protocol {
	parse := func(body []byte) (ask, error) {
		var q struct {
			Query string   `json:"query"`
			Texts []string `json:"texts"`
		}
		if err := json.Unmarshal(body, &q); err != nil {
			return ask{}, badRequest("body is not a valid request: " + err.Error())
		}
		in, err := newInputs(q.Query, q.Texts)
		return ask{inputs: in}, err
	}
	p := aboutInputs("/rerank", parse, func(_ replyHeader, w *whole) any {
		list := []jsonMap{}
		for _, s := range w.inputs.scores() {
			list = append(list, jsonMap{"index": s.index, "score": s.value})
		}
		return list
	})
	p.header, p.failure = teiHeader, teiFailure
	return p
}

// rerankV1 is POST /v1/rerank as Jina, vLLM and llama.cpp have it.
func rerankV1() protocol {
	return aboutInputs("/v1/rerank", parseRerank, func(h replyHeader, w *whole) any {
		return jsonMap{
			"id": "rerank-" + h.id, "model": h.model, "results": rerankResults(w),
			"usage": jsonMap{"prompt_tokens": w.usage.prompt, "total_tokens": w.usage.prompt},
		}
	})
}

// cohereRerank is Cohere's POST /v2/rerank, which bills searches, not tokens.
func cohereRerank() protocol {
	p := aboutInputs("/v2/rerank", parseRerank, func(h replyHeader, w *whole) any {
		return jsonMap{
			"id": h.id, "results": rerankResults(w),
			"meta": jsonMap{"api_version": jsonMap{"version": "2"}, "billed_units": jsonMap{"search_units": 1}},
		}
	})
	p.failure = func(r refusal) []byte { return []byte(`{"message":` + quote(r.message) + `}`) }
	return p
}

// parseRerank reads a request of the services, which refuse what they do not
// know.
func parseRerank(body []byte) (ask, error) {
	var q struct {
		Model     string   `json:"model"`
		Query     string   `json:"query"`
		Documents []string `json:"documents"`
		TopN      int      `json:"top_n"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return ask{}, badRequest(strings.TrimPrefix(err.Error(), "json: "))
	}
	in, err := newInputs(q.Query, q.Documents)
	return ask{model: q.Model, inputs: in}, err
}

func rerankResults(w *whole) []jsonMap {
	list := []jsonMap{}
	for _, s := range w.inputs.scores() {
		list = append(list, jsonMap{"index": s.index, "relevance_score": s.value})
	}
	return list
}
