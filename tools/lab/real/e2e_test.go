package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const report = `=== RUN   TestEndpoint/real
    e2e_test.go:46: api openai-chat, engine , model first
    e2e_test.go:48: openai-chat: prompt 507 tokens, output 32 (usage), TTFT 140ms, TPOT 10ms, end to end 500ms
    e2e_test.go:48: openai-responses: prompt 504 tokens, output 32 (usage), TTFT 400ms, TPOT 2.5ms, end to end 900ms
    e2e_test.go:48: rerank: prompt 504 tokens, output -1 (), TTFT -1ns, TPOT -1ns, end to end 900ms
    e2e_test.go:51: ollama is not offered (http_error: status 404: Not Found)
    e2e_test.go:54: openai-responses: TTFT 400ms, by openai-chat 140ms
    e2e_test.go:54: openai-chat: prompts of 700 tokens, want 512 within 5 %
`

func TestReadReport(t *testing.T) {
	all, differ, problems := readReport(report)
	want := []figures{
		{"openai-chat", 140 * time.Millisecond, 10 * time.Millisecond},
		{"openai-responses", 400 * time.Millisecond, 2500 * time.Microsecond},
		{"rerank", -1, -1},
	}
	if !slices.Equal(all, want) {
		t.Errorf("figures %v, want %v", all, want)
	}
	if len(differ) != 1 || len(problems) != 1 || !strings.Contains(problems[0], "prompts of 700") {
		t.Errorf("differences %q, problems %q", differ, problems)
	}
}

// TestCompareFigures has two protocols, the second of which the server answered
// more slowly: only what the relay did not see is a problem.
func TestCompareFigures(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	answer := func(path string, ttft time.Duration) *exchange {
		e := &exchange{
			path: path, header: http.Header{"Traceparent": {"00-a-b-01"}}, status: http.StatusOK,
			sent: start, contentType: "text/event-stream", ended: start.Add(time.Minute),
		}
		for i := range 32 { // 10 ms from one to the next
			e.lines = append(e.lines, line{start.Add(ttft + time.Duration(i)*10*time.Millisecond), `data: {"choices":[{"delta":{"content":"x"}}]}`})
		}
		e.lines = append(e.lines, line{e.ended, `data: {"choices":[],"usage":{"prompt_tokens":512,"completion_tokens":32}}`})
		return e
	}
	var all []*exchange
	for _, ttft := range []int{900, 900, 900, 140, 130, 150, 10, 10} { // learning, measured, warm
		all = append(all, answer("/v1/chat/completions", time.Duration(ttft)*time.Millisecond))
	}
	for range perProtocol {
		all = append(all, answer("/v1/responses", 400*time.Millisecond))
	}
	f := func(want string, chat, responses figures) {
		t.Helper()
		if got := strings.Join(compareFigures([]figures{chat, responses}, all), "; "); got != want {
			t.Errorf("problems %q, want %q", got, want)
		}
	}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	good, slow := figures{"chat", ms(145), ms(10)}, figures{"responses", ms(400), ms(10)}
	f("", good, slow)
	f("chat: TTFT 200ms, by the relay 140ms", figures{"chat", ms(200), ms(10)}, slow)
	f("responses: TPOT 20ms, by the relay 10ms", good, figures{"responses", ms(400), ms(20)})
	f("", good, figures{"rerank", -1, -1})
	all = all[1:]
	f(fmt.Sprintf("chat: 7 probes went through the relay, want %d", perProtocol), good, slow)
}

// TestRatioWithout has the counts of a run in which one pair ran beside a burst.
func TestRatioWithout(t *testing.T) {
	replies := []cacheCount{{768, 809}, {384, 505}, {384, 509}, {384, 507}}
	f := func(n int, ratio float64, want bool) {
		t.Helper()
		if got := ratioWithout(replies, n, ratio); got != want {
			t.Errorf("%g without %d: %t", ratio, n, got)
		}
	}
	f(0, 1920.0/2330, true)
	f(0, 1536.0/1821, false)
	f(1, 1536.0/1821, true) // without the third
	f(1, 1152.0/1521, true) // without the first
	f(1, 1536.0/1822, false)
	f(2, 768.0/1012, true)
	f(3, 384.0/507, true)
	f(4, 0.5, false)
}
