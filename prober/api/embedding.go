package api

import (
	"errors"
	"fmt"

	"github.com/valyala/fastjson"
)

// jsonType is the media type of a reply in one piece.
const jsonType = "application/json"

// encodeInputs writes the body of a request about texts. It refuses one
// without any, which servers answer with an error or with nothing.
func encodeInputs(p Params, body any) ([]byte, error) {
	if len(p.Inputs) == 0 {
		return nil, errors.New("build request body: no inputs")
	}
	return encodeJSON(body)
}

// embeddingDecoder decodes the one frame of a reply with embeddings, in the
// shapes of all protocols that have such replies.
type embeddingDecoder struct {
	parser  fastjson.Parser
	reader  vectorReader
	found   []vector
	vectors Vectors     // what Delta.Vectors points to
	usage   Usage       // what Delta.Usage points to
	server  ServerTimes // what Delta.Server points to
}

// Decode implements Decoder.
func (e *embeddingDecoder) Decode(_ string, data []byte, d *Delta) error {
	*d = Delta{Tokens: Unknown}
	if err := e.reader.read(data); err != nil {
		return err
	}
	reply, err := parseJSON(&e.parser, e.reader.text)
	if err != nil {
		return err
	}
	if d.Err = errorIn(reply); d.Err != nil {
		return nil
	}
	if err := e.readVectors(reply, data); err != nil {
		return err
	}
	d.Vectors, d.Done = &e.vectors, true
	if e.usage = inputUsage(reply); e.usage != noUsage() {
		d.Usage = &e.usage
	}
	if e.server = ollamaEmbedTimes(reply); e.server.Prefill >= 0 {
		d.Server = &e.server
	}
	return nil
}

// readVectors measures the embeddings; data is for the text of an error.
func (e *embeddingDecoder) readVectors(reply *fastjson.Value, data []byte) error {
	list := firstArray(reply, reply.Get("data"), reply.Get("embeddings"), reply.Get("embeddings", "float"))
	if list == nil {
		return fmt.Errorf("%w: no list of embeddings: %s", ErrProtocol, bounded(data))
	}
	e.found = e.found[:0]
	for _, item := range list.GetArray() {
		if item.Type() == fastjson.TypeObject {
			item = item.Get("embedding")
		}
		if v, ok := e.reader.measured(item); ok {
			e.found = append(e.found, v)
		}
	}
	var finite bool
	if e.vectors, finite = summary(e.found); !finite {
		return fmt.Errorf("%w: embedding with a number that is not finite or too large", ErrProtocol)
	}
	return nil
}

// firstArray returns the first value that is an array; nil is none.
func firstArray(values ...*fastjson.Value) *fastjson.Value {
	for _, v := range values {
		if v != nil && v.Type() == fastjson.TypeArray {
			return v
		}
	}
	return nil
}

// inputUsage reads how many tokens the inputs were: OpenAI and the like in
// usage (some rerankers only as the total), Ollama beside the embeddings,
// Cohere in meta.
func inputUsage(reply *fastjson.Value) Usage {
	u := noUsage()
	u.Prompt = known(
		count(reply.Get("usage", "prompt_tokens")),
		count(reply.Get("usage", "total_tokens")),
		count(reply.Get("prompt_eval_count")),
		count(reply.Get("meta", "tokens", "input_tokens")),
		count(reply.Get("meta", "billed_units", "input_tokens")),
	)
	return u
}
