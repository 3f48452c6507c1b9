package prober

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
)

// faultOutcomes is what a probe must say of each odd or hostile reply that
// the simulator knows. A healthy answer in an odd shape is a success.
func faultOutcomes() map[string]Outcome {
	return map[string]Outcome{
		"absurd_usage":                    Success,
		"bom":                             Success,
		"buffered":                        Success,
		"close_before_headers":            Truncated,
		"comment_before_done":             Success,
		"comment_only":                    TimeoutFirstToken,
		"comments_between":                Success,
		"cr":                              Success,
		"crlf":                            Success,
		"crlf_split":                      Success,
		"cut_before_finish":               Truncated,
		"done_without_space":              Success,
		"early_answer":                    Success,
		"early_role":                      Success,
		"empty_body":                      Empty,
		"empty_events":                    Success,
		"empty_stream":                    Empty,
		"empty_string_tokens":             Success,
		"end_before_finish":               Truncated,
		"endless_tokens":                  TooLarge,
		"error_event_first":               StreamError,
		"error_event_midstream":           StreamError,
		"error_line":                      StreamError,
		"event_without_blank_line_at_eof": Success,
		"extra_fields":                    Success,
		"garbage_bytes":                   Success, // lines of unknown fields
		"gzip":                            Success,
		"html_200":                        ProtocolError,
		"html_event_stream":               ProtocolError,
		"json_200":                        ProtocolError,
		"json_error_200":                  StreamError,
		"keepalive_data":                  Success,
		"long_line":                       TooLarge,
		"malformed_chunk":                 ProtocolError,
		"malformed_http":                  ProtocolError,
		"malformed_json":                  ProtocolError,
		"many_tokens_per_event":           Success,
		"multiline_data":                  Success,
		"negative_usage":                  Success,
		"no_echo":                         Success, // of a request that wants no echo
		"no_end_marker":                   Success,
		"no_finish_reason":                Success,
		"no_usage":                        Success,
		"nulls":                           Success,
		"one_read":                        Success,
		"open_after_finish":               Success,
		"raw_json_error":                  StreamError,
		"redirect_loop":                   HTTPError,
		"redirect_other_host":             HTTPError,
		"reset_before_headers":            Truncated,
		"reset_midstream":                 Truncated,
		"slow_accept":                     Success,
		"slow_drip":                       TimeoutFirstToken,
		"slow_tokens":                     TimeoutStall,
		"split_utf8":                      Success,
		"split_writes":                    Success,
		"stall_before_first_token":        TimeoutFirstToken,
		"stall_before_headers":            TimeoutFirstToken,
		"stall_midstream":                 TimeoutStall,
		"status_400":                      HTTPError,
		"status_401":                      Unauthorized,
		"status_403":                      Unauthorized,
		"status_404":                      HTTPError,
		"status_408":                      HTTPError,
		"status_422":                      HTTPError,
		"status_429":                      RateLimited,
		"status_500":                      HTTPError,
		"status_502":                      HTTPError,
		"status_503":                      Overloaded,
		"status_504":                      HTTPError,
		"status_529":                      Overloaded,
		"truncated_json":                  ProtocolError,
		"two_finish_reasons":              Success,
		"usage_every_chunk":               Success,
		"usage_on_finish":                 Success,
		"wrong_content_type":              ProtocolError,
		"zero_usage_every_chunk":          Success,
	}
}

// startSimulator serves a quick simulated server until the test ends.
func startSimulator(t testing.TB) (*simulator.Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := simulator.New(simulator.Options{DecodeStep: 2 * time.Millisecond, DecodeStepPerSequence: -1})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, "http://" + l.Addr().String()
}

func TestEveryFaultHasItsOutcome(t *testing.T) {
	_, base := startSimulator(t)
	want := faultOutcomes()
	for _, f := range simulator.Faults() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			outcome, ok := want[f.Name]
			if !ok {
				t.Fatalf("no outcome is stated for %s: %s", f.Name, f.Description)
			}
			m := newModule()
			switch outcome { // end soon where the limit is the outcome
			case TimeoutStall:
				m.Timeouts.Stall = model.Duration(500 * time.Millisecond)
			case TimeoutFirstToken:
				m.Timeouts.FirstToken, m.Timeouts.Headers = model.Duration(time.Second), model.Duration(time.Second)
			}
			cfg := newEndpoint(t, base+"/fault/"+f.Name)
			cfg.Model = ""
			r := newProber(t, cfg, m).one(t.Context(), time.Time{})
			if r.Outcome != outcome {
				t.Errorf("outcome %s (%v), want %s: %s", r.Outcome, r.Err, outcome, f.Description)
			}
			checkConsistent(t, r)
		})
	}
}

// checkConsistent checks what must hold for every result.
func checkConsistent(t *testing.T, r *Result) {
	t.Helper()
	if (r.Err == nil) != (r.Outcome == Success) {
		t.Errorf("outcome %s with error %v", r.Outcome, r.Err)
	}
	if r.Err != nil && len(r.Err.Error()) > 1024 {
		t.Errorf("error of %d bytes", len(r.Err.Error()))
	}
	if r.Outcome != Success {
		return
	}
	d := r.Timing
	if len(r.Events) == 0 || d.TTFT < 0 || d.TTFO < d.TTFT || d.Duration < d.TTFO {
		t.Errorf("%d events, timing %+v", len(r.Events), d)
	}
	if r.Tokens.Output <= 0 || r.Tokens.Cached > r.Tokens.Prompt {
		t.Errorf("tokens %+v", r.Tokens)
	}
	var sum time.Duration
	for _, p := range d.Phases {
		sum += max(0, p)
	}
	if sum != d.Duration {
		t.Errorf("phases %v add up to %s, duration %s", d.Phases, sum, d.Duration)
	}
	if r.Buffered != (d.TPOT == Absent && r.Tokens.Output >= bufferedMinTokens) {
		t.Errorf("buffered %t with TPOT %s", r.Buffered, d.TPOT)
	}
}
