package app

import (
	"sync/atomic"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// maxLogText bounds a text in a line of the log, in bytes.
const maxLogText = 16 << 10

// hidden knows the secrets of the active configuration, so that the log holds
// none of them, whoever writes to it: libraries too. A nil hidden knows none.
type hidden struct {
	secrets atomic.Pointer[safetext.Secrets]
	latest  []string // of the latest configuration; used by learn only
}

// learn takes the secrets of a configuration that may come into force. Those of
// the one before are kept, as what is under way may still show them.
func (h *hidden) learn(cfg *config.Config) {
	latest := config.Secrets(cfg)
	h.secrets.Store(safetext.NewSecrets(latest...).With(h.latest...).Indexed())
	h.latest = latest
}

// clean returns a text without the secrets and without what does something to
// a terminal.
func (h *hidden) clean(text string) string {
	if h != nil {
		text = h.secrets.Load().Redact(text)
	}
	return safetext.Block(text, maxLogText)
}
