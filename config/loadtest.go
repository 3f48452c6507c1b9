package config

import (
	"time"

	"github.com/prometheus/common/model"
)

// LoadKind is in what the levels of a load are counted.
type LoadKind string

const (
	// LoadUsers has so many users at once, each of whom waits for an answer before the next request: a closed loop.
	LoadUsers LoadKind = "users"
	// LoadRate has so many requests start per second, whether or not earlier ones have ended: an open loop.
	LoadRate LoadKind = "requests_per_second"
	// LoadTrace has requests arrive as they were recorded, so many times as fast: an open loop.
	LoadTrace LoadKind = "trace_speed"
)

// LoadKinds lists the closed set.
func LoadKinds() []LoadKind { return []LoadKind{LoadUsers, LoadRate, LoadTrace} }

// LoadTest puts the load of many users on an endpoint, one level after the other, while the servers' own pages say that
// there is room, and ends at once when requests of users wait.
type LoadTest struct {
	// Users lists how many users are there at once, in rising order: each sends a request, reads the answer, thinks
	// for a while, and sends the next.
	Users []int `yaml:"users,omitempty" range:"[1,2048]" items:"some" excludes:"requests_per_second,trace_file"`
	// RequestsPerSecond lists how many requests start per second on average, in rising order, independent of each other
	// and of the answers.
	RequestsPerSecond []float64 `yaml:"requests_per_second,omitempty" range:"(0,1000]" items:"some" excludes:"trace_file"`
	// TraceFile is a file with recorded requests: when each arrived, and the lengths of its prompt and of its answer;
	// see [workloads](workloads.md#recorded-requests).
	TraceFile string `yaml:"trace_file,omitempty"`
	// TraceSpeeds lists how many times as fast as recorded the requests arrive, in rising order. Default: once as fast.
	TraceSpeeds []float64 `yaml:"trace_speeds,omitempty" range:"(0,100]" items:"some" requires:"trace_file"`
	// ThinkTime is how long a user thinks between an answer and the next request on average; the times are
	// exponentially distributed.
	ThinkTime model.Duration `yaml:"think_time,omitempty" requires:"users"`
	// Duration is how long each level takes.
	Duration model.Duration `yaml:"duration" default:"2m"`
	// Window is when a run may begin, and must have ended. Default: at any time.
	Window *LoadWindow `yaml:"window,omitempty"`
	// MaxErrorRatio ends the run when more than this share of the latest requests failed.
	MaxErrorRatio float64 `yaml:"max_error_ratio" default:"0.05" range:"(0,1]"`
	// MaxTokens and MaxUSD bound what one run spends, beside the budgets. Default: no such bound.
	MaxTokens int     `yaml:"max_tokens,omitempty" range:"[1,1000000000]"`
	MaxUSD    float64 `yaml:"max_usd,omitempty" range:"(0,1000000]"`
	// WithoutPage allows the load where no metrics page of a server is read, so that users who wait cannot be seen: it
	// then ends when its own requests become slow.
	WithoutPage bool `yaml:"without_page,omitempty"`
	// Target is the level at which the objectives are to be met, which an alert goes by. Default: the highest.
	Target float64 `yaml:"target,omitempty"`

	// Trace are the requests of TraceFile, as they were when the configuration was loaded; nil without.
	Trace []TracedRequest `yaml:"-"`
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
		if len(l.TraceSpeeds) == 0 {
			return []float64{1}
		}
		return l.TraceSpeeds
	}
	all := make([]float64, len(l.Users))
	for i, n := range l.Users {
		all[i] = float64(n)
	}
	return all
}
