package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
)

// Verdict is whether an endpoint may take traffic: GET /api/v1/endpoints/{name}/verdict.
type Verdict struct {
	Endpoint string `json:"endpoint"`
	// OK reports that the state is up, or one that the request allows.
	OK bool `json:"ok"`
	// State is the state without regard to a mute, which silences alerts and does not make an endpoint better or worse.
	// Since is when it began, in seconds since 1970; absent while it is waiting.
	State health.State `json:"state"`
	Since float64      `json:"since,omitempty"`
	// Muted reports that a mute is in force.
	Muted bool `json:"muted,omitempty"`
	// Reason says for people in one line why the endpoint is not up. It may quote the
	// server: bounded, without secrets, and untrusted text.
	Reason string `json:"reason,omitempty"`
	// LoadTargetMissed lists the modules with load whose objectives were missed or met for certain at the target load of
	// the latest load test; absent without any. It does not change OK: load tests are days old.
	LoadTargetMissed map[string]bool `json:"load_target_missed,omitempty"`
	// OneServerFewer is whether the others would meet the objectives now and at the daily peak if one server were taken away; absent where
	// that is not known. It does not change OK either.
	OneServerFewer map[string]loadtest.Verdict `json:"one_server_fewer,omitempty"`
}

// serveVerdict answers 200 for an endpoint that may take traffic, and 503 for one that may not.
func (a *api) serveVerdict(w http.ResponseWriter, r *http.Request) {
	allowed, err := allowedStates(r.URL.Query()["allow"])
	if err != nil {
		jsonError(w, http.StatusBadRequest, err.Error())
		return
	}
	name := r.PathValue("name")
	s := a.Health(name)
	if s == nil {
		jsonError(w, http.StatusNotFound, errNoEndpoint.Error())
		return
	}
	v := &Verdict{
		Endpoint: name, OK: slices.Contains(allowed, s.Unmuted), State: s.Unmuted, Since: stats.UnixSeconds(s.UnmutedSince), Muted: s.Mute != nil, Reason: s.Why,
	}
	a.addLoadTests(v)
	if !v.OK {
		w.Header().Set("Content-Type", "application/json") // before the status, which ends the headers
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	a.writeJSON(w, v)
}

// addLoadTests adds what load tests show of the endpoint.
func (a *api) addLoadTests(v *Verdict) {
	detail, ok := a.Status.Detail(v.Endpoint)
	if !ok {
		return
	}
	v.LoadTargetMissed = map[string]bool{}
	for _, m := range detail.Findings {
		if f, ok := workload.In[*loadtest.Finding](m.Findings); ok && f.TargetVerdict() != "" && f.TargetVerdict() != loadtest.Undecided {
			v.LoadTargetMissed[m.Module] = f.TargetVerdict() == loadtest.Missed
		}
	}
	if loss, ok := workload.In[*loadtest.Loss](detail.Facts); ok {
		v.OneServerFewer = loss.Verdicts()
	}
}

// allowedStates returns the states of an endpoint that may take traffic, up and those
// that lists such as "degraded,slow" add.
func allowedStates(lists []string) ([]health.State, error) {
	allowed := []health.State{health.Up}
	for _, name := range strings.Split(strings.Join(lists, ","), ",") {
		switch state := health.State(name); state {
		case "":
		case health.Flapping, health.Degraded, health.Slow:
			allowed = append(allowed, state)
		default:
			return nil, fmt.Errorf("parameter allow has %.32q: want %s, %s or %s, separated by commas", name, health.Flapping, health.Degraded, health.Slow)
		}
	}
	return allowed, nil
}
