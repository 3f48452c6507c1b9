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

func serveHealthy(w http.ResponseWriter, _ *http.Request) {
	plainText(w, http.StatusOK, "healthy")
}

func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	if s.ready.Load() {
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
