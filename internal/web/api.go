package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
)

// maxAnswers is how many answers of the API are made and written at once; a further one waits.
const maxAnswers = 8

// Status is what the status page shows. Its answers are not changed.
type Status interface {
	// Fleet returns all endpoints, and Changes what is new since a version.
	Fleet() *status.Fleet
	Changes(since uint64) *status.Update
	// Version returns that of the latest change of one endpoint, and Detail the
	// endpoint; false is that there is none of that name.
	Version(name string) (uint64, bool)
	Detail(name string) (*status.Detail, bool)
}

type api struct {
	*Options
	slots    slots
	fleet    keptPage
	gateways keptPage
	details  keptDetails
}

func apiRoutes(o *Options) []route {
	a := &api{Options: o, slots: make(slots, maxAnswers)}
	return []route{
		{"GET /api/v1/endpoints", a.answer(a.serveFleet)},
		{"GET /api/v1/endpoints/{name...}", a.answer(a.serveEndpoint)},
		{"GET /api/v1/endpoints/{name}/explain", a.answer(a.serveExplain)},
		{"GET /api/v1/endpoints/{name}/verdict", a.answer(a.serveVerdict)},
		{"GET /api/v1/endpoints/{name}/incidents", a.answer(a.serveIncidents)},
		{"GET /api/v1/endpoints/{name}/incidents/{at}", a.answer(a.serveIncident)},
		{"GET /api/v1/incidents", a.answer(a.serveIncidents)},
		{"GET /api/v1/gateways", a.answer(a.serveGateways)},
		{"GET /api/v1/gpus", a.answer(a.serveGPUs)},
		{"GET /api/v1/self", a.answer(a.serveSelf)},
		{"GET /api/v1/config", a.answer(a.serveConfig)},
		{"/api/", http.HandlerFunc(serveNoAPI)},
	}
}

// answer lets a few requests at a time get an answer.
func (a *api) answer(serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.slots.acquire(r.Context(), maxWait); err != nil {
			jsonError(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		defer a.slots.release()
		serve(w, r)
	})
}

func (a *api) serveFleet(w http.ResponseWriter, r *http.Request) {
	page, err := a.fleet.get(func() ([]byte, error) { return packFleet(a.Status.Fleet()) })
	a.writeKept(w, r, page, err)
}

func (a *api) serveEndpoint(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	version, ok := a.Status.Version(name)
	if !ok {
		a.noEndpoint(w, name)
		return
	}
	page, err := a.details.of(name, version).get(func() ([]byte, error) {
		detail, ok := a.Status.Detail(name)
		if !ok { // it went meanwhile
			return nil, errNoEndpoint
		}
		return packJSON(detail)
	})
	a.writeKept(w, r, page, err)
}

var errNoEndpoint = errors.New("no endpoint with this name")

func (a *api) serveExplain(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	report, ok := a.Explain(name)
	if !ok {
		a.noEndpoint(w, name)
		return
	}
	a.writeJSON(w, report)
}

// noEndpoint answers that there is no endpoint of a name, with the name that is likely meant.
func (a *api) noEndpoint(w http.ResponseWriter, name string) {
	names := stats.Map(a.Status.Fleet().Endpoints, func(row *status.Row) string { return row.Name })
	jsonError(w, http.StatusNotFound, errNoEndpoint.Error()+config.DidYouMean(name, names))
}

func (a *api) serveGateways(w http.ResponseWriter, r *http.Request) {
	page, err := a.gateways.get(func() ([]byte, error) { return packJSON(a.Gateways()) })
	a.writeKept(w, r, page, err)
}

func (a *api) serveGPUs(w http.ResponseWriter, _ *http.Request) {
	if a.GPUs == nil {
		jsonError(w, http.StatusNotFound, "the GPUs are not read")
		return
	}
	a.writeJSON(w, a.GPUs())
}

func (a *api) serveConfig(w http.ResponseWriter, _ *http.Request) {
	page, err := a.Config()
	a.write(w, "text/yaml; charset=utf-8", page, err)
}

func (a *api) writeJSON(w http.ResponseWriter, v any) {
	page, err := json.Marshal(v)
	a.write(w, "application/json", page, err)
}

// writeKept answers with a page that many request, which is kept in gzip.
func (a *api) writeKept(w http.ResponseWriter, r *http.Request, page []byte, err error) {
	switch {
	case errors.Is(err, errNoEndpoint):
		jsonError(w, http.StatusNotFound, err.Error())
	case err != nil:
		a.fail(w, err)
	case accepts(r.Header, "gzip"):
		w.Header().Set("Content-Encoding", "gzip") // which the wrapper leaves as it is
		a.write(w, "application/json", page, nil)
	default:
		w.Header().Set("Content-Type", "application/json")
		if plain, err := gzip.NewReader(bytes.NewReader(page)); err == nil {
			_, _ = io.Copy(w, plain)
		}
	}
}

func (a *api) write(w http.ResponseWriter, contentType string, page []byte, err error) {
	if err != nil {
		a.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(page)
}

func (a *api) fail(w http.ResponseWriter, err error) {
	a.Logger.Error("building an API response failed", "err", err)
	jsonError(w, http.StatusInternalServerError, "building the answer failed; see the log")
}

func serveNoAPI(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		jsonError(w, http.StatusMethodNotAllowed, "the API is read-only: want GET")
		return
	}
	jsonError(w, http.StatusNotFound, "there is no such path in the API")
}

func jsonError(w http.ResponseWriter, status int, text string) {
	page, _ := json.Marshal(map[string]string{"error": text}) // strings cannot fail
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(page)
}

const (
	// keptAge is how long a page serves requests at the same time.
	keptAge = time.Second
	// maxDetails is of how many endpoints the page is kept.
	maxDetails = 8
)

// keptPage keeps a page in gzip for a moment, so that many requests for it at the same
// time, as after a restart, cost no more than one.
type keptPage struct {
	version uint64 // up to which an endpoint's page has its changes

	mu   sync.Mutex
	page []byte // nil is none
}

// packFleet returns the page of all endpoints, of which one row at a time is in memory before it is packed.
func packFleet(f *status.Fleet) ([]byte, error) {
	head := *f
	head.Endpoints = []*status.Row{}
	page, err := json.Marshal(&head)
	if err != nil {
		return nil, err
	}
	const end = "]}" // of the rows, which are the last of the page
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // fails at an unknown level only; a buffer does not
	_, _ = w.Write(bytes.TrimSuffix(page, []byte(end)))
	for i, row := range f.Endpoints {
		page, err = json.Marshal(row)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			_, _ = io.WriteString(w, ",")
		}
		_, _ = w.Write(page)
	}
	_, _ = io.WriteString(w, end)
	_ = w.Close()
	return out.Bytes(), nil
}

func packJSON(v any) ([]byte, error) {
	page, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // as above
	_, _ = w.Write(page)
	_ = w.Close()
	return out.Bytes(), nil
}

func (k *keptPage) get(produce func() ([]byte, error)) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.page != nil {
		return k.page, nil
	}
	page, err := produce()
	if err != nil {
		return nil, err
	}
	k.page = page
	time.AfterFunc(keptAge, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.page = nil
	})
	return page, nil
}

// keptDetails keeps the pages of a few endpoints for a moment. All who watch an
// endpoint get an event of a change at once, and request its page then.
type keptDetails struct {
	mu    sync.Mutex
	pages map[string]*keptPage
}

// of returns the page of an endpoint at a version. A page of an older version
// would be wrong: the client had an event of the newer one, and gets none after it.
func (k *keptDetails) of(name string, version uint64) *keptPage {
	k.mu.Lock()
	defer k.mu.Unlock()
	kept := k.pages[name]
	if kept == nil || kept.version != version {
		if k.pages == nil || len(k.pages) >= maxDetails {
			k.pages = make(map[string]*keptPage, maxDetails)
		}
		kept = &keptPage{version: version}
		k.pages[name] = kept
	}
	return kept
}

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
