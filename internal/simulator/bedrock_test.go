package simulator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

const (
	conversePath = "/model/simulated-8b/converse-stream"
	awsMedia     = "application/vnd.amazon.eventstream"
)

// messages cuts the body of an AWS event stream into "name payload", and what
// ended it.
func messages(body string) (got []string, err error) {
	frames := stream.New(stream.EventStream, strings.NewReader(body), stream.DefaultLimits())
	for {
		f, err := frames.Next()
		if err != nil {
			return got, err
		}
		got = append(got, string(f.Event)+" "+string(f.Data))
	}
}

func TestBedrockReply(t *testing.T) {
	f := func(o Options, request string, want ...string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, o, false)
			defer v.stop()
			a := v.post(context.Background(), conversePath, request, 1<<20)
			if a.status != http.StatusOK || a.err != nil || a.header.Get("Content-Type") != awsMedia {
				t.Errorf("status %d, error %v, %v", a.status, a.err, a.header)
			}
			got, _ := messages(a.body)
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
	// "one two" is 2 tokens inside a template of 12.
	f(Options{}, `{"messages":[{"role":"user","content":[{"text":"one two"}]}],"inferenceConfig":{"maxTokens":2,"temperature":0}}`,
		`messageStart {"role":"assistant"}`,
		`contentBlockDelta {"contentBlockIndex":0,"delta":{"text":"zero"}}`,
		`contentBlockDelta {"contentBlockIndex":0,"delta":{"text":" one"}}`,
		`contentBlockStop {"contentBlockIndex":0}`,
		`messageStop {"stopReason":"max_tokens"}`,
		`metadata {"usage":{"inputTokens":14,"outputTokens":2,"totalTokens":16,"cacheReadInputTokens":0,"cacheWriteInputTokens":0}}`)
	f(Options{ReasoningTokens: 1}, `{"messages":[{"content":[{"text":"one"}]}],"inferenceConfig":{"maxTokens":1,"temperature":0}}`,
		`messageStart {"role":"assistant"}`,
		`contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"zero"}}}`,
		`contentBlockStop {"contentBlockIndex":0}`,
		`messageStop {"stopReason":"max_tokens"}`,
		`metadata {"usage":{"inputTokens":13,"outputTokens":1,"totalTokens":14,"cacheReadInputTokens":0,"cacheWriteInputTokens":0}}`)
}

func TestBedrockCachesPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{DecodeStep: ms}, false)
		defer v.stop()
		request := `{"messages":[{"content":[{"text":"` + strings.Repeat("one ", 100) + `"}]}],"inferenceConfig":{"maxTokens":1,"temperature":0}}`
		v.post(context.Background(), conversePath, request, 1<<20)
		got, _ := messages(v.post(context.Background(), conversePath, request, 1<<20).body)
		// Of 112 tokens the last is computed again, and with it its block of 16.
		const want = `metadata {"usage":{"inputTokens":16,"outputTokens":1,"totalTokens":113,"cacheReadInputTokens":96,"cacheWriteInputTokens":0}}`
		if len(got) == 0 || got[len(got)-1] != want {
			t.Errorf("%q, want %s last", got, want)
		}
	})
}

func TestBedrockRefusals(t *testing.T) {
	f := func(path, request string, status int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{ContextLength: 100}, false)
			defer v.stop()
			a := v.post(context.Background(), path, request, 1<<20)
			if a.status != status || !strings.HasPrefix(a.body, `{"message":"`) {
				t.Errorf("%s %s: status %d, body %s", path, request, a.status, a.body)
			}
		})
	}
	f("/model/other%3A0/converse-stream", `{"messages":[{"content":[{"text":"x"}]}]}`, 404)
	f(conversePath, `{"messages":`, 400)
	f(conversePath, `{"messages":[]}`, 400)
	f(conversePath, `{"messages":[{"content":[{"text":"x"}]}],"inferenceConfig":{"maxTokens":0}}`, 400)
	f(conversePath, `{"messages":[{"content":[{"text":"x"}]}],"inferenceConfig":{"maxTokens":88}}`, 400) // 13 + 88 > 100
}

// A model's name may have colons and slashes, which are escaped in the path,
// also behind a fault.
func TestBedrockModelName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Model: "arn:aws:x/us.a-v1:0"}, false)
		defer v.stop()
		for _, prefix := range []string{"", "/fault/split_writes"} {
			a := v.post(context.Background(), prefix+"/model/arn%3Aaws%3Ax%2Fus.a-v1%3A0/converse-stream",
				`{"messages":[{"content":[{"text":"x"}]}],"inferenceConfig":{"maxTokens":1}}`, 1<<20)
			if got, _ := messages(a.body); a.status != http.StatusOK || len(got) != 5 {
				t.Errorf("%q: status %d, %q", prefix, a.status, got)
			}
		}
	})
}

func TestBedrockFaults(t *testing.T) {
	f := func(fault, last string, want error) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{}, false)
			defer v.stop()
			a := v.post(context.Background(), "/fault/"+fault+conversePath, `{"messages":[{"content":[{"text":"x"}]}],"inferenceConfig":{"maxTokens":8}}`, 1<<20)
			got, err := messages(a.body)
			if len(got) == 0 || !strings.HasPrefix(got[len(got)-1], last) || !errors.Is(err, want) {
				t.Errorf("%s: %q, %v; want %s last, then %v", fault, got, err, last, want)
			}
		})
	}
	f("error_event_midstream", `exception:modelStreamErrorException {"message":"EngineCore encountered an issue"}`, io.EOF)
	f("no_usage", `messageStop {"stopReason":"max_tokens"}`, io.EOF)
	f("end_before_finish", `contentBlockDelta `, io.EOF)
	f("split_writes", `metadata `, io.EOF)
	f("crlf", `metadata `, io.EOF) // there are no lines to end
	f("many_tokens_per_event", `metadata `, io.EOF)
}
