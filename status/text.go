package status

import (
	"unicode/utf8"

	"github.com/inference-exporter/inference_exporter/internal/report"
)

// maxTextBytes bounds a text that may come from a server.
const maxTextBytes = 1024

// harmless makes a text of any source fit for a page: bounded, and without what
// is not printable, such as control characters or a change of the writing
// direction.
func harmless(text string) string {
	cut := text
	if len(text) > maxTextBytes {
		end := maxTextBytes
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		cut = text[:end] + "…"
	}
	return report.Clean(cut)
}
