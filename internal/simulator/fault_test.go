package simulator

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

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
