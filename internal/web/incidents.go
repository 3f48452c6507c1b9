package web

import (
	"errors"
	"net/http"

	"github.com/inference-exporter/inference_exporter/internal/recorder"
)

// Incidents are recordings of incidents, as a recorder.Recorder keeps them.
type Incidents interface {
	List(endpoint string) []recorder.Listed
	JSON(endpoint, at string) ([]byte, error)
}

const noRecordings = "no recordings are kept: the exporter keeps no state (--state.path) or does not probe"

// serveIncidents lists the recordings of an endpoint, also of one that is gone.
func (a *api) serveIncidents(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if a.Incidents == nil {
		jsonError(w, http.StatusNotFound, noRecordings)
		return
	}
	all := a.Incidents.List(name)
	if _, there := a.Status.Version(name); !there && len(all) == 0 {
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
	case err == nil:
		a.write(w, page, nil)
	case errors.Is(err, recorder.ErrNone) && !there:
		a.noEndpoint(w, name)
	case errors.Is(err, recorder.ErrNone):
		jsonError(w, http.StatusNotFound, err.Error())
	default:
		jsonError(w, http.StatusBadRequest, err.Error())
	}
}
