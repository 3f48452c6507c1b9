package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/recorder"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// recordingExporter answers as an exporter that keeps one recording, of an endpoint whose name does not resolve.
func recordingExporter(t *testing.T) string {
	t.Helper()
	start := time.Date(2026, 11, 26, 3, 4, 5, 0, time.UTC)
	e := &explain.Evidence{At: start, Endpoint: "a/b", Condition: explain.Condition{State: health.Down, Since: start}}
	for range 3 {
		e.Probes = append(e.Probes, &explain.Probe{Module: "m", Error: "no such host", Start: start, Outcome: result.DNSError})
	}
	evidence, err := explain.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	r := recorder.Recording{
		Version: recorder.Version, Endpoint: "a/b", Incident: recorder.Incident{Kind: health.KindDown, Start: start}, From: start.Add(-recorder.Lead),
		Entries: []recorder.Entry{{At: start, Evidence: evidence}},
	}
	mux := http.NewServeMux()
	answer := func(path string, v any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) })
	}
	answer("/api/v1/endpoints/{name}/incidents/latest", r)
	answer("/api/v1/endpoints/{name}/incidents/2026-11-26T03:04:05Z", r)
	answer("/api/v1/endpoints/{name}/incidents/2026-11-25T00:00:00Z", map[string]string{"error": recorder.ErrNone.Error()})
	r.Version++
	answer("/api/v1/endpoints/later/incidents/latest", r)
	answer("/api/v1/incidents", map[string]any{"incidents": []recorder.Listed{
		{Endpoint: "a/b", Incident: r.Incident, Bytes: 1001}, {Endpoint: "c", Incident: recorder.Incident{Kind: health.KindTTFT, Start: start, End: start.Add(time.Minute)}, Bytes: 7},
	}})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return "--server=" + server.URL
}

// What the command prints is explained by its evidence alone, from a file and from standard input.
func TestIncident(t *testing.T) {
	server := recordingExporter(t)
	for _, args := range [][]string{{}, {"--at=2026-11-26T03:04:05Z"}, {"--json"}} {
		got := runToEnd(t, append([]string{"incident", server, "a/b"}, args...)...)
		if isPage := strings.HasPrefix(got.stdout, "<!doctype html>"); got.code != cli.ExitOK || got.stderr != "" || isPage == (len(args) == 1 && args[0] == "--json") {
			t.Fatalf("%v: exit code %d, %s: %.200s", args, got.code, got.stderr, got.stdout)
		}
		name := writeFile(t, "incident", got.stdout)
		got = runToEnd(t, "explain", "--file="+name)
		if got.code != cli.ExitOK || !strings.HasPrefix(got.stdout, "a/b: down since 2026-11-26 03:04:05 UTC") || !strings.Contains(got.stdout, "("+string(explain.DNS)+")") || !strings.Contains(got.stdout, "does not resolve") {
			t.Errorf("%v: exit code %d, %s:\n%s", args, got.code, got.stderr, got.stdout)
		}
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		stdin := os.Stdin
		os.Stdin = file
		piped := runToEnd(t, "explain", "--file=-")
		os.Stdin = stdin
		if piped != got {
			t.Errorf("%v: from standard input %+v", args, piped)
		}
	}
}

func TestIncidentList(t *testing.T) {
	server := recordingExporter(t)
	want := `ENDPOINT  INCIDENT  START                 END                   KB
a/b       down      2026-11-26T03:04:05Z  goes on               2
c         ttft      2026-11-26T03:04:05Z  2026-11-26T03:05:05Z  1
`
	if got := runToEnd(t, "incident", server); got != (ended{cli.ExitOK, want, ""}) {
		t.Errorf("%+v", got)
	}
	if got := runToEnd(t, "incident", "--json", server); got.code != cli.ExitOK || !json.Valid([]byte(got.stdout)) || !bytes.Contains([]byte(got.stdout), []byte(`"bytes":1001`)) {
		t.Errorf("%+v", got)
	}
}

func TestIncidentRefusals(t *testing.T) {
	server := recordingExporter(t)
	f := func(code int, pattern string, args ...string) {
		t.Helper()
		refused(t, code, []string{"inference_exporter: " + pattern}, args...)
	}
	f(cli.ExitFailure, "the exporter at .*: no recording of an incident at this time", "incident", server, "--at=2026-11-25T00:00:00Z", "a/b")
	f(cli.ExitFailure, "the exporter at .*: a recording of version 2, and this program reads version 1", "incident", server, "later")
	f(cli.ExitFailure, "GET .*/api/v1/endpoints/e/incidents/none: status 404 Not Found .*, and no recording; check .*", "incident", server, "--at=none", "e")
	f(cli.ExitUsage, "--server=nowhere: want a URL like .*", "incident", "--server=nowhere", "e")
	f(cli.ExitUsage, "--file: not with a target", "explain", "--file=x", "e")
	f(cli.ExitUsage, "--file=none.html: open none.html: no such file or directory", "explain", "--file=none.html")
	for text, want := range map[string]string{
		"<html>": "no recording of an incident is in this page",
		`{"version":1,"endpoint":"a","incident":{"kind":"down","start":"2026-01-02T03:04:05Z"},"from":"2026-01-02T02:54:05Z","entries":[]}`: "the recording has no evidence",
		`{"version":1,}`: "byte 14: not a recording: .*",
	} {
		name := writeFile(t, "x", text)
		f(cli.ExitUsage, fmt.Sprintf("--file=%s: %s", name, want), "explain", "--file="+name)
	}
}
