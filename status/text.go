package status

import "github.com/inference-exporter/inference_exporter/internal/safetext"

// maxTextBytes bounds a text that may come from a server.
const maxTextBytes = 1024

// harmless returns a text of any source as the pages show it.
func harmless(text string) string { return safetext.Line(text, maxTextBytes) }
