package web

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/recorder"
)

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
