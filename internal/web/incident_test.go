package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/recorder"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// hostile is a text of a server that would end a script, an attribute and an element.
const hostile = `"'</script></pre></li><script>alert(1)</script><!-- ]]>` + "\u2028"

// recorded is a recording in which all texts of others are hostile, and its cause.
func recorded(t *testing.T) *recorder.Recording {
	t.Helper()
	start := time.Date(2026, 11, 26, 3, 4, 5, 0, time.UTC)
	e := &explain.Evidence{At: start, Endpoint: "llama", Condition: explain.Condition{State: health.Down, Since: start}, Succeeded: true}
	for range 3 {
		e.Probes = append(e.Probes, &explain.Probe{Module: "m", Error: hostile, Reason: result.Refused, Start: start, Outcome: result.ConnectError})
	}
	text, err := explain.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	well := *e
	well.Condition = explain.Condition{State: health.Up}
	again, err := explain.Encode(&well)
	if err != nil {
		t.Fatal(err)
	}
	forgetful := *e // of an exporter that was restarted
	forgetful.Probes = nil
	unknown, err := explain.Encode(&forgetful)
	if err != nil {
		t.Fatal(err)
	}
	report := &explain.Report{Endpoint: "llama", State: "down", Findings: explain.Explain(e)}
	return &recorder.Recording{
		Version: recorder.Version, Exporter: "1.0.0", Endpoint: "llama/" + hostile, Incident: recorder.Incident{Kind: health.KindDown, Scope: hostile, Start: start, End: start.Add(time.Hour)},
		From: start.Add(-10 * time.Minute), Config: hostile, Entries: []recorder.Entry{
			{At: start, Report: report},
			{At: start, Evidence: text},
			{At: start, State: &recorder.State{State: health.Down, Title: hostile}},
			{At: start.Add(time.Minute), Report: report},
			{At: start.Add(30 * time.Minute), Evidence: unknown},
			{At: start.Add(time.Hour), Evidence: again},
		},
	}
}

// A page holds the recording as it was, and no text of others is more than a text in it.
func TestIncidentPage(t *testing.T) {
	want := recorded(t)
	var page bytes.Buffer
	if err := WriteIncident(&page, want); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	if n := strings.Count(text, "<script"); n != 2 || strings.Contains(text, "alert(1)</script>") {
		t.Errorf("%d scripts, want 2: that of the page and the recording", n)
	}
	if strings.Contains(text, "\nimport ") || strings.Contains(text, "\nexport ") {
		t.Error("a module is not part of the one script")
	}
	for tag, source := range map[string]string{"style": "style-src", "script": "script-src"} {
		content := regexp.MustCompile(`(?s)<` + tag + `>(.*?)</` + tag + `>`).FindStringSubmatch(text)
		if len(content) == 0 || !strings.Contains(text, source+" &#39;"+strings.ReplaceAll(sourceOf(content[1]), "+", "&#43;")+"&#39;") {
			t.Errorf("the policy does not allow the %s", tag)
		}
	}
	if n := strings.Count(text, `<div class="cause">`); n != 1 || !strings.Contains(text, "03:04:05 UTC to 03:05:05 UTC") {
		t.Errorf("%d causes, want the same one once, with its times", n)
	}
	got, err := ReadIncident(page.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range got.Entries { // evidence is compacted
		var same bytes.Buffer
		if len(e.Evidence) > 0 && json.Compact(&same, e.Evidence) == nil && same.String() != string(e.Evidence) {
			t.Error("evidence is another")
		}
	}
	if got.Endpoint != want.Endpoint || !reflect.DeepEqual(got.Incident, want.Incident) || len(got.Entries) != len(want.Entries) {
		t.Errorf("read %+v, want %+v", got, want)
	}
	// After a restart nothing names a cause, and at its end the endpoint was well: the cause is that of before.
	if report, err := got.Explain(); err != nil || report.Findings[0].Cause != explain.ProcessGone || report.State != "down" || report.At != 1795662245 {
		t.Errorf("explained by %+v, %v", report, err)
	}
}

// An error says what is wrong with what was read, and where.
func TestReadIncidentRefuses(t *testing.T) {
	var page bytes.Buffer
	if err := WriteIncident(&page, recorded(t)); err != nil {
		t.Fatal(err)
	}
	whole := page.String()
	begin := strings.Index(whole, beginsRecording) + len(beginsRecording)
	for name, c := range map[string]struct{ text, want string }{
		"cut":              {whole[:begin+100], "the page is cut"},
		"another page":     {"<html></html>", "no recording of an incident is in this page"},
		"another version":  {strings.Replace(whole, `{"version":1,`, `{"version":9,`, 1), "a recording of version 9, and this program reads version 1"},
		"a byte is wrong":  {whole[:begin+1] + "?" + whole[begin+1:], "byte " + strconv.Itoa(begin+2) + ": not a recording: invalid character"},
		"an entry is":      {strings.Replace(whole, `{"at":"2026-11-26T03:04:05Z","state"`, `{"at":"2026-11-26T03:04:05Z","stat"`, 1), "entries[2]: want a time and one thing that was seen"},
		"nothing":          {"", "byte 0: not a recording: unexpected end of JSON input"},
		"other JSON":       {"{}", "a recording of version 0"},
		"evidence is not":  {strings.Replace(whole, `"outcome":"connect_error"`, `"outcome":"other"`, 1), ""},
		"a report is JSON": {`{"findings":[]}`, "a recording of version 0"},
	} {
		r, err := ReadIncident([]byte(c.text))
		if name == "evidence is not" {
			if _, err = r.Explain(); err == nil || !strings.Contains(err.Error(), "entries[1]: not evidence: probes[0]") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if r != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzReadIncident(f *testing.F) {
	f.Add([]byte(beginsRecording + `{"version":1,"endpoint":"a","incident":{"kind":"down","start":"2026-01-02T03:04:05Z"},"from":"2026-01-02T02:54:05Z","config":"","entries":[{"at":"2026-01-02T03:04:05Z","self":{}}]}` + endsRecording))
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ReadIncident(text)
		if err != nil {
			return
		}
		var page bytes.Buffer
		if err := WriteIncident(&page, r); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadIncident(page.Bytes()); err != nil {
			t.Errorf("what was written is not read: %v", err)
		}
		_, _ = r.Explain()
	})
}

// keptIncident is a recorder with one recording.
type keptIncident struct{ text []byte }

func (k keptIncident) List(string) []recorder.Listed            { return []recorder.Listed{{}} }
func (k keptIncident) JSON(endpoint, at string) ([]byte, error) { return k.text, nil }

// The page is a file to keep, and not one of this site.
func TestIncidentIsAFile(t *testing.T) {
	text, err := json.Marshal(recorded(t))
	if err != nil {
		t.Fatal(err)
	}
	a := &api{Options: &Options{Incidents: keptIncident{text}, Status: newTable("e")}}
	w := httptest.NewRecorder()
	a.serveIncident(w, httptest.NewRequest(http.MethodGet, "/api/v1/endpoints/e/incidents/latest?format=html", nil))
	if h := w.Header(); w.Code != http.StatusOK || !strings.HasPrefix(h.Get("Content-Type"), "text/html") || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment; filename") {
		t.Errorf("status %d, %v", w.Code, h)
	}
	if _, err := ReadIncident(w.Body.Bytes()); err != nil {
		t.Error(err)
	}
}
