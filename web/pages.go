package web

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"strings"
)

// shell is the frame of all pages for people: their content comes from the API.
type shell struct {
	template *template.Template
	metrics  string // the path of the metrics, from the root
}

// shellData is what the template shows.
type shellData struct {
	// Root leads from the page to the top of the site, so that the site may lie
	// below any path of a proxy; "" is the page at the top.
	Root string
	// Page is the name of the page.
	Page string
	// Metrics leads from the root to the metrics.
	Metrics string
}

func newShell(metricsPath string) (*shell, error) {
	t, err := template.ParseFS(assets, "assets/page.html")
	if err != nil {
		return nil, fmt.Errorf("parse the status page: %w", err)
	}
	metrics := strings.TrimPrefix(metricsPath, "/")
	if metrics == "" {
		metrics = "."
	}
	return &shell{template: t, metrics: metrics}, nil
}

// page returns the handler of the page of that name.
func (s *shell) page(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		depth := strings.Count(r.URL.EscapedPath(), "/") - 1
		data := shellData{Root: strings.Repeat("../", depth), Page: name, Metrics: s.metrics}
		var page bytes.Buffer
		if err := s.template.Execute(&page, data); err != nil {
			plainText(w, http.StatusInternalServerError, "the page could not be written")
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = page.WriteTo(w)
	})
}
