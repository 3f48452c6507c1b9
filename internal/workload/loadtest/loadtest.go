// Package loadtest is the workload of many users: how an endpoint serves them at chosen numbers of users at once, in the
// steady state, and how many it serves within its objectives. A run adds load step by step, and ends when users wait.
package loadtest

import (
	"context"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// End is why a run ended, or did not begin.
type End string

// The ends of a run, in the order of Ends.
const (
	Completed    End = "completed"     // all levels were measured
	NoRoom       End = "no_room"       // it did not begin: the servers are busy
	UsersWaiting End = "users_waiting" // requests of users began to wait
	UsersSlow    End = "users_slow"    // users' TTFT left its usual range
	Slow         End = "slow"          // without a page: our own requests became slow
	Errors       End = "errors"        // too many requests failed
	PageLost     End = "page_lost"     // the servers' pages could not be read any more, or did not show all; the text says why
	NotUp        End = "not_up"        // the endpoint is no longer up by its probes, or it was muted
	Budget       End = "budget"        // of tokens or money
	WindowOver   End = "window"        // the time of day was over
	Refused      End = "refused"       // the key or the quota does not allow it
	Canceled     End = "canceled"      // by a reload, a shutdown or a person
	NotPossible  End = "not_possible"  // the endpoint cannot be asked; the text says why
	OwnLimit     End = "own_limit"     // this process or machine was too slow
)

// Ends lists the closed set.
func Ends() []End {
	return []End{Completed, NoRoom, UsersWaiting, UsersSlow, Slow, Errors, PageLost, NotUp, Budget, WindowOver, Refused, Canceled, NotPossible, OwnLimit}
}

// Plan is what a run does.
type Plan struct {
	Load       *config.LoadTest
	Objectives *series.Objectives
	// HasPage is whether Driver.Pressure can be asked.
	HasPage bool
	// Until is when the window ends; the zero time is never.
	Until time.Time
}

// Driver is what a run needs of the endpoint. Its methods may be called at the same time.
type Driver interface {
	// Ask sends a request as the user of that index, who keeps a connection, and returns when it ended. planned is when
	// it was due in an open loop, the zero time in a closed one. lengths are those of a trace; nil is by the module.
	Ask(ctx context.Context, user int, planned time.Time, lengths *config.TracedRequest) *result.Result
	// Pressure reads the pages of the servers now.
	Pressure(ctx context.Context) (Pressure, error)
	// Afford reserves what a request costs at most, of those lengths as Ask has them; false is no budget. Ask settles it.
	Afford(lengths *config.TracedRequest) bool
}

// Pressure is how busy the servers are, by their own pages, all together.
type Pressure struct {
	// Running and Waiting are requests, of users and ours.
	Running, Waiting float64
	// KVUsage is the highest share of a KV cache in use; negative is not known.
	KVUsage float64
	// TTFTCount and TTFTLate count all requests of the servers that have got their first token since they started,
	// and those that were later than UsualP99 for certain; negative is not known.
	TTFTCount, TTFTLate float64
	// UsualP99 is what users' 99th percentile of TTFT usually is at most; 0 is not known.
	UsualP99 time.Duration
}

// Sample is what is kept of a request.
type Sample struct {
	// Sent and Ended are counted from the start of the run: when it was sent, or was to be sent.
	Sent, Ended time.Duration
	// TTFT and TPOT are result.Absent where they are not known.
	TTFT, TPOT time.Duration
	// Input and Output are tokens; negative is not known.
	Input, Output int
	Outcome       result.Outcome
	// Judgement is by the objectives of the plan.
	Judgement series.Judgement
	// Late is a request whose times cannot be vouched for: this process was late.
	Late bool
}

// Recorded is what one level recorded.
type Recorded struct {
	Level float64
	// Begin is when its load began to rise, Full when all of it was there, and Stop when no more requests were sent; all
	// counted from the start of the run. Full is 0 of a level that did not get there.
	Begin, Full, Stop time.Duration
	Samples           []Sample
}

// Report is what a run came to.
type Report struct {
	Start, Stop time.Time
	End         End
	Text        string // says more of the end, for people; "" is nothing
	Levels      []Recorded
}
