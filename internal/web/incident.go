package web

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/recorder"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

//go:embed incident.html
var incidentHTML string

// incidentStatic is what all pages of recordings have in common.
type incidentStatic struct {
	template *template.Template
	Policy   string
	Style    template.CSS
	Script   template.JS
}

// staticOfIncidents reads the assets that go into each page: it has all that it needs inside, as it is opened without the exporter.
var staticOfIncidents = sync.OnceValue(func() *incidentStatic {
	style := strings.Join(stats.Map([]string{"app.css", "endpoint.css", "incident.css"}, mustAsset), "")
	modules := stats.Map([]string{"dom.js", "format.js", "tokens.js", "waterfall.js", "incident.js"}, inlined)
	script := "'use strict';\nconst modules = {};\n" + strings.Join(modules, "")
	return &incidentStatic{
		template: template.Must(template.New("incident").Funcs(template.FuncMap{
			"time":  func(t time.Time) string { return t.UTC().Format(time.DateTime + " UTC") },
			"clock": func(t time.Time) string { return t.UTC().Format(time.TimeOnly + " UTC") },
			"words": func(d time.Duration) string { return d.Round(time.Second).String() },
		}).Parse(incidentHTML)),
		Policy: fmt.Sprintf("default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src '%s'; script-src '%s'",
			sourceOf(style), sourceOf(script)),
		Style: template.CSS(style), Script: template.JS(script),
	}
})

func mustAsset(name string) string {
	content, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(content)
}

// sourceOf returns the source of a policy that allows a text.
func sourceOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

var (
	importLine = regexp.MustCompile(`(?m)^import (\{.*?\}) from '\./(.*?)';$`)
	exported   = regexp.MustCompile(`(?m)^export ((?:async )?(?:function|const|class) (\w+))`)
)

// inlined returns a module of the status page as a part of one script, in which it has its names for itself.
func inlined(name string) string {
	text := mustAsset(name)
	names := stats.Map(exported.FindAllStringSubmatch(text, -1), func(m []string) string { return m[2] })
	text = importLine.ReplaceAllString(exported.ReplaceAllString(text, "$1"), "const $1 = modules['$2'];")
	return fmt.Sprintf("modules['%s'] = (() => {\n%s\nreturn { %s };\n})();\n", name, text, strings.Join(names, ", "))
}

// beginsRecording is before the recording in a page, which has no "<" in it.
const (
	beginsRecording = `<script type="application/json" id="recording">`
	endsRecording   = `</script>`
)

// WriteIncident writes a recording as a page that opens without a network. The recording is in it as JSON, for ReadIncident.
func WriteIncident(w io.Writer, r *recorder.Recording) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	static := staticOfIncidents()
	var page bytes.Buffer
	err = static.template.Execute(&page, struct {
		*incidentStatic
		*recorder.Recording
		Causes   []causeView
		Document template.JS // which json.Marshal has made safe inside of a script
	}{static, r, causesOf(r), template.JS(text)})
	if err != nil {
		return fmt.Errorf("write the page of the recording: %w", err)
	}
	_, err = page.WriteTo(w)
	return err
}

// ReadIncident returns the recording in a page of WriteIncident, or in JSON. An error says what is wrong, and where.
func ReadIncident(text []byte) (*recorder.Recording, error) {
	begin := 0
	if i := bytes.Index(text, []byte(beginsRecording)); i >= 0 {
		begin = i + len(beginsRecording)
		end := bytes.Index(text[begin:], []byte(endsRecording))
		if end < 0 {
			return nil, errors.New("the page is cut: the end of the recording in it is missing")
		}
		text = text[begin : begin+end]
	} else if bytes.HasPrefix(bytes.TrimSpace(text), []byte("<")) {
		return nil, errors.New("no recording of an incident is in this page")
	}
	r, err := recorder.Decode(text)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, fmt.Errorf("byte %d: %w", int64(begin)+syntax.Offset, err)
	}
	return r, err
}

// causeView is a likeliest cause that was explained in a span of time, with what it was explained by last.
type causeView struct {
	explain.Finding
	From, To time.Time
	Also     []explain.Finding
}

// causesOf returns the causes as they were explained over time.
func causesOf(r *recorder.Recording) (all []causeView) {
	for _, e := range r.Entries {
		if e.Report == nil {
			continue
		}
		top := e.Report.Findings[0]
		next := causeView{top, e.At, e.At, e.Report.Findings[1:]}
		if n := len(all); n > 0 && all[n-1].Cause == top.Cause && all[n-1].Title == top.Title {
			next.From = all[n-1].From
			all = all[:n-1]
		}
		all = append(all, next)
	}
	return all
}

// Incidents are recordings of incidents, as a recorder.Recorder keeps them.
type Incidents interface {
	List(endpoint string) []recorder.Listed
	JSON(endpoint, at string) ([]byte, error)
}

const noRecordings = "no recordings are kept: the exporter keeps no state (--state.path) or does not probe"

// serveIncidents lists the recordings of an endpoint, also of one that is gone, or those of all.
func (a *api) serveIncidents(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if a.Incidents == nil {
		jsonError(w, http.StatusNotFound, noRecordings)
		return
	}
	all := a.Incidents.List(name)
	if _, there := a.Status.Version(name); !there && name != "" && len(all) == 0 {
		a.noEndpoint(w, name)
		return
	}
	a.writeJSON(w, map[string]any{"incidents": all})
}

func (a *api) serveIncident(w http.ResponseWriter, r *http.Request) {
	if a.Incidents == nil {
		jsonError(w, http.StatusNotFound, noRecordings)
		return
	}
	name := r.PathValue("name")
	page, err := a.Incidents.JSON(name, r.PathValue("at"))
	_, there := a.Status.Version(name)
	switch {
	case err == nil && r.URL.Query().Get("format") == "html":
		a.writeIncident(w, page)
	case err == nil:
		a.write(w, "application/json", page, nil)
	case errors.Is(err, recorder.ErrNone) && !there:
		a.noEndpoint(w, name)
	case errors.Is(err, recorder.ErrNone):
		jsonError(w, http.StatusNotFound, err.Error())
	default:
		jsonError(w, http.StatusBadRequest, err.Error())
	}
}

// writeIncident answers with the page of a recording, as a file to keep: it is no page of this site, whose policy forbids its script.
func (a *api) writeIncident(w http.ResponseWriter, text []byte) {
	var page bytes.Buffer
	recording, err := recorder.Decode(text)
	if err == nil {
		err = WriteIncident(&page, recording)
	}
	if err != nil {
		a.fail(w, err)
		return
	}
	name := recording.Endpoint + " " + recording.Incident.Start.Format("2006-01-02 150405") + ".html"
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": strings.ReplaceAll(name, "/", " ")}))
	_, _ = page.WriteTo(w)
}
