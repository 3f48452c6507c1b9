package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// DiffersAfter is how long servers must differ for a finding: a rolling update is over by then.
const DiffersAfter = 30 * time.Minute

// Replicas compares the settings of the servers of one endpoint. It is safe for concurrent use.
type Replicas struct {
	mu      sync.Mutex
	servers map[string]*Snapshot         // the latest page of each
	began   time.Time                    // the first reading
	since   map[config.Setting]time.Time // when the first of the readings began that all found a difference; never changed
}

// NewReplicas returns one which goes on with what Save returned.
func NewReplicas(saved map[config.Setting]time.Time) *Replicas { return &Replicas{since: saved} }

// Save returns since when the servers have differed, by setting. It is not to be changed.
func (r *Replicas) Save() map[config.Setting]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since
}

// Compared is what a comparison came to, a fact of the endpoint. It is immutable.
type Compared struct {
	workload.NoFigures `json:"-"`
	// Differs says for each setting that can be compared, which at least two servers show, whether there is a finding.
	Differs map[config.Setting]bool `json:"-"`
	// Findings are the settings in which the servers have differed for DiffersAfter.
	Findings []Difference `json:"replicas_differ,omitempty"`
}

// ReplicaFact is what servers of endpoints that differ are, with its metric.
func ReplicaFact() workload.Fact {
	rows := config.Settings()
	return workload.FactOf[*Compared](workload.Metric{
		Name: "endpoint_replicas_differ", Values: config.SettingNames(),
		Value: workload.Of(func(c *Compared, i int) float64 {
			differ, compared := c.Differs[rows[i].Setting]
			return workload.If(compared, workload.Number(differ))
		}),
	})
}

// News implements workload.News: a setting in which the servers differ since.
func (c *Compared) News(before workload.Finding, _ string) (lines []workload.Line) {
	known, _ := before.(*Compared)
	for _, d := range c.Findings {
		if known == nil || !slices.ContainsFunc(known.Findings, func(k Difference) bool { return k.Setting == d.Setting }) {
			lines = append(lines, workload.Line{Note: "servers differ in " + d.String()})
		}
	}
	return lines
}

// Difference is a setting in which the servers of an endpoint differ.
type Difference struct {
	Setting config.Setting `json:"setting"`
	// Since is when they began to differ, in seconds since 1970.
	Since float64 `json:"since"`
	// Values are the names of the servers, sorted, by their value of the setting.
	Values map[string][]string `json:"values"`
}

// maxNamed is how many servers of a value a text names.
const maxNamed = 3

// String says in words which servers have which value.
func (d Difference) String() string {
	var values []string
	for _, value := range slices.Sorted(maps.Keys(d.Values)) {
		servers := d.Values[value]
		text := value + " on " + strings.Join(servers[:min(maxNamed, len(servers))], ", ")
		if more := len(servers) - maxNamed; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		values = append(values, text)
	}
	return fmt.Sprintf("%s: %s", d.Setting, strings.Join(values, "; "))
}

// Read compares the servers by a reading of the pages of all. One whose page could not be read counts as it was last,
// for DiffersAfter.
func (r *Replicas) Read(statuses []Status) *Compared {
	r.mu.Lock()
	defer r.mu.Unlock()
	servers := make(map[string]*Snapshot, len(statuses))
	for i := range statuses {
		st := &statuses[i]
		if latest := cmp.Or(st.Snapshot, r.servers[st.Server]); latest != nil && st.At.Sub(latest.At) < DiffersAfter && !latest.loadsOnRequest() {
			servers[st.Server] = latest
		}
	}
	r.servers = servers
	if len(statuses) == 0 {
		return new(Compared)
	}
	now, since, c := statuses[0].At, map[config.Setting]time.Time{}, &Compared{Differs: map[config.Setting]bool{}}
	if r.began.IsZero() {
		r.began = now
	}
	names := slices.Sorted(maps.Keys(servers))
	for _, row := range config.Settings() {
		values, compared, differ := r.compare(names, row)
		before, saved := r.since[row.Setting]
		if before.After(now) { // by a file of another clock
			before = now
		}
		switch {
		case differ:
			since[row.Setting] = cmp.Or(before, now)
		case saved && !compared && now.Sub(r.began) < DiffersAfter: // after a restart a page may not have been read yet
			since[row.Setting] = before
		}
		if compared {
			c.Differs[row.Setting] = differ && now.Sub(since[row.Setting]) >= DiffersAfter
		}
		if c.Differs[row.Setting] {
			c.Findings = append(c.Findings, Difference{row.Setting, stats.UnixSeconds(since[row.Setting]), values})
		}
	}
	r.since = since
	return c
}

// compare returns the values of a setting, and whether any of the named servers can be compared by it and differ: those of one
// engine and, where the setting may differ by role, of one role.
func (r *Replicas) compare(names []string, row config.SettingRow) (values map[string][]string, compared, differ bool) {
	first := map[[2]string]string{} // by engine and role
	values = map[string][]string{}
	for _, server := range names {
		s := r.servers[server]
		value, of := s.setting(row), [2]string{s.Engine}
		if value == "" {
			continue
		}
		if row.ByRole {
			of[1] = s.roleOf(server)
		}
		before, known := first[of]
		compared = compared || known
		differ = differ || known && value != before
		first[of] = cmp.Or(before, value)
		values[value] = append(values[value], server)
	}
	return values, compared, differ
}

// loadsOnRequest reports whether the server loads models, with settings of their own, as they are asked for.
func (s *Snapshot) loadsOnRequest() bool {
	_, ok := s.Values["models_loaded"]
	return ok
}

// setting returns a setting as text; "" where the page does not show it.
func (s *Snapshot) setting(row config.SettingRow) string {
	if v := s.Values[config.Quantity(row.Setting)]; row.Quantity && v > 0 { // some show 0 until they know it
		return plainNumber(v)
	}
	return s.Settings[row.Setting]
}

// roleOf returns what part of a request the server of a name does, as far as it is known: one of those that give KV cache to
// others and do not say their role has one of its own.
func (s *Snapshot) roleOf(server string) string {
	if s.Role == "" && (s.Values[config.KVTransferBytes] > 0 || s.Histograms[config.KVTransferTime] != nil) {
		return server
	}
	return s.Role
}
