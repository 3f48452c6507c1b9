// Package recorder keeps what was there around an incident, from ten minutes before it to its end. JSON is the only form: what is kept,
// served, saved and read on another machine is the same document.
package recorder

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Version is that of the form of a Recording. It changes where an older program would misread it.
const Version = 1

// Recording is what was there around one incident of an endpoint.
type Recording struct {
	Version int `json:"version"`
	// Exporter is the version of the exporter, and of Go.
	Exporter string   `json:"exporter"`
	Endpoint string   `json:"endpoint"`
	Incident Incident `json:"incident"`
	// From is when the recording begins: ten minutes before the incident.
	From time.Time `json:"from"`
	// Config is the endpoint and its modules as YAML, without secrets.
	Config string `json:"config"`
	// Entries are in the order of time. Dropped is how many did not fit: those between the beginning and the latest.
	Entries []Entry `json:"entries"`
	Dropped int     `json:"dropped,omitempty"`
}

// Incident is one that pages; it begins with the first bad probe. End is zero while it goes on.
type Incident struct {
	Kind    health.Kind    `json:"kind"`
	Scope   string         `json:"scope,omitempty"`
	Witness health.Witness `json:"witness,omitempty"`
	Start   time.Time      `json:"start"`
	End     time.Time      `json:"end,omitzero"`
}

// Entry is one thing that was seen at a time. Exactly one of the other fields is set.
type Entry struct {
	At time.Time `json:"at"`
	// Probe is a probe whole, and Point one of which no more was kept when the recording began.
	Probe  *result.Document `json:"probe,omitempty"`
	Point  *Point           `json:"point,omitempty"`
	State  *State           `json:"state,omitempty"`
	Page   *Page            `json:"page,omitempty"`
	GPU    *GPU             `json:"gpu,omitempty"`
	Self   *Self            `json:"self,omitempty"`
	Report *explain.Report  `json:"report,omitempty"`
	// Evidence is what the report follows from, as explain encodes it.
	Evidence json.RawMessage `json:"evidence,omitempty"`
}

// Point is a probe in short.
type Point struct {
	// Series names the module and, where it has several, the prefix and the lengths.
	Series  string         `json:"series"`
	Outcome result.Outcome `json:"outcome"`
	TTFT    *float64       `json:"ttft_seconds,omitempty"`
	TPOT    *float64       `json:"tpot_seconds,omitempty"`
	// Late is a success over an objective.
	Late bool `json:"late,omitempty"`
}

// State is the state of the endpoint with its likeliest cause, from then on.
type State struct {
	State health.State  `json:"state"`
	Cause explain.Cause `json:"cause,omitempty"`
	Title string        `json:"title,omitempty"`
}

// What a page is of.
const (
	RoleServer  = "server"
	RoleGateway = "gateway"
)

// Page is what the page of a server or of a gateway's replica showed.
type Page struct {
	// Source is the name of the server or the replica.
	Source string      `json:"source"`
	Role   string      `json:"role"`
	Engine string      `json:"engine,omitempty"`
	State  page.State  `json:"state"`
	Reason page.Reason `json:"reason,omitempty"`
	// Values are by the names of the metrics, less the prefix, and LABEL after a colon; of a histogram NAME_sum and NAME_count.
	Values Values `json:"values,omitzero"`
}

// GPU is a sample of a card on which the endpoint runs. Values are by the names of the metrics, less the prefix, and LABEL after a colon.
type GPU struct {
	UUID   string `json:"uuid"`
	Up     bool   `json:"up"`
	Values Values `json:"values,omitzero"`
}

// Self is the lag of the exporter itself in the minute before: the longest, in seconds, by which a probe began late and a token was
// read late, and how many probes of all endpoints ended, of which Imprecise ones could not be timed.
type Self struct {
	ScheduleLag float64 `json:"schedule_lag_seconds"`
	ReadLag     float64 `json:"read_lag_seconds"`
	Probes      int     `json:"probes"`
	Imprecise   int     `json:"imprecise_probes"`
}

// Values are numbers by name, in little room: those that are kept while all is well have their names in common.
type Values struct {
	names   unique.Handle[string] // sorted, with a space between
	numbers []float64
}

// ValuesOf returns the numbers that are finite. Names have no spaces.
func ValuesOf(all map[string]float64) Values {
	names := slices.Sorted(maps.Keys(all))
	names = slices.DeleteFunc(names, func(name string) bool { return math.IsNaN(all[name]) || math.IsInf(all[name], 0) })
	numbers := stats.Map(names, func(name string) float64 { return all[name] })
	return Values{names: unique.Make(strings.Join(names, " ")), numbers: numbers}
}

// All returns the numbers by name.
func (v Values) All() map[string]float64 {
	all := make(map[string]float64, len(v.numbers))
	if len(v.numbers) > 0 {
		for i, name := range strings.Split(v.names.Value(), " ") {
			all[name] = v.numbers[i]
		}
	}
	return all
}

// IsZero reports whether there are no numbers.
func (v Values) IsZero() bool { return len(v.numbers) == 0 }

// MarshalJSON writes the numbers as an object.
func (v Values) MarshalJSON() ([]byte, error) { return json.Marshal(v.All()) }

// UnmarshalJSON reads an object of numbers, the names of which have no spaces.
func (v *Values) UnmarshalJSON(text []byte) error {
	var all map[string]float64
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for name := range all {
		if name == "" || strings.Contains(name, " ") {
			return fmt.Errorf("name of a value %.64q: want one without spaces", name)
		}
	}
	*v = ValuesOf(all)
	return nil
}

// Decode reads a recording. It returns an error for another version, and for what no recording has.
func Decode(text []byte) (*Recording, error) {
	r := new(Recording)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("not a recording: %w", err)
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	for i := range r.Entries {
		if err := r.Entries[i].check(); err != nil {
			return nil, fmt.Errorf("entries[%d]: %w", i, err)
		}
		if i > 0 && r.Entries[i].At.Before(r.Entries[i-1].At) {
			return nil, fmt.Errorf("entries[%d]: before the one before it", i)
		}
	}
	return r, nil
}

// Explain returns why the endpoint was as it was, by the rules of this program and the latest evidence that names a cause; without such,
// by the latest by which something is wrong. It returns an error where there is no evidence, or some cannot be read.
func (r *Recording) Explain() (*explain.Report, error) {
	var best *explain.Report
	for i, entry := range slices.Backward(r.Entries) {
		if len(entry.Evidence) == 0 {
			continue
		}
		e, err := explain.Decode(entry.Evidence)
		if err != nil {
			return nil, fmt.Errorf("entries[%d]: %w", i, err)
		}
		found := &explain.Report{
			At: stats.UnixSeconds(e.At), Endpoint: r.Endpoint, State: string(e.State), Since: stats.UnixSeconds(e.Since), Findings: explain.Explain(e),
		}
		switch cause := found.Findings[0].Cause; {
		case cause != explain.Healthy && cause != explain.Unknown:
			return found, nil
		case best == nil || best.Findings[0].Cause == explain.Healthy:
			best = found
		}
	}
	if best == nil {
		return nil, errors.New("the recording has no evidence")
	}
	return best, nil
}

func (r *Recording) check() error {
	switch {
	case r.Version != Version:
		return fmt.Errorf("a recording of version %d, and this program reads version %d", r.Version, Version)
	case r.Endpoint == "" || r.Dropped < 0 || !slices.Contains(health.Kinds(), r.Incident.Kind) || r.Incident.Start.IsZero() || r.From.IsZero():
		return errors.New("not a recording of an incident")
	case !r.Incident.End.IsZero() && r.Incident.End.Before(r.Incident.Start):
		return errors.New("the incident ends before it begins")
	}
	return nil
}

func (e *Entry) check() error {
	set := []bool{
		e.Probe != nil, e.Point != nil, e.State != nil, e.Page != nil, e.GPU != nil, e.Self != nil, e.Report != nil && len(e.Report.Findings) > 0, len(e.Evidence) > 0,
	}
	if stats.Count(set, func(is bool) bool { return is }) != 1 || e.At.IsZero() {
		return errors.New("want a time and one thing that was seen")
	}
	return nil
}
