package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// shell is the frame of all pages for people: their content comes from the API.
type shell struct {
	template *template.Template
	data     shellData // but for what depends on the page
}

type shellData struct {
	// Root leads from the page to the top of the site, so that the site may lie
	// below any path of a proxy; "" is the page at the top.
	Root string
	// Page is the name of the page.
	Page string
	// Metrics leads from the root to the metrics.
	Metrics string
	Links   Links
	// Probe and Mute report whether a reader may probe and mute endpoints, and Incidents whether recordings of incidents are kept.
	Probe, Mute, Incidents bool
	// ConfigFile is where the configuration comes from; "" is from flags.
	ConfigFile string
}

func newShell(o *Options) (*shell, error) {
	links, err := o.Links.normalize()
	if err != nil {
		return nil, err
	}
	data := shellData{Metrics: cmp.Or(strings.TrimPrefix(o.MetricsPath, "/"), "."), Links: links, Probe: o.Probe != nil, Mute: o.Muter != nil, Incidents: o.Incidents != nil, ConfigFile: o.Info().ConfigFile}
	return &shell{template.Must(template.ParseFS(assets, "assets/page.html")), data}, nil
}

func (s *shell) page(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		depth := strings.Count(r.URL.EscapedPath(), "/") - 1
		data := s.data
		data.Root, data.Page = strings.Repeat("../", depth), name
		var page bytes.Buffer
		if err := s.template.Execute(&page, data); err != nil {
			plainText(w, http.StatusInternalServerError, "the page could not be written")
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = page.WriteTo(w)
	})
}

// assets are the files of the status page: page.html is the frame of every page, the others are served as they are.
//
//go:embed assets
var assets embed.FS

// assetType returns the media type of a file, whatever the machine believes.
func assetType(name string) string {
	known := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png"}
	return cmp.Or(known[path.Ext(name)], "text/plain; charset=utf-8")
}

// assetRoutes lists the files, so that nothing else is below /assets/.
func assetRoutes() (routes []route) {
	err := fs.WalkDir(assets, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && name != "assets/page.html" {
			routes = append(routes, route{"GET /" + name, serveAsset(assets, name, mustAsset(strings.TrimPrefix(name, "assets/")))})
		}
		return err
	})
	if err != nil {
		panic(err) // they are part of the program
	}
	return routes
}

// serveAsset answers with a file of that content, which it does not keep: the file is part of the program. A browser
// may keep it and has to ask whether it is still the same, because a new version has the same name.
func serveAsset(files fs.FS, name, content string) http.Handler {
	sum := sha256.Sum256([]byte(content))
	tag := `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"` // weak: the compression changes the bytes
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", assetType(name))
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", tag)
		http.ServeFileFS(w, r, files, name)
	})
}

// Links are the addresses of other systems that the status page links to; "" is no link.
type Links struct {
	// Runbooks is the address below which each runbook has its page NAME.md.
	Runbooks string
	// Grafana and Prometheus are the addresses of their web pages.
	Grafana, Prometheus string
	// Trace is the address of a trace, with {trace_id} in place of its id.
	Trace string
}

const traceID = "{trace_id}"

// normalize checks the addresses, and ends those to which something is added with a
// slash. An error names what is wrong with which.
func (l Links) normalize() (Links, error) {
	for _, link := range []struct {
		name    string
		address *string
	}{
		{"runbooks", &l.Runbooks}, {"Grafana", &l.Grafana}, {"Prometheus", &l.Prometheus}, {"traces", &l.Trace},
	} {
		if *link.address == "" {
			continue
		}
		u, err := url.Parse(*link.address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return l, fmt.Errorf("address of the %s %.128q: want a URL like https://host/path", link.name, *link.address)
		}
		if link.address == &l.Trace {
			if !strings.Contains(l.Trace, traceID) {
				return l, fmt.Errorf("address of the traces %.128q: %s is missing", l.Trace, traceID)
			}
			continue
		}
		if u.RawQuery != "" || u.Fragment != "" {
			return l, fmt.Errorf("address of the %s %.128q: want one without a query", link.name, *link.address)
		}
		*link.address = strings.TrimSuffix(*link.address, "/") + "/"
	}
	return l, nil
}
