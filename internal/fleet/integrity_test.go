package fleet

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// A share of corrupted answers that rises is logged once, is evidence while it lasts, and is
// logged again when it is over.
func TestCorruptionIsReported(t *testing.T) {
	var log bytes.Buffer
	cfg := &config.Endpoint{Name: "e"}
	e := &endpoint{fleet: &Fleet{Options: Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Probes: collector.NewProbes(time.Now)}}}
	e.metrics = e.fleet.Probes.OpenEndpoint(collector.EndpointInfo{Endpoint: "e"})
	e.page = status.NewBoard(time.Now).NewEndpoint(cfg, health.New("e", health.NewShared(time.Now, slog.Default()), nil), nil)
	f := newFindings(e, newTarget(cfg, "m", new(config.Module)), 0)
	corruptions := func() []string {
		var e explain.Evidence
		e.AddFindings("m", f.latest())
		return e.Corruptions
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	observe := func(n int, found ...result.Sign) {
		for range n {
			f.observe([]*result.Result{{Outcome: result.Success, Start: at, Inspected: true, Integrity: found}})
			at = at.Add(time.Minute)
		}
	}
	expect := func(what string, lines, want int) {
		t.Helper()
		if n := strings.Count(log.String(), "of corruption"); n != lines {
			t.Errorf("%s: %d lines, want %d: %s", what, n, lines, log.String())
		}
		if all := corruptions(); len(all) != want {
			t.Errorf("%s: %+v", what, all)
		}
	}
	observe(1000)
	expect("nothing", 0, 0)
	since := at
	observe(1, result.SignToken)
	observe(20)
	expect("one", 0, 0)
	observe(1, result.SignToken)
	observe(10)
	expect("two", 1, 1)
	want := "answers with special tokens since " + since.Format("2006-01-02 15:04 UTC") + ": 2 of 32, usually 0 % (module m)"
	if got := corruptions()[0]; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	observe(400)
	expect("over", 2, 0)
}

// Answers of one token 64 times are found within five of them and are never usual, whenever they begin: also as the
// first answers of all, and while it is still learned what is usual. The endpoint then is not healthy.
func TestGarbageIsFoundAndNeverUsual(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		s := simulator.New(testlab.Swift()).Handler()
		for _, c := range []struct {
			token         string
			before, after int
		}{{"!", 0, 5}, {" the", 20, 320}} {
			var garbage atomic.Bool
			url := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if garbage.Load() && r.Method == http.MethodPost {
					r.URL.Path = "/fault/repeated_token" + r.URL.Path
					w = instead{w, c.token}
				}
				s.ServeHTTP(w, r)
			}))
			l := workLab(t, fmt.Sprintf("modules: {m: {input_tokens: 16, output_tokens: 64}}\nendpoints: [{name: e, url: %q, api: openai-chat, modules: [m], servers: {find: false}}]", url))
			l.times(c.before, "e")
			garbage.Store(true)
			const raised, usual = "inference_probe_integrity_raised", "inference_probe_integrity_usual_ratio"
			l.until(5, "e", "finding", func(p metricsPage) bool { return p.Sum(raised, "finding", "repeated_token") == 1 })
			p := l.times(c.after, "e")
			if p.Sum(raised, "finding", "repeated_token") != 1 || p.Sum(usual) != 0 {
				t.Errorf("%q after %d good ones: raised %v, usual %v", c.token, c.before, p.Sum(raised, "finding", "repeated_token"), p.Sum(usual))
			}
			if r, _ := l.Explain("e"); r.State != string(health.Up) || !slices.ContainsFunc(r.Findings, func(f explain.Finding) bool { return f.Cause == explain.AnswersBroken }) {
				t.Errorf("%q after %d good ones: explained by %+v", c.token, c.before, r)
			}
		}
	})
}

// instead writes another token where the simulator writes an exclamation mark.
type instead struct {
	http.ResponseWriter
	token string
}

func (i instead) Write(b []byte) (int, error) {
	if _, err := i.ResponseWriter.Write(bytes.ReplaceAll(b, []byte(`"content":"!"`), fmt.Appendf(nil, `"content":%q`, i.token))); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (i instead) Unwrap() http.ResponseWriter { return i.ResponseWriter }
