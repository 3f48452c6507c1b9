package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestCrowd: users and the tenant have replicas of their own, and the page of the server counts both.
func TestCrowd(t *testing.T) {
	s, err := startServer(target{cluster: "users", endpoint: "m", host: "127.0.0.1"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.set(fault{gone: true}) }()
	c := s.crowd
	from := time.Now()
	c.ask(t.Context(), fault{}, usersSession, 10, 4)
	c.ask(t.Context(), fault{}, tenantSession, 20, 4)
	c.ask(t.Context(), fault{refused: 1}, usersSession, 10, 4)
	if got, want := c.truth(from, time.Now()), "3 requests, 0 late, 1 failed"; got != want {
		t.Errorf("truth %q, want %q", got, want)
	}
	if err := s.set(fault{asleep: true}); err != nil {
		t.Fatal(err)
	}
	w := &reply{header: map[string][]string{}, keep: true}
	c.page(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	text := w.text.String()
	for _, want := range []string{
		`http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 2`,
		`http_requests_total{handler="/v1/chat/completions",method="POST",status="5xx"} 1`,
		`vllm:time_to_first_token_seconds_count{model_name="m",engine="0"} 1`,
		`vllm:time_to_first_token_seconds_count{model_name="m",engine="1"} 1`,
		`sleep_state="weights_offloaded"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if err := s.set(fault{admitsNone: true}); err != nil {
		t.Fatal(err)
	}
	w = &reply{header: map[string][]string{}, keep: true}
	c.page(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if want := "vllm:num_requests_waiting{model_name=\"m\",engine=\"0\"} 5\n"; !strings.Contains(w.text.String(), want) {
		t.Errorf("the page lacks %q:\n%s", want, w.text.String())
	}
}
