package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReply reads captures, whose tokens were counted by hand, in one piece of
// a connection.
func TestReply(t *testing.T) {
	f := func(file string, tokens, prompt, cached, output int) {
		t.Helper()
		body, err := os.ReadFile(filepath.Join("..", "..", "..", "prober", "api", "testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		r := recording{
			request: []piece{{now, []byte("POST /v1/x HTTP/1.1\r\nHost: h\r\nTraceparent: 00-abc-01\r\nContent-Length: 2\r\n\r\n{}")}},
			reply:   []piece{{now, []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")}, {now.Add(time.Second), body}},
		}
		all := r.exchanges()
		if len(all) != 1 || all[0].err != nil || string(all[0].body) != "{}" || !all[0].sent.Equal(now) {
			t.Fatalf("%s: exchanges %+v", file, all)
		}
		got := readReply(all[0])
		if len(got.tokens) != tokens || got.prompt != prompt || got.cached != cached || got.output != output {
			t.Errorf("%s: %d tokens, counts %d, %d and %d", file, len(got.tokens), got.prompt, got.cached, got.output)
		}
		if !got.tokens[0].Equal(now.Add(time.Second)) {
			t.Errorf("%s: first token at %s, want %s", file, got.tokens[0], now.Add(time.Second))
		}
	}
	f("vllm_v1_chat_stream_usage.txt", 64, 256, 0, 64) // six without text
	f("vllm_v1_messages_stream.txt", 61, 256, 0, 64)
	f("vllm_v1_responses_stream_length.txt", 41, 256, 0, 64)
	f("llamacpp_completion_stream.txt", 43, 2, 0, 45)
	f("recorded_groq_error.txt", 2, unknown, unknown, unknown)
}

// TestCutReply has a reply whose chunks do not end, in three pieces.
func TestCutReply(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	r := recording{
		request: []piece{{at(1), []byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n")}},
		reply: []piece{
			{at(5), []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")},
			{at(9), []byte("10\r\ndata: {\"content\"\r\n")},
			{at(12), []byte("8\r\n:\"hi\"}\n\n\r\n")},
		},
	}
	all := r.exchanges()
	if len(all) != 1 || all[0].err == nil || outcomeOf(all[0]) != "truncated" {
		t.Fatalf("exchanges %+v", all)
	}
	if got := readReply(all[0]).tokens; len(got) != 1 || !got[0].Equal(at(12)) {
		t.Errorf("tokens at %v, want one at %s", got, at(12))
	}
}

func TestDifferences(t *testing.T) {
	read := func(text string) page {
		p, err := readPage([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	server := read("# TYPE a counter\na{x=\"1\"} 3\na{x=\"2\"} 4\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\nh_sum 1.5\nh_count 2\n")
	quantities := map[string][]string{"tokens_total": {"a"}, "ttft_seconds_sum": {"h_sum"}, "ttft_seconds_count": {"h_count"}, "other": {"b"}}
	const good = "inference_server_tokens_total{server=\"s\"} 7\ninference_server_tokens_total{server=\"t\"} 9\n" +
		"# TYPE inference_server_ttft_seconds histogram\ninference_server_ttft_seconds_bucket{server=\"s\",le=\"+Inf\"} 2\n" +
		"inference_server_ttft_seconds_sum{server=\"s\"} 1.5\ninference_server_ttft_seconds_count{server=\"s\"} 2\n"
	if n, wrong := differences(read(good), server, quantities, "server", "s"); n != 3 || len(wrong) > 0 {
		t.Errorf("%d checked, %q", n, wrong)
	}
	if _, wrong := differences(read(strings.Replace(good, " 7\n", " 8\n", 1)), server, quantities, "server", "s"); len(wrong) != 1 {
		t.Errorf("another value: %q", wrong)
	}
	if _, wrong := differences(read(good), server, map[string][]string{"other": {"a"}}, "server", "s"); len(wrong) != 1 {
		t.Errorf("a value that is not shown: %q", wrong)
	}
}
