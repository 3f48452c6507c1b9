//go:build !kubernetes_sd

package discovery

import "log/slog"

// LogForeign has the client of Kubernetes log by a logger, in builds with it.
func LogForeign(*slog.Logger) {}
