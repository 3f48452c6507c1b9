package web

import (
	"fmt"
	"net/http"
	"path"
	"regexp"

	toolkit "github.com/prometheus/exporter-toolkit/web"
)

// route is what answers the requests of a pattern.
type route struct {
	pattern string
	handler http.Handler
}

// routes lists all that the server answers.
func (s *Server) routes(o *Options) ([]route, error) {
	routes, err := pageRoutes(o)
	if err != nil {
		return nil, err
	}
	routes = append(routes, apiRoutes(o)...)
	pack, err := newCompression()
	if err != nil {
		return nil, err
	}
	pack.compress(routes)
	routes = append(routes, route{"GET " + exactly(o.MetricsPath), newMetricsHandler(o, pack)})
	if o.Prober != nil {
		probe := newProbeHandler(o)
		routes = append(routes, route{"GET " + probePath, probe}, route{"POST " + probePath, probe})
	}
	return append(routes,
		route{"GET /api/v1/events", &eventsHandler{hub: s.hub}},
		route{"GET " + healthyPath, http.HandlerFunc(s.serveHealthy)},
		route{"GET " + readyPath, http.HandlerFunc(s.serveReady)},
		route{"POST " + reloadPath, &reloadHandler{reload: o.Reload}},
		route{"PUT " + reloadPath, &reloadHandler{reload: o.Reload}},
	), nil
}

// exactly is the pattern of a path that takes no others below it.
func exactly(p string) string {
	if p == "/" {
		return "/{$}"
	}
	return p
}

// pageRoutes lists the pages for people. Without a status there is one that
// leads to the others.
func pageRoutes(o *Options) ([]route, error) {
	first := route{pattern: "GET /{$}"}
	var routes []route
	if o.Status == nil {
		landing, err := landingPage(o)
		if err != nil {
			return nil, err
		}
		first.handler = landing
	} else {
		shell, err := newShell(o.MetricsPath)
		if err != nil {
			return nil, err
		}
		files, err := assetRoutes()
		if err != nil {
			return nil, err
		}
		first.handler = shell.page("fleet")
		routes = append(files,
			route{"GET /endpoint/{name...}", shell.page("endpoint")},
			route{"GET /gpus", shell.page("gpus")},
			route{"GET /self", shell.page("self")},
			route{"GET /config", shell.page("config")},
		)
	}
	if o.MetricsPath != "/" {
		routes = append(routes, first)
	}
	return routes, nil
}

func landingPage(o *Options) (http.Handler, error) {
	landing, err := toolkit.NewLandingPage(toolkit.LandingConfig{
		Name:        "inference_exporter",
		Description: "Prometheus exporter and synthetic prober for inference endpoints",
		Version:     o.Version,
		Profiling:   "false",
		Links: []toolkit.LandingLinks{
			{Address: o.MetricsPath, Text: "Metrics", Description: "What Prometheus scrapes"},
			{Address: "/-/healthy", Text: "Healthy", Description: "Is the process alive"},
			{Address: "/-/ready", Text: "Ready", Description: "Are the probes running"},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("build the landing page: %w", err)
	}
	return landing, nil
}

var (
	plainPath = regexp.MustCompile(`^/[A-Za-z0-9._~/-]*$`)
	takenPath = regexp.MustCompile(`^/(probe|gpus|self|config|(-|api|assets|endpoint)(/.*)?)$`)
)

// checkPath refuses what the mux would take for a pattern, could never match,
// or has already.
func checkPath(p string) error {
	if !plainPath.MatchString(p) || path.Clean(p) != p {
		return fmt.Errorf("path of the metrics %q: want a plain one like /metrics", p)
	}
	if m := takenPath.FindString(p); m != "" {
		return fmt.Errorf("path of the metrics %q: another page is there; want one like /metrics", p)
	}
	return nil
}
