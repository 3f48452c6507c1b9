package web

import (
	"context"
	"io"
	"net/http"
	"time"
)

// Paths by which the exporter is managed.
const (
	healthyPath = "/-/healthy"
	readyPath   = "/-/ready"
	reloadPath  = "/-/reload"
)

// reloadHandler answers /-/reload.
type reloadHandler struct {
	reload func(context.Context) error
}

func (h *reloadHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.reload == nil {
		plainText(w, http.StatusForbidden, "a reload by HTTP is not allowed: it needs the flag --web.enable-lifecycle")
		return
	}
	err := h.reload(r.Context())
	// The server's own limit counts from the request, and a reload may take longer.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
	if err != nil {
		plainText(w, http.StatusInternalServerError, err.Error())
		return
	}
	plainText(w, http.StatusOK, "reloaded")
}

// serveHealthy answers whether the process does its work, so that one that hangs
// is started again.
func (s *Server) serveHealthy(w http.ResponseWriter, _ *http.Request) {
	if s.hangs() {
		plainText(w, http.StatusServiceUnavailable, "the scheduler hangs")
		return
	}
	plainText(w, http.StatusOK, "healthy")
}

// serveReady answers whether the probes run.
func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	if s.ready.Load() && !s.hangs() {
		plainText(w, http.StatusOK, "ready")
		return
	}
	plainText(w, http.StatusServiceUnavailable, "not ready")
}

func plainText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
