package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// DiffersAfter is how long servers must differ for a finding: a rolling update is over by then.
const DiffersAfter = 30 * time.Minute

// Replicas compares the settings of the servers of one endpoint. It is safe for concurrent use.
type Replicas struct {
	mu      sync.Mutex
	servers map[string]*Snapshot         // the latest page of each
	since   map[config.Setting]time.Time // when the first of the readings began that all found a difference
}

// NewReplicas returns one which goes on with what Save returned; nil is nothing.
func NewReplicas(saved map[config.Setting]time.Time) *Replicas {
	return &Replicas{since: maps.Clone(saved)}
}

// Save returns since when the servers have differed, by setting.
func (r *Replicas) Save() map[config.Setting]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.since)
}

// Compared is what a comparison came to. It is immutable.
type Compared struct {
	// Differs says for each setting that can be compared, which at least two servers show, whether there is a finding.
	Differs map[config.Setting]bool
	// Findings are the settings in which the servers have differed for DiffersAfter.
	Findings []Difference
}

// Difference is a setting in which the servers of an endpoint differ.
type Difference struct {
	Setting config.Setting `json:"setting"`
	// Since is when they began to differ, in seconds since 1970.
	Since float64 `json:"since"`
	// Values are all values of the setting, the most frequent first.
	Values []SettingValue `json:"values"`
}

// SettingValue is a value of a setting with the names of the servers that have it, sorted.
type SettingValue struct {
	Value   string   `json:"value"`
	Servers []string `json:"servers"`
}

// maxNamed is how many servers of a value a text names.
const maxNamed = 3

// String says in words which servers have which value.
func (d Difference) String() string {
	var values []string
	for _, v := range d.Values {
		named := strings.Join(v.Servers[:min(maxNamed, len(v.Servers))], ", ")
		if more := len(v.Servers) - maxNamed; more > 0 {
			named += fmt.Sprintf(" and %d more", more)
		}
		values = append(values, fmt.Sprintf("%s on %s", v.Value, named))
	}
	return fmt.Sprintf("%s: %s", d.Setting, strings.Join(values, "; "))
}

// Read compares the servers by a reading of the pages of all. One whose page could not be read counts as it was last.
func (r *Replicas) Read(statuses []Status) *Compared {
	r.mu.Lock()
	defer r.mu.Unlock()
	servers := make(map[string]*Snapshot, len(statuses))
	var now time.Time
	for i := range statuses {
		st := &statuses[i]
		if latest := cmp.Or(st.Snapshot, r.servers[st.Server]); latest != nil {
			servers[st.Server] = latest
		}
		if st.At.After(now) {
			now = st.At
		}
	}
	r.servers = servers
	c := &Compared{Differs: map[config.Setting]bool{}}
	for _, row := range config.Settings() {
		values, comparable, differ := r.compare(row)
		if !differ {
			delete(r.since, row.Setting)
		} else if r.since[row.Setting].IsZero() {
			if r.since == nil {
				r.since = map[config.Setting]time.Time{}
			}
			r.since[row.Setting] = now
		}
		if !comparable {
			continue
		}
		found := differ && now.Sub(r.since[row.Setting]) >= DiffersAfter
		c.Differs[row.Setting] = found
		if found {
			c.Findings = append(c.Findings, Difference{row.Setting, stats.UnixSeconds(r.since[row.Setting]), values})
		}
	}
	return c
}

// compare returns the values of a setting, and whether any servers can be compared by it and differ: those of one engine and, where
// the setting may differ by role, of one role.
func (r *Replicas) compare(row config.SettingRow) (values []SettingValue, comparable, differ bool) {
	type group struct{ engine, role string }
	first := map[group]string{}
	named := map[string][]string{}
	for _, server := range slices.Sorted(maps.Keys(r.servers)) {
		s := r.servers[server]
		value, of := s.setting(row), group{engine: s.Engine}
		if value == "" {
			continue
		}
		if row.ByRole {
			of.role = s.roleOf(server)
		}
		before, known := first[of]
		comparable = comparable || known
		differ = differ || known && value != before
		first[of] = cmp.Or(before, value)
		named[value] = append(named[value], server)
	}
	for _, value := range slices.Sorted(maps.Keys(named)) {
		values = append(values, SettingValue{value, named[value]})
	}
	slices.SortStableFunc(values, func(a, b SettingValue) int { return len(b.Servers) - len(a.Servers) })
	return values, comparable, differ
}

// setting returns a setting as text; "" where the page does not show it.
func (s *Snapshot) setting(row config.SettingRow) string {
	if v := s.Values[config.Quantity(row.Setting)]; row.Quantity && v > 0 { // some show 0 until they know it
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return s.Settings[row.Setting]
}

// roleOf returns what part of a request the server of a name does, as far as it is known: one of those that give KV cache to
// others and do not say their role has one of its own.
func (s *Snapshot) roleOf(server string) string {
	_, bytes := s.Values[config.KVTransferBytes]
	if s.Role == "" && (bytes || s.Histograms[config.KVTransferTime] != nil) {
		return server
	}
	return s.Role
}
