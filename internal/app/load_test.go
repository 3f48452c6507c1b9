package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
)

// TestLoadEndsWhenAskedTo ends a load test by a signal once it has shown that it runs: it prints what is known, and
// nothing of it is left at the server.
func TestLoadEndsWhenAskedTo(t *testing.T) {
	t.Parallel()
	server := simulator.New(testlab.Brisk())
	url := testlab.Serve(t, server.Handler())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout bytes.Buffer
	stderr := &cancelAfter{lines: 2, cancel: cancel} // the announcement, and how far it is
	began := time.Now()
	code := Run(ctx, []string{"load", url, "--users=2,4", "--for=30m", "-o", "json"}, Options{Stdout: &stdout, Stderr: stderr})
	var got struct {
		Test struct {
			End    loadtest.End
			Load   config.LoadKind
			Target float64
			Levels []struct{ Complete bool }
		} `json:"load_test"`
	}
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, &stdout)
	}
	if f := got.Test; code != cli.ExitEarly || f.End != loadtest.Canceled || f.Load != config.LoadUsers || f.Target != 4 || len(f.Levels) != 1 || f.Levels[0].Complete {
		t.Errorf("exit code %d after %s, %s%s", code, time.Since(began), &stdout, stderr.String())
	}
	for state := server.State(); state[0].Running+state[0].Waiting > 0; state = server.State() {
		if time.Since(began) > patience { // the server sees the end of a connection a little later
			t.Fatalf("requests are left: %+v", state)
		}
		runtime.Gosched()
	}
}

// TestLoadRefusals says what to set where a load test cannot begin.
func TestLoadRefusals(t *testing.T) {
	t.Parallel()
	pageless := simulator.New(testlab.Brisk()).Handler()
	url := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/metrics") {
			http.NotFound(w, r)
			return
		}
		pageless.ServeHTTP(w, r)
	}))
	if got := runToEnd(t, "load", url); got.code != cli.ExitEarly || !strings.Contains(got.stderr, "set --without-page") {
		t.Errorf("without a page: exit code %d, %s", got.code, got.stderr)
	}
	for flag, want := range map[string]string{
		"--users=4,1":       "flags: load.users[1]: expected rising numbers, got 1 after 4",
		"--for=1s":          "flags: load.duration: must be between 10s and 30m, got 1s",
		"--speed=2":         "flags: load.trace_speeds: requires trace_file",
		"--max-usd=1":       "flags: load: load.max_usd of module",
		"--trace=/none.csv": "flags: load.trace_file: ",
	} {
		if got := runToEnd(t, "load", url, flag); got.code != cli.ExitUsage || !strings.HasPrefix(got.stderr, want) {
			t.Errorf("%s: exit code %d, %s, want %s", flag, got.code, got.stderr, want)
		}
	}
}

// TestLoadReadsByEnginesOfTheFile finds no room on a page that only an engine of the configuration describes.
func TestLoadReadsByEnginesOfTheFile(t *testing.T) {
	t.Parallel()
	server := simulator.New(testlab.Brisk()).Handler()
	url := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/metrics") {
			_, _ = io.WriteString(w, "lab_running 9\nlab_waiting 9\n")
			return
		}
		server.ServeHTTP(w, r)
	}))
	file := filepath.Join(t.TempDir(), "config.yml")
	text := "engines: {lab: {sentinels: [lab_running], values: {requests_running: [{series: lab_running}], requests_waiting: [{series: lab_waiting}]}}}\n" +
		"endpoints: [{name: e, url: '" + url + "'}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := runToEnd(t, "load", "e", "--config.file="+file); got.code != cli.ExitEarly || !strings.Contains(got.stderr, "no_room") {
		t.Errorf("exit code %d, %s", got.code, got.stderr)
	}
}

// TestLoadSettings has the keys of the flags, and the levels of a module without load.
func TestLoadSettings(t *testing.T) {
	own := &config.LoadTest{Users: []int{5, 50}, Target: 5}
	for _, c := range []struct {
		load *config.LoadTest
		args []string
		want map[string]string
	}{
		{nil, nil, map[string]string{"load.users": "[1, 4, 16]", "load.duration": "20s"}},
		{
			nil,
			[]string{"--rate=2,5", "--for=2m", "--without-page"},
			map[string]string{"load.requests_per_second": "[2,5]", "load.duration": "2m", "load.without_page": "true"},
		},
		{
			nil,
			[]string{"--trace=a b.csv", "--slo.ttft=1s", "--input-tokens={1: 2}"},
			map[string]string{"load.trace_file": `"a b.csv"`, "load.duration": "20s", "slo.ttft": "1s", "input_tokens": "{1: 2}"},
		},
		{own, nil, map[string]string{"load.target": "5"}},
		{own, []string{"--users=7"}, map[string]string{"load.users": "[7]"}},
	} {
		line := newCommandLine(Options{Stdout: io.Discard, Stderr: io.Discard})
		l := newLoadCommand(line.app.Command("try", ""))
		if _, err := line.app.Parse(append([]string{"try", "http://x"}, c.args...)); err != nil {
			t.Fatal(err)
		}
		if got := l.settings(c.load); !maps.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.args, got, c.want)
		}
	}
}

// TestLoadVerdict has the exit codes of docs/gates.md.
func TestLoadVerdict(t *testing.T) {
	level := func(v loadtest.Verdict) []loadtest.Level {
		return []loadtest.Level{{Level: 8, Complete: true, Verdict: v}}
	}
	for _, c := range []struct {
		code   int
		ttft   float64
		end    loadtest.End
		levels []loadtest.Level
	}{
		{cli.ExitOK, 1, loadtest.Completed, level(loadtest.Met)},
		{cli.ExitOK, 0, loadtest.Completed, level("")},
		{cli.ExitUndecided, 1, loadtest.Completed, level("")}, // no request was sent in the steady state
		{cli.ExitFailure, 1, loadtest.Completed, level(loadtest.Missed)},
		{cli.ExitFailure, 1, loadtest.Errors, level(loadtest.Missed)},
		{cli.ExitUndecided, 1, loadtest.Completed, level(loadtest.Undecided)},
		{cli.ExitEarly, 1, loadtest.UsersWaiting, level(loadtest.Undecided)},
		{cli.ExitEarly, 1, loadtest.NoRoom, nil},
	} {
		var stderr bytes.Buffer
		err := loadVerdict(&loadtest.Finding{End: c.end, Kind: config.LoadUsers, Target: 8, TTFT: c.ttft, Levels: c.levels})
		if code := report(&stderr, err); code != c.code || err != nil && !errors.As(err, new(endedEarly)) && c.code == cli.ExitEarly {
			t.Errorf("%+v: exit code %d, %s", c, code, &stderr)
		}
	}
}

// TestLoadProgress prints a line every 10 s, or one that is rewritten and never longer than a terminal is wide.
func TestLoadProgress(t *testing.T) {
	var lines, terminal bytes.Buffer
	plain, redrawn := showLoad(&lines, config.LoadUsers, false), showLoad(&terminal, config.LoadUsers, true)
	for s := range 21 {
		p := loadtest.Progress{At: time.Duration(s) * time.Second, Level: 50, InFlight: 50, Done: 10 * s, P50: result.Absent, P99: result.Absent}
		if s > 5 {
			p.P50, p.P99, p.Pressure = 120*time.Millisecond, 1300*time.Millisecond, &loadtest.Pressure{Waiting: 3}
		}
		plain(p)
		redrawn(p)
	}
	const want = "0s 50 users: 50 in flight, 0 done, 0 failed\n" +
		"10s 50 users: 50 in flight, 100 done, 0 failed, TTFT p50 120 ms p99 1.30 s, 3 waiting\n" +
		"20s 50 users: 50 in flight, 200 done, 0 failed, TTFT p50 120 ms p99 1.30 s, 3 waiting\n"
	if lines.String() != want {
		t.Errorf("%s, want %s", &lines, want)
	}
	all := strings.Split(terminal.String(), "\r")
	if len(all) != 22 || len(all[20]) > 79+len("\x1b[K") || !strings.HasPrefix(all[20], "19s 50 users") {
		t.Errorf("%q", all)
	}
}
