package config

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// LoadKind is in what the levels of a load are counted.
type LoadKind string

// The kinds, which the options of LoadTest describe.
const (
	LoadUsers LoadKind = "users"               // at once, each of whom waits for an answer before the next request: a closed loop
	LoadRate  LoadKind = "requests_per_second" // whether or not earlier ones have ended: an open loop
	LoadTrace LoadKind = "trace_speed"         // how many times as fast as recorded: an open loop
)

// LoadKinds lists the closed set.
func LoadKinds() []LoadKind { return []LoadKind{LoadUsers, LoadRate, LoadTrace} }

// LoadTest puts the load of many users on an endpoint, one level after the other, while the servers' own pages say that
// there is room, and ends at once when requests of users wait.
type LoadTest struct {
	// Users lists how many users are there at once, in rising order: each sends a request, reads the answer, thinks
	// for a while, and sends the next.
	Users []int `yaml:"users,omitempty" range:"[1,2048]" items:"some,rising" excludes:"requests_per_second,trace_file"`
	// RequestsPerSecond lists how many requests start per second on average, in rising order, independent of each other
	// and of the answers.
	RequestsPerSecond []float64 `yaml:"requests_per_second,omitempty" range:"(0,1000]" items:"some,rising" excludes:"trace_file"`
	// TraceFile is a file with recorded requests: when each arrived, and the lengths of its prompt and of its answer;
	// see [workloads](workloads.md#recorded-requests).
	TraceFile string `yaml:"trace_file,omitempty"`
	// TraceSpeeds lists how many times as fast as recorded the requests arrive, in rising order.
	TraceSpeeds []float64 `yaml:"trace_speeds,omitempty" default:"[1]" range:"(0,100]" items:"some,rising" requires:"trace_file"`
	// ThinkTime is how long a user thinks between an answer and the next request on average; the times are
	// exponentially distributed.
	ThinkTime model.Duration `yaml:"think_time,omitempty" requires:"users"`
	// Duration is how long each level takes.
	Duration model.Duration `yaml:"duration" default:"2m" range:"[10s,30m]"`
	// Window is when a run may begin, and must have ended. Default: at any time.
	Window *LoadWindow `yaml:"window,omitempty"`
	// MaxErrorRatio ends the run when more than this share of the latest requests failed.
	MaxErrorRatio float64 `yaml:"max_error_ratio" default:"0.05" range:"(0,1)"`
	// MaxTokens bounds the tokens that one run spends, prompts and answers together, beside the budgets. Where tokens
	// have a price, as those of any hosted service, there must be this bound, `max_usd` or a budget. Default: no such bound.
	MaxTokens int `yaml:"max_tokens,omitempty" range:"[1,1000000000]"`
	// MaxUSD bounds what one run spends in US dollars, of an endpoint whose tokens have a price. Default: no such bound.
	MaxUSD float64 `yaml:"max_usd,omitempty" range:"(0,1000000]"`
	// WithoutPage allows the load where no metrics page of a server is read, so that users who wait cannot be seen: it
	// then ends when its own requests become slow. Hosted services and endpoints with `servers.find: false` and no page
	// need it.
	WithoutPage bool `yaml:"without_page,omitempty"`
	// Target is the level at which the objectives are to be met, which an alert goes by. Default: the highest.
	Target float64 `yaml:"target,omitempty"`

	// Trace are the requests of TraceFile, as they were when the configuration was loaded; nil without. Longest has the
	// longest prompt and the longest answer of them, and Mean their mean lengths.
	Trace         []TracedRequest `yaml:"-"`
	Longest, Mean TracedRequest   `yaml:"-"`
}

// LoadWindow is a part of each day, or of some days.
type LoadWindow struct {
	// Hours is a part of the day in UTC, such as `22:00-06:00`, without its last minute.
	Hours string `yaml:"hours" form:"hours" required:"a part of the day, such as 02:00-05:00"`
	// Days lists the days on which it begins: `mon`, `tue`, `wed`, `thu`, `fri`, `sat`, `sun`. Default: all.
	Days []string `yaml:"days,omitempty" oneof:"mon,tue,wed,thu,fri,sat,sun" items:"some,unique"`
}

// TracedRequest is a recorded request.
type TracedRequest struct {
	At            time.Duration // since the first
	Input, Output int           // tokens
}

// Kind returns in what the levels are counted.
func (l *LoadTest) Kind() LoadKind {
	switch {
	case len(l.RequestsPerSecond) > 0:
		return LoadRate
	case l.TraceFile != "":
		return LoadTrace
	}
	return LoadUsers
}

// Levels returns the levels, in rising order.
func (l *LoadTest) Levels() []float64 {
	switch l.Kind() {
	case LoadRate:
		return l.RequestsPerSecond
	case LoadTrace:
		return l.TraceSpeeds
	}
	return stats.Map(l.Users, func(n int) float64 { return float64(n) })
}

// Words returns levels as people read them, such as "10, 50 users".
func (k LoadKind) Words(levels ...float64) string {
	all := stats.Map(levels, func(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) })
	unit := map[LoadKind]string{LoadUsers: " users", LoadRate: " requests/s", LoadTrace: " × the trace"}[k]
	if k == LoadUsers && len(levels) == 1 && levels[0] == 1 {
		unit = " user"
	}
	return strings.Join(all, ", ") + unit
}

// Unit returns how many users at once, or requests per second, a level of 1 has.
func (l *LoadTest) Unit() float64 {
	if n := len(l.Trace); n > 1 {
		return float64(n-1) / l.Trace[n-1].At.Seconds()
	}
	return 1
}

// Requests returns how many requests a whole run makes: +Inf of users, who make as many as the endpoint answers.
func (l *LoadTest) Requests() float64 {
	if l.Kind() == LoadUsers {
		return math.Inf(1)
	}
	return stats.Sum(l.Levels(), func(level float64) float64 { return level * l.Unit() * time.Duration(l.Duration).Seconds() })
}

// Opens reports whether a run may begin, and when it must have ended; the zero time is never.
func (l *LoadTest) Opens(now time.Time) (until time.Time, open bool) {
	if l.Window == nil {
		return time.Time{}, true
	}
	begin, length := spanOf(l.Window.Hours)
	today := now.UTC().Truncate(day)
	for _, midnight := range []time.Time{today.Add(-day), today} {
		since, weekday := now.Sub(midnight.Add(begin)), strings.ToLower(midnight.Weekday().String()[:3])
		if since >= 0 && since < length && (len(l.Window.Days) == 0 || slices.Contains(l.Window.Days, weekday)) {
			return midnight.Add(begin + length), true
		}
	}
	return time.Time{}, false
}

const day = 24 * time.Hour

// spanOf returns when a part of the day begins, after midnight, and how long it is.
func spanOf(hours string) (begin, length time.Duration) {
	first, second, _ := strings.Cut(hours, "-")
	from, _ := time.Parse("15:04", first) // they have the form
	to, _ := time.Parse("15:04", second)
	return from.Sub(from.Truncate(day)), (to.Sub(from) + day) % day
}

const (
	maxLoadLevels = 16
	maxLoadTokens = 16_000_000 // of prompts in memory at once, at some 6 bytes each
)

// completeModule sets the defaults of its module, and takes from a built-in one what means nothing with load.
func (l *LoadTest) completeModule(m *Module, r *report, p path) {
	orDefault(r, p.key("interval"), &m.Interval, model.Duration(day))
	orDefault(r, p.key("concurrency"), &m.Concurrency, nil)
	if m.Prefix.IsRelated() {
		orDefault(r, p.key("prefix"), &m.Prefix, PrefixCold)
	}
	if len(m.Concurrency) == 0 {
		orDefault(r, p.key("connection"), &m.Connection, ConnectionReuse)
	}
	if l.TraceFile != "" {
		orDefault(r, p.key("input_tokens"), &m.InputTokens, Lengths{})
		orDefault(r, p.key("output_tokens"), &m.OutputTokens, Lengths{})
	}
}

func (l *LoadTest) complete(r *report, p path) {
	if levels := l.Levels(); len(levels) > 0 {
		orDefault(r, p.key("target"), &l.Target, levels[len(levels)-1])
	}
	r.loadLines(p.key("trace_file"), l.TraceFile, func(data []byte) (mistakes []lineError) {
		l.Trace, mistakes = parseTrace(data, true)
		for _, one := range l.Trace {
			l.Longest.Input, l.Longest.Output = max(l.Longest.Input, one.Input), max(l.Longest.Output, one.Output)
			l.Mean.Input, l.Mean.Output = l.Mean.Input+one.Input, l.Mean.Output+one.Output
		}
		n := max(1, len(l.Trace))
		l.Mean.Input, l.Mean.Output = l.Mean.Input/n, l.Mean.Output/n
		return mistakes
	})
}

func (l *LoadTest) check(r *report, p path) {
	key := map[LoadKind]string{LoadUsers: "users", LoadRate: "requests_per_second", LoadTrace: "trace_speeds"}[l.Kind()]
	levels, at := l.Levels(), p.key(key)
	switch {
	case r.failedUnder(at) || r.failedUnder(p.key("trace_file")):
		return
	case len(levels) == 0:
		r.errorf(p, "want users, requests_per_second or trace_file")
		return
	case len(levels) > maxLoadLevels:
		r.errorf(at, "%d levels, more than %d", len(levels), maxLoadLevels)
	}
	if !slices.Contains(levels, l.Target) {
		r.errorf(p.key("target"), "want one of %s, got %v", key, l.Target)
	}
	if l.ThinkTime >= l.Duration && !r.failed[p.key("duration")] {
		r.errorf(p.key("think_time"), "%s is not less than the duration of %s", l.ThinkTime, l.Duration)
	}
	if w := p.key("window"); l.Window != nil && !r.failedUnder(w) && !r.failed[p.key("duration")] {
		takes := time.Duration(len(levels)) * time.Duration(l.Duration)
		if _, length := spanOf(l.Window.Hours); takes > length {
			r.errorf(w, "%d levels of %s take %s, longer than the window", len(levels), l.Duration, model.Duration(takes))
		}
	}
}

// validateLoad checks what the other keys of the module mean for a load test.
func (m *Module) validateLoad(r *report, p path) {
	l := m.Load
	if l == nil {
		return
	}
	for i, lengths := range []Lengths{m.InputTokens, m.OutputTokens} {
		if len(lengths.Ladder) > 1 {
			r.errorf(p.key([]string{"input_tokens", "output_tokens"}[i]), "a ladder beside load; want one length, or a mix of them")
		}
	}
	for _, key := range []string{"input_tokens", "output_tokens", "traffic"} {
		if l.TraceFile != "" && r.written(p.key(key)) {
			r.errorf(p.key(key), "has no effect with load.trace_file, which has the lengths")
		}
	}
	if a := m.Ask(); l.TraceFile != "" && !a.ToLength() {
		r.errorf(p.key(a.Key), "%s and load.trace_file, which has the lengths, are mutually exclusive", a.Key)
	}
	if n := len(l.Users); n > 0 && l.Users[n-1]*m.MaxInput() > maxLoadTokens {
		r.errorf(p.key("load").key("users"), "%d prompt tokens at once, more than %d", l.Users[n-1]*m.MaxInput(), maxLoadTokens)
	}
}

// checkLoad checks that a load test sees users who wait, and has a bound of cost; all is the budget of all endpoints.
func (e *Endpoint) checkLoad(r *report, p path, name string, l *LoadTest, all Budget) {
	inUSD := e.Price.PerToken()
	priced := inUSD || e.Price != nil && e.Price.Input+e.Price.Output > 0 || e.IsHosted() // whether or not the file has it
	switch {
	case !l.WithoutPage && len(e.Servers.URLs)+len(e.Servers.DNS) == 0 && (!e.Servers.Find || e.IsHosted()):
		r.errorf(p, "module %s puts load on %s, where no metrics page of a server is read, so that users who wait cannot be seen; name pages under servers.urls, or set load.without_page of the module", quote(name), quote(e.Name))
	case l.MaxUSD > 0 && !inUSD:
		r.errorf(p, "load.max_usd of module %s has no effect without a price of tokens in US dollars; set load.max_tokens instead", quote(name))
	case !priced || l.MaxTokens > 0 || e.Budget.TokensPerHour+all.TokensPerHour > 0:
	case !inUSD || l.MaxUSD+e.Budget.USDPerDay+all.USDPerDay == 0:
		r.errorf(p, "module %s puts load on %s, whose tokens have a price, without a bound of what it costs; set load.max_tokens of the module, load.max_usd with a price in US dollars, or a budget", quote(name), quote(e.Name))
	}
}

// LoadWith returns a module like m, which has that name, that puts load on the endpoint, with other values of some keys, as
// a file has them: for load.users `[1, 4]`. It is for a run that a person asks for: the window does not count, and budgets
// bound nothing. Errors are as those of Load, of a file named flags.
func (e *Endpoint) LoadWith(m *Module, name string, keys map[string]string) (*Module, error) {
	r, own, of := newReport("flags"), *m, *e
	of.Budget = Budget{}
	if m.Load != nil {
		own.Load = new(*m.Load)
		own.Load.Window = nil
	}
	if m.SLO != nil {
		own.SLO = new(*m.SLO)
	}
	d, v := &decoder{report: r}, reflect.ValueOf(&own).Elem()
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		text := "{" + strings.ReplaceAll(key, ".", ": {") + ": " + keys[key] + strings.Repeat("}", 1+strings.Count(key, "."))
		if root := parseYAML([]byte(text), key, r); root != nil {
			d.value(root, "", v)
		}
	}
	if d.finish("", v); own.Load != nil {
		of.checkLoad(r, "load", name, own.Load, Budget{})
	}
	own.Timeouts = m.Timeouts
	for _, err := range r.errs {
		err.Line = 0
	}
	return &own, r.err()
}
