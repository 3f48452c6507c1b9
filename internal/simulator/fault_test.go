package simulator

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

const faultRequest = `{"messages":[{"content":"one two three"}],"max_tokens":8,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`

// patience is when the client of these tests goes away.
const patience = 30 * time.Second

func TestFaults(t *testing.T) {
	wanted := wantedOfFaults()
	for _, f := range Faults() {
		want := wanted[f.Name]
		if want == nil {
			t.Errorf("fault %s has no test", f.Name)
			continue
		}
		delete(wanted, f.Name)
		if f.Description == "" || strings.Contains(f.Description, "\n") {
			t.Errorf("fault %s: description %q", f.Name, f.Description)
		}
		if named, ok := FaultNamed(f.Name); !ok || named.Description != f.Description {
			t.Errorf("fault %s is not found by its name", f.Name)
		}
		t.Run(f.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := serve(t, Options{}, false)
				defer v.stop()
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				a := v.post(ctx, "/fault/"+f.Name+"/v1/chat/completions", faultRequest, 1<<20)
				if wrong := want(a); wrong != "" {
					t.Errorf("%s: status %d, error %v, %v, body %.2000q", wrong, a.status, a.err, a.took, a.body)
				}
				synctest.Wait()
				if s := v.State()[0]; s.Running+s.Waiting != 0 {
					t.Errorf("goes on without a client: %+v", s)
				}
				if r, ok := v.Request(trace); !ok || r.Fault != f.Name || !r.Complete {
					t.Errorf("record %v %+v", ok, r)
				}
			})
		})
	}
	for name := range wanted {
		t.Errorf("no fault %s", name)
	}
}

// Legacy completions and replies that are not streamed know the same faults.
func TestFaultsOfOtherRequests(t *testing.T) {
	for _, f := range Faults() {
		for path, request := range map[string]string{
			"completions":      `{"prompt":"one two three","max_tokens":8,"stream":true}`,
			"chat/completions": `{"messages":[{"content":"one"}],"max_tokens":8}`,
		} {
			synctest.Test(t, func(t *testing.T) {
				v := serve(t, Options{}, false)
				defer v.stop()
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				v.post(ctx, "/fault/"+f.Name+"/v1/"+path, request, 1<<20)
				synctest.Wait()
				if r, ok := v.Request(trace); !ok || !r.Complete {
					t.Errorf("%s of %s: record %v %+v", f.Name, path, ok, r)
				}
			})
		}
	}
}

func TestResetIsReset(t *testing.T) {
	for _, name := range []string{"reset_before_headers", "reset_midstream"} {
		v := serve(t, Options{DecodeStep: ms}, true)
		a := v.post(context.Background(), "/fault/"+name+"/v1/chat/completions", faultRequest, 1<<20)
		if !errors.Is(a.err, syscall.ECONNRESET) {
			t.Errorf("%s: error %v, want a reset", name, a.err)
		}
		v.stop()
	}
}

// A large request is not even sent when the answer is there.
func TestEarlyAnswerDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{}, false)
		defer v.stop()
		body, write := io.Pipe()
		defer func() { _ = write.Close() }()
		req, err := http.NewRequest(http.MethodPost, v.base+"/fault/early_answer/v1/chat/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		res, err := v.http.Do(req) // while nothing was written to the body
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		if err != nil || !bytes.HasSuffix(got, []byte("[DONE]\n\n")) {
			t.Errorf("error %v, body %q", err, got)
		}
		_ = res.Body.Close()
	})
}

// Tokens that are sent together belong to one channel, and the counts beside
// them are right.
func TestManyTokensPerEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{ReasoningTokens: 2}, false)
		defer v.stop()
		a := v.post(context.Background(), "/fault/many_tokens_per_event/v1/chat/completions",
			`{"messages":[{"content":"x"}],"max_tokens":9,"temperature":0,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, 1<<20)
		var got []string
		for line := range strings.Lines(a.body) {
			if m := regexp.MustCompile(`"delta":(.*),"logprobs".*"completion_tokens":(\d+)`).FindStringSubmatch(line); m != nil {
				got = append(got, m[1]+" "+m[2])
			}
		}
		want := []string{
			`{"reasoning":"zero one"} 2`, `{"content":"zero one two three"} 6`, `{"content":" four five six"} 9`,
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		r, _ := v.Request(trace)
		if r.Events[1].Tokens != 2 || r.Events[2].Tokens != 4 || r.Events[3].Tokens != 3 {
			t.Errorf("%+v", r.Events)
		}
	})
}

func TestFaultRatio(t *testing.T) {
	unauthorized, _ := FaultNamed("status_401")
	broken, _ := FaultNamed("status_500")
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Faults: []Fault{unauthorized, broken}, FaultRatio: 0.5, DecodeStep: ms}, false)
		defer v.stop()
		count := map[int]int{}
		for range 400 {
			count[v.post(context.Background(), "/v1/completions", `{"prompt":"x","max_tokens":1}`, 1<<20).status]++
		}
		// 200, 100, 100 within four deviations.
		if count[200] < 160 || count[200] > 240 || count[401] < 65 || count[401] > 135 || count[401]+count[500]+count[200] != 400 {
			t.Errorf("%v", count)
		}
	})
}

// done is the end marker as it should be.
const done = "data: [DONE]\n\n"

// complaint returns what is wrong with an answer; empty is nothing.
type complaint func(a answer) string

func status(want int, header ...string) complaint {
	return func(a answer) string {
		for i := 0; i < len(header); i += 2 {
			if a.header.Get(header[i]) != header[i+1] {
				return "header " + header[i] + " is " + a.header.Get(header[i])
			}
		}
		if a.status != want || a.err != nil {
			return "not the status"
		}
		return ""
	}
}

// complete is a reply that ends well and holds all of parts, and tokens
// answer events.
func complete(tokens int, parts ...string) complaint {
	return func(a answer) string {
		if a.status != 200 || a.err != nil || a.took > 3*time.Second {
			return "did not end well"
		}
		return holds(a, tokens, parts...)
	}
}

func holds(a answer, tokens int, parts ...string) string {
	if n := strings.Count(a.body, `"delta":{"content":"`) - strings.Count(a.body, `"delta":{"content":"aaaa`); n != tokens {
		return "not the number of tokens"
	}
	for _, p := range parts {
		if !strings.Contains(a.body, p) {
			return "lacks " + p
		}
	}
	return ""
}

// ends is complete, with the last bytes of the body.
func ends(tokens int, with string) complaint {
	return func(a answer) string {
		if !strings.HasSuffix(a.body, with) {
			return "does not end with " + with
		}
		return complete(tokens)(a)
	}
}

// without is complete, but lacks parts.
func without(tokens int, parts ...string) complaint {
	return func(a answer) string {
		for _, p := range parts {
			if strings.Contains(a.body, p) {
				return "has " + p
			}
		}
		return complete(tokens)(a)
	}
}

// neverEnds is a reply that the client had to leave.
func neverEnds(tokens int, parts ...string) complaint {
	return func(a answer) string {
		if !errors.Is(a.err, context.DeadlineExceeded) {
			return "ended by itself"
		}
		return holds(a, tokens, parts...)
	}
}

// cut is a reply whose connection broke.
func cut(tokens int) complaint {
	return func(a answer) string {
		if a.err == nil || errors.Is(a.err, context.DeadlineExceeded) {
			return "was not cut"
		}
		return holds(a, tokens)
	}
}

// burst is a reply whose events all come in one instant of waiting.
func burst(tokens int) complaint {
	return func(a answer) string {
		for i := range a.readEnd {
			if !a.readEnd[i].Equal(a.readEnd[0]) {
				return "came in parts"
			}
		}
		return ends(tokens, "data: [DONE]\n\n")(a)
	}
}

func gunzip(tokens int) complaint {
	return func(a answer) string {
		if a.header.Get("Content-Encoding") != "gzip" {
			return "does not say that it is compressed"
		}
		z, err := gzip.NewReader(strings.NewReader(a.body))
		if err != nil {
			return err.Error()
		}
		plain, err := io.ReadAll(z)
		if err != nil {
			return err.Error()
		}
		a.body = string(plain)
		return ends(tokens, "data: [DONE]\n\n")(a)
	}
}

// splits is complete, with a read that ends inside of what pieces returns.
func splits(inside func(read string) bool, next complaint) complaint {
	return func(a answer) string {
		if !slices.ContainsFunc(a.reads, inside) {
			return "nothing is split"
		}
		return next(a)
	}
}

func wantedOfFaults() map[string]complaint {
	all := wantedAnswers()
	maps.Copy(all, wantedLines())
	maps.Copy(all, wantedEvents())
	maps.Copy(all, wantedTimes())
	return all
}

// wantedAnswers are of the faults that answer with something else.
func wantedAnswers() map[string]complaint {
	return map[string]complaint{
		"status_400": status(400), "status_401": status(401), "status_403": status(403), "status_404": status(404),
		"status_408": status(408), "status_422": status(422), "status_429": status(429, "Retry-After", "7"),
		"status_500": status(500), "status_502": status(502), "status_503": status(503, "Retry-After", "3"),
		"status_504": status(504), "status_529": status(529),
		"html_200":             status(200, "Content-Type", "text/html; charset=utf-8"),
		"html_event_stream":    complete(0, "<!DOCTYPE html>"),
		"json_error_200":       status(200, "Content-Type", "application/json"),
		"raw_json_error":       complete(0, `{"error":{`),
		"empty_body":           ends(0, ""),
		"no_echo":              ends(8, done), // of a reply that is to score nothing
		"json_200":             complete(0, `"message":{"role":"assistant"`),
		"wrong_content_type":   status(200, "Content-Type", "application/octet-stream"),
		"redirect_other_host":  status(307, "Location", "http://other-host.invalid/v1/chat/completions"),
		"redirect_loop":        status(307, "Location", "/fault/redirect_loop/v1/chat/completions"),
		"early_answer":         ends(8, done),
		"malformed_http":       cut(0),
		"malformed_chunk":      cut(0),
		"close_before_headers": cut(0),
		"reset_before_headers": cut(0),
		"stall_before_headers": neverEnds(0),
		"slow_accept": func(a answer) string {
			if a.took < 2*time.Second {
				return "was not slow"
			}
			return ends(8, done)(a)
		},
	}
}

// wantedLines are of the faults of framing and lines.
func wantedLines() map[string]complaint {
	return map[string]complaint{
		"crlf":                            ends(8, "data: [DONE]\r\n\r\n"),
		"cr":                              ends(8, "data: [DONE]\r\r"),
		"done_without_space":              ends(8, "\n\ndata:[DONE]\n\n"),
		"multiline_data":                  complete(8, ",\ndata: \"object\"", done),
		"extra_fields":                    complete(8, "event: message\nid: 7\nretry: 1000\nx-odd: 1\ndata: {\"x_odd\":", done),
		"bom":                             complete(8, "\ufeffdata: {\"id\"", done),
		"event_without_blank_line_at_eof": ends(8, `"cached_tokens":0}}}`+"\n"),
		"comments_between":                complete(8, ": keep-alive\n\ndata: {", ": keep-alive\n\ndata: [DONE]"),
		"comment_before_done":             ends(8, "}\n\n: OPENROUTER PROCESSING\ndata: [DONE]\n\n"),
		"keepalive_data":                  complete(8, "\n\ndata: : keepalive\n\n", done),
		"empty_events":                    complete(8, "\n\ndata:\n\n\n\ndata: {", done),
		"nulls":                           complete(8, `"choices":null`, `"delta":null`, done),
		"garbage_bytes":                   complete(8, "\x00\xff", done),
		"malformed_json":                  complete(8, `0,,}`, done),
		"long_line": func(a answer) string {
			if len(a.body) < 1<<20 || a.err != nil {
				return "is not long"
			}
			return holds(a, 2, strings.Repeat("a", 500<<10))
		},
		"comment_only": neverEnds(0, strings.Repeat(": keep-alive\n\n", 290)),
	}
}

// wantedEvents are of the faults of events.
func wantedEvents() map[string]complaint {
	return map[string]complaint{
		"negative_usage":         complete(8, `"completion_tokens":-1`),
		"absurd_usage":           complete(8, `"completion_tokens":1000000000000000000`),
		"no_usage":               without(8, "usage"),
		"usage_every_chunk":      complete(8, `"total_tokens":17,"completion_tokens":1}`, `"completion_tokens":2}`, `"completion_tokens":8,`),
		"zero_usage_every_chunk": complete(8, `"prompt_tokens":0,"total_tokens":0,"completion_tokens":0}`, `"completion_tokens":8,`),
		"usage_on_finish":        complete(8, `"stop_reason":null}],"usage":{"prompt_tokens":16,"total_tokens":24,"completion_tokens":8,`),
		"empty_string_tokens":    complete(8, `"content":""}`, `"content":"zero"`, `"completion_tokens":8,`),
		"many_tokens_per_event":  complete(2, `"content":"zero one two three"`, `"content":" four five six seven"`, `"completion_tokens":8,`),
		"empty_stream":           complete(0, `"delta":{},"logprobs":null,"finish_reason":"stop"`, `"completion_tokens":0,`, done),
		"no_finish_reason":       without(8, `"finish_reason":"`),
		// Of a request that asks for neither a call nor JSON; see TestSpoiltCalls.
		"call_bad_json":            complete(8, done),
		"call_bad_schema":          complete(8, done),
		"call_wrong_tool":          complete(8, done),
		"call_no_call":             complete(8, done),
		"call_leaked_into_content": complete(8, done),
		"call_truncated":           complete(8, done),

		"two_finish_reasons": complete(8, `"finish_reason":"length"`, `"delta":{},"logprobs":null,"finish_reason":"stop"`),
		"endless_tokens": func(a answer) string {
			if n := strings.Count(a.body, `"delta":{"content":"`); n < 1490 || n > 1500 {
				return "not 1500 tokens in 30 s"
			}
			return neverEnds(strings.Count(a.body, `"delta":{"content":"`))(a)
		},
		"foreign_script":     complete(8, `"content":" two สวัสดี"`),
		"control_characters": complete(8, `"content":" two ��"`),
		"special_token":      complete(8, `"content":" two<|im_end|>"`, `"content":" three"`),
		"repetition":         complete(8, `"content":" one"`, `"content":" again"`),
		"repeated_token":     complete(8, `"content":"!"`),
		"reasoning_tags":     complete(8, `"content":"<think>\n\n</think>\n\nzero"`, `"content":" one"`),
		"early_role": func(a answer) string {
			if len(a.readEnd) < 2 || a.readEnd[1].Sub(a.readEnd[0]) < time.Second || !strings.Contains(a.reads[0], `"role"`) {
				return "the role is not early"
			}
			return complete(8, done)(a)
		},
		"no_end_marker":         without(8, "[DONE]"),
		"open_after_finish":     neverEnds(8, `"finish_reason":"length"`),
		"cut_before_finish":     cut(2),
		"end_before_finish":     without(2, "[DONE]", `"finish_reason":"`),
		"reset_midstream":       cut(2),
		"truncated_json":        ends(2, `"delta":{"cont`),
		"error_event_first":     ends(0, `"code":500}}`+"\n\n"+done),
		"error_event_midstream": ends(2, `"code":500}}`+"\n\n"+done),
		"error_line":            ends(2, "\n\nerror: {\"code\":500,\"message\":\"context shift is disabled\",\"type\":\"server_error\"}\n\n"),
	}
}

// wantedTimes are of the faults of when and how bytes are written.
func wantedTimes() map[string]complaint {
	return map[string]complaint{
		"stall_before_first_token": neverEnds(0),
		"stall_midstream":          neverEnds(2),
		"slow_tokens": func(a answer) string {
			if a.took < 16*time.Second || a.took > 17*time.Second || a.err != nil {
				return "not 8 tokens in 16 s"
			}
			return holds(a, 8, done)
		},
		"pause_midstream": func(a answer) string {
			if a.took < 1500*time.Millisecond || a.took > 1700*time.Millisecond || a.err != nil {
				return "not 8 tokens in 1.5 s"
			}
			return holds(a, 8, done)
		},
		"slow_drip": func(a answer) string {
			if n := len(a.body); n < 29 || n > 31 {
				return "not 30 bytes in 30 s"
			}
			return neverEnds(0)(a)
		},
		"split_writes": splits(func(r string) bool { return len(r) == 7 }, ends(8, done)),
		"split_utf8":   splits(func(r string) bool { return !utf8.ValidString(r) }, complete(8, " café", " 😀", done)),
		"crlf_split":   splits(func(r string) bool { return strings.HasSuffix(r, "}\r") }, ends(8, "\r\n\r\n")),
		"buffered":     burst(8),
		"one_read":     burst(8),
		"gzip":         gunzip(8),
	}
}
