//go:build kubernetes_sd

package discovery

import (
	"log/slog"

	"k8s.io/klog/v2"
)

// LogForeign has the client of Kubernetes log by a logger: it says which right the account lacks. It changes the whole
// process, and is called before anything is discovered.
func LogForeign(l *slog.Logger) { klog.SetSlogLogger(l) }
