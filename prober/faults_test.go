package prober

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
)

// faultOutcomes is what a probe must say of each odd or hostile reply that
// the simulator knows. A healthy answer in an odd shape is a success.
func faultOutcomes() map[string]result.Outcome {
	return map[string]result.Outcome{
		"absurd_usage":                    result.Success,
		"bom":                             result.Success,
		"buffered":                        result.Success,
		"close_before_headers":            result.Truncated,
		"comment_before_done":             result.Success,
		"comment_only":                    result.TimeoutFirstToken,
		"comments_between":                result.Success,
		"cr":                              result.Success,
		"crlf":                            result.Success,
		"crlf_split":                      result.Success,
		"cut_before_finish":               result.Truncated,
		"done_without_space":              result.Success,
		"early_answer":                    result.Success,
		"early_role":                      result.Success,
		"empty_body":                      result.Empty,
		"empty_events":                    result.Success,
		"empty_stream":                    result.Empty,
		"empty_string_tokens":             result.Success,
		"end_before_finish":               result.Truncated,
		"endless_tokens":                  result.TooLarge,
		"error_event_first":               result.StreamError,
		"error_event_midstream":           result.StreamError,
		"error_line":                      result.StreamError,
		"event_without_blank_line_at_eof": result.Success,
		"extra_fields":                    result.Success,
		"garbage_bytes":                   result.Success, // lines of unknown fields
		"gzip":                            result.Success,
		"html_200":                        result.ProtocolError,
		"html_event_stream":               result.ProtocolError,
		"json_200":                        result.ProtocolError,
		"json_error_200":                  result.StreamError,
		"keepalive_data":                  result.Success,
		"long_line":                       result.TooLarge,
		"malformed_chunk":                 result.ProtocolError,
		"malformed_http":                  result.ProtocolError,
		"malformed_json":                  result.ProtocolError,
		"many_tokens_per_event":           result.Success,
		"multiline_data":                  result.Success,
		"negative_usage":                  result.Success,
		"no_echo":                         result.Success, // of a request that wants no echo
		"no_end_marker":                   result.Success,
		"no_finish_reason":                result.Success,
		"no_usage":                        result.Success,
		"nulls":                           result.Success,
		"one_read":                        result.Success,
		"open_after_finish":               result.Success,
		"raw_json_error":                  result.StreamError,
		"redirect_loop":                   result.HTTPError,
		"redirect_other_host":             result.HTTPError,
		"reset_before_headers":            result.Truncated,
		"reset_midstream":                 result.Truncated,
		"slow_accept":                     result.Success,
		"slow_drip":                       result.TimeoutFirstToken,
		"slow_tokens":                     result.TimeoutStall,
		"split_utf8":                      result.Success,
		"split_writes":                    result.Success,
		"stall_before_first_token":        result.TimeoutFirstToken,
		"stall_before_headers":            result.TimeoutFirstToken,
		"stall_midstream":                 result.TimeoutStall,
		"status_400":                      result.HTTPError,
		"status_401":                      result.Unauthorized,
		"status_403":                      result.Unauthorized,
		"status_404":                      result.HTTPError,
		"status_408":                      result.HTTPError,
		"status_422":                      result.HTTPError,
		"status_429":                      result.RateLimited,
		"status_500":                      result.HTTPError,
		"status_502":                      result.HTTPError,
		"status_503":                      result.Overloaded,
		"status_504":                      result.HTTPError,
		"status_529":                      result.Overloaded,
		"truncated_json":                  result.ProtocolError,
		"two_finish_reasons":              result.Success,
		"usage_every_chunk":               result.Success,
		"usage_on_finish":                 result.Success,
		"wrong_content_type":              result.ProtocolError,
		"zero_usage_every_chunk":          result.Success,
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
			case result.TimeoutStall:
				m.Timeouts.Stall = model.Duration(500 * time.Millisecond)
			case result.TimeoutFirstToken:
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
func checkConsistent(t *testing.T, r *result.Result) {
	t.Helper()
	if (r.Err == nil) != (r.Outcome == result.Success) {
		t.Errorf("outcome %s with error %v", r.Outcome, r.Err)
	}
	if r.Err != nil && len(r.Err.Error()) > 1024 {
		t.Errorf("error of %d bytes", len(r.Err.Error()))
	}
	if r.Outcome != result.Success {
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
	if r.Buffered != (d.TPOT == result.Absent && r.Tokens.Output >= bufferedMinTokens) {
		t.Errorf("buffered %t with TPOT %s", r.Buffered, d.TPOT)
	}
}
