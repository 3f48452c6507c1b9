package report

import (
	"encoding/json"
	"io"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// JSON writes one result as one line of JSON. The names of the fields are
// stable. Errors are those of w.
func JSON(w io.Writer, t result.Target, r *result.Result) error {
	return encode(w, result.NewDocument(t, r))
}

// encode writes v as one line.
func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
