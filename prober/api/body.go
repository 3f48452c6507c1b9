package api

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// encodeBody writes the body of a request for generated tokens. It refuses one
// without a cap on the answer, which some servers take as a request without
// end.
func encodeBody(p Params, body any) ([]byte, error) {
	if p.OutputTokens < 1 {
		return nil, fmt.Errorf("build request body: output tokens %d, want at least 1", p.OutputTokens)
	}
	return encodeJSON(body)
}

// encodeJSON writes the body of any request.
func encodeJSON(body any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // so that the prompt's length on the wire is its own
	if err := e.Encode(body); err != nil {
		return nil, fmt.Errorf("build request body: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
