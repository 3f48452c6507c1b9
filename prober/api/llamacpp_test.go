package api

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOddLlamacpp(t *testing.T) {
	f := func(name, frames string, change func(*reply)) {
		t.Helper()
		checkOdd(t, "llamacpp", name, frames, change)
	}
	const hi = `{"index":0,"content":"hi","tokens":[1],"stop":false,"tokens_predicted":1,"tokens_evaluated":9}`
	good := func(r *reply) {
		r.Text, r.Tokens, r.Visible, r.Counts, r.Finish, r.Done, r.Usage = "hi", 1, 1, []int{1, 1}, "length", true, Usage{9, Unknown, 1, Unknown}
	}
	end := func(stopType string) string {
		return `{"index":0,"content":"","stop":true,"stop_type":` + stopType + `,"tokens_predicted":1,"tokens_evaluated":9,"tokens_cached":9}`
	}
	f("capped", hi+"\n"+end(`"limit"`), good)
	f("stop string", hi+"\n"+end(`"word"`), func(r *reply) { good(r); r.Finish = "stop" })
	f("neither", hi+"\n"+end(`"none"`), func(r *reply) { good(r); r.Finish = "" })
	f("older server without stop_type", hi+"\n"+end("null"), func(r *reply) { good(r); r.Finish = "" })
	f("progress of the prompt", `{"index":0,"content":"","tokens":[],"stop":false,"tokens_predicted":0,"tokens_evaluated":9,"prompt_progress":{"total":9,"cache":0,"processed":4,"time_ms":5}}
{"index":0,"content":"","tokens":[],"stop":false,"tokens_predicted":0,"tokens_evaluated":9,"prompt_progress":{"total":9,"cache":0,"processed":9,"time_ms":9}}
`+hi+"\n"+end(`"limit"`), func(r *reply) { good(r); r.Counts = []int{0, 1, 1} })
	f("cached prompt", hi+"\n"+`{"content":"","stop":true,"stop_type":"limit","tokens_predicted":1,"tokens_evaluated":9,"timings":{"cache_n":8,"prompt_n":1,"prompt_ms":2.5,"predicted_ms":0}}`, func(r *reply) {
		good(r)
		r.Usage.Cached, r.Server = 8, ServerTimes{-1, 2500 * time.Microsecond, 0}
	})
	f("error", hi+"\n"+`{"error":{"code":500,"message":"boom","type":"server_error"}}`, func(r *reply) {
		good(r)
		r.Counts, r.Finish, r.Done, r.Err = []int{1}, "", false, ServerError{Status: 500, Type: "server_error", Message: "boom"}
	})
	f("no counts, other types", `{"content":7,"stop":"no"}`+"\n"+`{"content":"hi","stop":null}`, func(r *reply) { r.Text, r.Tokens, r.Visible = "hi", 1, 1 })

	r := noReply()
	r.Err = ServerError{Status: 500, Type: "server_error", Message: "boom"}
	body := `error: {"code":500,"message":"boom","type":"server_error"}` + "\n\n"
	if d := cmp.Diff(r, decodeReply(t, "llamacpp", strings.NewReader(body))); d != "" {
		t.Errorf("error line (-want +got):\n%s", d)
	}
}

func FuzzLlamacpp(f *testing.F) { fuzzReply(f, "llamacpp", "llamacpp_completion_stream") }
