package prober

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
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
		"control_characters":              result.Success,
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
		"foreign_script":                  result.Success,
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
		"pause_midstream":                 result.Success,
		"raw_json_error":                  result.StreamError,
		"reasoning_tags":                  result.Success,
		"redirect_loop":                   result.HTTPError,
		"redirect_other_host":             result.HTTPError,
		"repeated_token":                  result.Success,
		"repetition":                      result.Success,
		"reset_before_headers":            result.Truncated,
		"reset_midstream":                 result.Truncated,
		"slow_accept":                     result.Success,
		"slow_drip":                       result.TimeoutFirstToken,
		"slow_tokens":                     result.TimeoutStall,
		"special_token":                   result.Success,
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
		"call_bad_json":                   result.Success, // of a request that wants no call, as all of these
		"call_bad_schema":                 result.Success,
		"call_leaked_into_content":        result.Success,
		"call_no_call":                    result.Success,
		"call_truncated":                  result.Success,
		"call_wrong_tool":                 result.Success,
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

// What the configuration holds is never repeated, in whatever form the server
// quotes it.
func TestConfiguredSecretsStayInside(t *testing.T) {
	const secret = "hunter2/pass"
	f := func(name string, set func(*config.Endpoint), quote func(*http.Request) string) {
		t.Run(name, func(t *testing.T) {
			s := chat(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprintf(w, `{"error":{"message":"wrong: %s"}}`, quote(r))
			})
			cfg := newEndpoint(t, s.URL)
			set(cfg)
			r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{})
			text := fmt.Sprint(r.Err)
			if r.Outcome != result.Unauthorized || strings.Contains(text, "hunter2") {
				t.Errorf("outcome %s: %q", r.Outcome, text)
			}
		})
	}
	f("basic auth", func(c *config.Endpoint) {
		c.HTTP.BasicAuth = &promconfig.BasicAuth{Username: "u", Password: secret}
	}, func(r *http.Request) string {
		_, password, _ := r.BasicAuth()
		return password
	})
	f("header", func(c *config.Endpoint) {
		c.HTTP.HTTPHeaders = &promconfig.Headers{Headers: map[string]promconfig.Header{"X-Api-Key": {Secrets: []promconfig.Secret{secret}}}}
	}, func(r *http.Request) string { return r.Header.Get("X-Api-Key") })
	token := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, "you sent %s and %s", body, secret)
	}))
	t.Cleanup(token.Close)
	f("oauth2", func(c *config.Endpoint) {
		c.HTTP.OAuth2 = &promconfig.OAuth2{ClientID: "c", ClientSecret: secret, TokenURL: token.URL}
	}, func(*http.Request) string { return "" })
}

// TestReasonsAreNotInGosWords checks the reasons of what fails often, and that one of a
// reply in another form shows how it begins.
func TestReasonsAreNotInGosWords(t *testing.T) {
	f := func(name, url, want string) {
		t.Helper()
		cfg := newEndpoint(t, url)
		if name == "event stream" {
			cfg.API = "bedrock"
		}
		if r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{}); fmt.Sprint(r.Err) != want {
			t.Errorf("%s: %q, want %q", name, r.Err, want)
		}
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	f("gone", gone.URL, "connection refused (connect to "+strings.TrimPrefix(gone.URL, "http://")+")")
	f("end", listen(t, func(c net.Conn) { _, _ = http.ReadRequest(bufio.NewReader(c)) }), "connection closed before the reply")
	f("reset", listen(t, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_ = c.(*net.TCPConn).SetLinger(0)
	}), "connection reset by peer (connection closed before the reply)")
	f("cut", listen(t, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:")
	}), "reply cut before its end")
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		_, _ = io.WriteString(w, "<html>Sign in to continue</html>")
	}))
	t.Cleanup(plain.Close)
	f("no TLS", strings.Replace(plain.URL, "http", "https", 1), "the server does not speak TLS at this port")
	f("event stream", plain.URL, `reply malformed: checksum of a message's prelude, in a reply that begins "<html>Sign in to continue</html>"`)
	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	f("certificate", secure.URL, "certificate signed by unknown authority")
}

// What a server sends where the reply should begin is quoted by net/http.
func TestReasonsAreBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Read(make([]byte, 64<<10))
		_, _ = io.WriteString(c, strings.Repeat("\x1b[31mB", 100_000)+"\r\n\r\n")
	}()
	r := newProber(t, newEndpoint(t, "http://"+l.Addr().String()), newModule()).one(t.Context(), time.Time{})
	text := fmt.Sprint(r.Err)
	if r.Outcome == result.Success || len(text) > maxReason+8 || strings.ContainsAny(text, "\x1b\r\n") {
		t.Errorf("outcome %s, reason of %d bytes", r.Outcome, len(text))
	}
}

// A server may quote the credentials in its error.
func TestServersWordsHoldNoSecret(t *testing.T) {
	f := func(name string, answer http.HandlerFunc) {
		t.Run(name, func(t *testing.T) {
			const secret = "sk-0123456789abcdef"
			s := chat(t, answer)
			cfg := newEndpoint(t, s.URL)
			cfg.HTTP.Authorization = &promconfig.Authorization{Type: "Bearer", Credentials: secret}
			r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{})
			text := fmt.Sprint(r.Err)
			if strings.Contains(text, secret[:6]) || !strings.Contains(text, "<secret>") {
				t.Errorf("outcome %s: %q", r.Outcome, text)
			}
		})
	}
	f("status", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"incorrect API key: %s"}}`, r.Header.Get("Authorization"))
	})
	f("long text", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, strings.Repeat("x", 240)+" "+r.Header.Get("Authorization"))
	})
	f("event", func(w http.ResponseWriter, r *http.Request) {
		events(w, role, fmt.Sprintf(`{"error":{"message":"key %s expired"}}`, r.Header.Get("Authorization")))
	})
}
