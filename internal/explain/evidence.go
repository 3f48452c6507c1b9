package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Evidence is what all senses know of one endpoint at one instant: what the rules look at, and no more, as many of them are
// kept as JSON, with durations in nanoseconds. What is nil, or the zero value, is not known: it speaks neither for a cause nor
// against it.
type Evidence struct {
	At       time.Time `json:"at"`
	Endpoint string    `json:"endpoint"`
	// Engine is the server software.
	Engine string `json:"engine,omitempty"`
	Condition
	// NoKey says that the configuration of the endpoint has no key.
	NoKey bool `json:"no_key,omitempty"`
	// Facts are what is known of the endpoint as a whole.
	Facts EndpointFacts `json:"facts,omitzero"`
	// Probes are the latest probes that count for the state, in the order of their start.
	Probes []*Probe `json:"probes"`
	// Succeeded is whether any probe of the endpoint succeeded before the state began.
	Succeeded bool `json:"succeeded,omitempty"`
	// Speeds are the latencies of the modules.
	Speeds  []Speed `json:"speeds,omitempty"`
	Servers *Pages  `json:"servers,omitempty"`
	// Gateway is the gateway that the endpoint is joined to; nil is none, or not yet read.
	Gateway *Pages `json:"gateway,omitempty"`
	// GPUs are the cards that the endpoint runs on.
	GPUs []*gpu.DeviceSnapshot `json:"gpus,omitempty"`
	// Changes are changes of what should stay the same.
	Changes []Change `json:"changes,omitempty"`
	// Steps are the latest lasting changes of latencies and failures of the modules.
	Steps []Step `json:"steps,omitempty"`
	// LoadTest is what the load tests of a module came to; nil is none.
	LoadTest *LoadTest `json:"load_test,omitempty"`
	// Corruptions are the signs of corruption that more answers have than usual, in words.
	Corruptions []string `json:"corruptions,omitempty"`
	Exporter    Exporter `json:"exporter,omitzero"`
	Common      *Shared  `json:"common,omitempty"`
}

// EndpointFacts are the facts of an endpoint that a rule looks at, without the methods that write them as the API has them.
type EndpointFacts struct {
	Retirement api.Retirement     `json:"retirement,omitzero"`
	Names      *drift.Change      `json:"model_names,omitempty"`
	Scores     *drift.Change      `json:"model_scores,omitempty"`
	Differ     []page.Difference  `json:"replicas_differ,omitempty"`
	Loss       *lossOfServer      `json:"loss_of_a_server,omitempty"`
	Parts      *partsOfFirstToken `json:"ttft_parts,omitempty"`
}

type (
	lossOfServer      loadtest.Loss
	partsOfFirstToken page.TTFTParts
)

// FactsOf returns what the rules look at of the facts of an endpoint.
func FactsOf(all *workload.Findings) (f EndpointFacts) {
	ends, _ := workload.In[health.Retirement](all)
	changes, _ := workload.In[drift.Changes](all)
	loss, _ := workload.In[*loadtest.Loss](all)
	parts, _ := workload.In[*page.TTFTParts](all)
	if servers, ok := workload.In[*page.Compared](all); ok {
		f.Differ = servers.Findings
	}
	f.Retirement, f.Names, f.Scores = ends.Retirement, changes.Names, changes.Scores
	f.Loss, f.Parts = (*lossOfServer)(loss), (*partsOfFirstToken)(parts)
	return f
}

// LoadTest is how many requests in flight met the objectives in a load test, and missed them; nil is not known.
type LoadTest struct {
	At      time.Time          `json:"at"`
	MaxGood *loadtest.Capacity `json:"max_good"`
	Knee    *loadtest.Capacity `json:"knee"`
}

// Condition is the state of an endpoint without regard to a mute.
type Condition struct {
	State health.State `json:"state"`
	// Since is when the state began.
	Since time.Time `json:"since,omitzero"`
	// Failed counts the probes since then that failed, Of all of them, and Spells how often the endpoint was down,
	// while some fail; 0 is not known.
	Failed int `json:"failed,omitempty"`
	Of     int `json:"of,omitempty"`
	Spells int `json:"spells,omitempty"`
	// Witness is who saw the incident that pages, and Users says in words which requests of users are bad; "" is none.
	Witness health.Witness `json:"witness,omitempty"`
	Users   string         `json:"users,omitempty"`
}

// isFailing reports whether the state is about probes that failed since it began.
func (c *Condition) isFailing() bool { return c.State != health.Up && c.State != health.Slow }

// Probe is what one probe came to.
type Probe struct {
	Start   time.Time      `json:"start"`
	Module  string         `json:"module,omitempty"`
	Outcome result.Outcome `json:"outcome"`
	Status  int            `json:"http_status,omitempty"`
	Reason  result.Reason  `json:"reason,omitempty"`
	// Error is the text of the failure, its innermost cause first: bounded, without secrets.
	Error     string          `json:"error,omitempty"`
	StartLag  time.Duration   `json:"start_lag"`
	Timing    result.Timing   `json:"timing"`
	Server    api.ServerTimes `json:"server"`
	Buffered  bool            `json:"buffered,omitempty"`
	Imprecise bool            `json:"imprecise,omitempty"`
	Stall     *result.Stall   `json:"stall,omitempty"`
}

// maxErrorBytes bounds Probe.Error.
const maxErrorBytes = 200

// Failed reports whether the probe failed.
func (p *Probe) Failed() bool { return p.Outcome != result.Success }

func (p *Probe) end() time.Time { return p.Start.Add(max(0, p.Timing.Duration)) }

// Speed is the latencies of one module, in seconds.
type Speed struct {
	Module string `json:"module"`
	TTFT   Level  `json:"ttft,omitzero"`
	TPOT   Level  `json:"tpot,omitzero"`
	E2E    Level  `json:"e2e,omitzero"`
}

// Level is a value now and as it usually is, with the objective; nil is not known.
type Level struct {
	Now       *float64 `json:"now,omitempty"`
	Usual     *float64 `json:"usual,omitempty"`
	Objective *float64 `json:"objective,omitempty"`
}

// Pages is what the pages of the servers behind an endpoint, or those of the gateway in front of them, show together.
type Pages struct {
	// Name is that of the gateway.
	Name string `json:"name,omitempty"`
	// Known is how many there are, Up how many answered, Usual how many mostly do. Lost names those that do not
	// answer, with the reason.
	Known int      `json:"known"`
	Up    int      `json:"up"`
	Usual int      `json:"usual,omitempty"`
	Lost  []string `json:"lost,omitempty"`
	// Levels are sums over the pages; of the KV cache that of the fullest, of counters per second, and of histograms
	// the mean in seconds.
	Levels map[config.Quantity]Level `json:"levels,omitempty"`
	// Started is when the process that is youngest started; zero is not known.
	Started time.Time `json:"started,omitzero"`
	// Idle is whether no request ran and none waited while a probe waited that timed out.
	Idle bool `json:"idle,omitempty"`
	// Stuck is how long the server that is longest without progress has generated nothing although it has requests, and
	// Work says which; 0 is none.
	Stuck time.Duration `json:"stuck,omitempty"`
	Work  string        `json:"work,omitempty"`
	// Lag are the lines that say how a rank of a server has lagged behind the others for long; nil is none.
	Lag []string `json:"lag,omitempty"`
	// WasRead is whether a page of the gateway was ever read. NotReady names its backends that are not ready, Failing
	// says in words which failed requests lately, and Trouble what else went wrong in choosing and asking them.
	WasRead  bool     `json:"was_read,omitempty"`
	NotReady []string `json:"not_ready,omitempty"`
	Failing  []string `json:"failing,omitempty"`
	Trouble  []string `json:"trouble,omitempty"`
}

// Change is a change of something that should stay the same.
type Change struct {
	At     time.Time `json:"at"`
	Module string    `json:"module"`
	// What is the source of the change, as in drift.Sources.
	What string `json:"what"`
}

// Step is a lasting change of the level of a latency, or of the share of failed probes, as the API serves it.
type Step struct {
	// At is when the first probe after it started, to within some ten probes, in seconds since 1970.
	At float64 `json:"at"`
	// Module is the title of the series; "" where that is clear.
	Module string        `json:"module,omitempty"`
	Metric series.Metric `json:"metric"`
	// Before and After are seconds, or the share of the probes that failed.
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// Lower and Upper are bounds of After / Before with 95 % confidence; absent for failures.
	Lower *float64 `json:"lower,omitempty"`
	Upper *float64 `json:"upper,omitempty"`
	// Beside is what else changed at that time, which may have caused it, in words.
	Beside []string `json:"beside,omitempty"`
}

// Time returns At as a time.
func (s *Step) Time() time.Time { return time.UnixMilli(int64(math.Round(s.At * 1e3))) }

// Exporter is what the exporter knows of itself as far as it concerns the endpoint.
type Exporter struct {
	// Skipped are the latest runs that were due and did not happen, by reason, and SkippedAt the latest of each.
	Skipped   map[result.SkipReason]int       `json:"skipped,omitempty"`
	SkippedAt map[result.SkipReason]time.Time `json:"skipped_at,omitempty"`
	// Text is what to change, of a run that measured nothing; "" is none.
	Text string `json:"text,omitempty"`
}

// Encode returns evidence as JSON, of which Decode makes evidence with the same findings.
func Encode(e *Evidence) ([]byte, error) { return json.Marshal(e) }

// Decode returns the evidence of what Encode wrote. An error says what is wrong, and where.
func Decode(text []byte) (*Evidence, error) {
	e := new(Evidence)
	if err := json.Unmarshal(text, e); err != nil {
		return nil, fmt.Errorf("not evidence: %w", err)
	}
	if e.At.IsZero() || !slices.Contains(health.States(), e.State) {
		return nil, errors.New("not evidence: want a time and a state")
	}
	for i, p := range e.Probes {
		if p == nil || p.Start.IsZero() || !slices.Contains(result.Outcomes(), p.Outcome) {
			return nil, fmt.Errorf("not evidence: probes[%d] has no time or an unknown outcome", i)
		}
	}
	e.GPUs = slices.DeleteFunc(e.GPUs, func(g *gpu.DeviceSnapshot) bool { return g == nil })
	return e, nil
}
