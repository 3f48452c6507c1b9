package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/health"
)

const mutePath = "/api/v1/endpoints/{name}/mute"

const maxMuteBytes = 4 << 10

// Muter mutes endpoints, for alerts and pages; probes go on.
type Muter interface {
	// Mute mutes an endpoint from now on, and Unmute ends that. Their errors are those of fleet.Fleet.
	Mute(endpoint string, d time.Duration, reason string) error
	Unmute(endpoint string) error
}

// muteHandler answers POST and DELETE at mutePath. Whoever mutes an endpoint silences
// its alerts, so that the same flag allows it as a reload.
type muteHandler struct {
	muter Muter // nil is not allowed
}

func (h *muteHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.muter == nil {
		jsonError(w, http.StatusForbidden, "a mute by HTTP is not allowed: it needs the flag --web.enable-lifecycle")
		return
	}
	err := h.change(w, r)
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, health.ErrNoEndpoint):
		jsonError(w, http.StatusNotFound, err.Error())
	default:
		jsonError(w, http.StatusBadRequest, err.Error())
	}
}

func (h *muteHandler) change(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if r.Method == http.MethodDelete {
		return h.muter.Unmute(name)
	}
	var request struct {
		Minutes float64 `json:"minutes"`
		Reason  string  `json:"reason"`
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxMuteBytes))
	body.DisallowUnknownFields()
	if body.Decode(&request) != nil {
		return errors.New(`want a body as {"minutes": 60, "reason": "new driver"}`)
	}
	if request.Minutes > health.MaxMute.Minutes() { // before it is more than a duration holds
		return health.ErrDuration
	}
	return h.muter.Mute(name, time.Duration(request.Minutes*float64(time.Minute)), request.Reason)
}
