package fleet

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/recorder"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/store"
)

const recordedEndpoints = `
modules: {interactive: {slo: {objective: 0.99, ttft: %TTFT%}}, other: {}}
endpoints:
- {name: a0, url: "http://10.0.0.1:8000", hardware: {uuids: [GPU-1]}, http: {authorization: {credentials: sesame-7f3}}}
- {name: b0, url: "http://10.0.0.2:8000"}
`

// newRecordedCourse is a course of two endpoints that is recorded. The first has a page and a GPU.
func newRecordedCourse(t *testing.T, restored ...[]byte) *course {
	l := newLab(t)
	l.Recorder = recorder.New("v1, go1", time.Now)
	l.GPUs = func() gpu.Snapshots {
		return gpu.Snapshots{{State: gpu.StateUp, Devices: []gpu.DeviceSnapshot{{
			UUID: "GPU-1", Up: true, XIDs: []gpu.XIDCount{{Number: 79, Count: 1}},
			Readings: []gpu.Reading{{Kind: gpu.Temperature, Value: 81}, {Kind: gpu.ClockEventActive, Label: "hw_thermal", Value: 1}},
		}, {UUID: "GPU-2", Up: true}}}}
	}
	for _, record := range restored {
		part := l.Recorder.Restore
		if strings.Contains(string(record), `"target"`) {
			part = l.restore
		}
		if err := part(record); err != nil {
			t.Fatalf("%v: %s", err, record)
		}
	}
	c := newCourse(l, "a0 10.0.0.1:8000", "b0 10.0.0.2:8000")
	c.reload("1s")
	return c
}

// reload changes the objective of the endpoints.
func (c *course) reload(ttft string) {
	if err := c.Apply(planOf(parse(c.t, strings.ReplaceAll(recordedEndpoints, "%TTFT%", ttft)))); err != nil {
		c.t.Fatal(err)
	}
	c.endpoint("a0").page.SetServers([]page.Status{{Server: "10.0.0.1:8000", At: time.Now(), State: page.Up, Snapshot: &page.Snapshot{
		Engine: "vllm", At: time.Now(), Values: map[config.Quantity]float64{config.RequestsRunning: 3},
		Histograms: map[config.Quantity]*page.Histogram{config.TTFT: {Count: 7, Sum: 1.5}}, Requests: map[string]float64{"stop": 5},
	}}})
}

func (c *course) recording(name string) *recorder.Recording {
	c.t.Helper()
	text, err := c.Recorder.JSON(name, recorder.Latest)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := recorder.Decode(text)
	if err != nil {
		c.t.Fatal(err)
	}
	if strings.Contains(string(text), "sesame") {
		c.t.Error("the recording has the key in it")
	}
	return r
}

func TestIncidentIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRecordedCourse(t)
		began := time.Now()
		c.fail("a", 20*time.Minute, 40*time.Minute)
		c.run(30 * time.Minute)
		c.reload("2s")
		c.run(50 * time.Minute)
		got := c.recording("a0")
		i := got.Incident
		if i.Kind != health.KindDown || i.Scope != "endpoint a0" || i.Start.Sub(began).Round(time.Minute) != 20*time.Minute ||
			i.End.Sub(began).Round(time.Minute) != 40*time.Minute || got.From.Sub(i.Start) != -10*time.Minute {
			t.Errorf("incident %+v from %s on, of one from minute 20 to 40 of %s", i, got.From, began)
		}
		checkRecordedProbes(t, got, 15*time.Second)
		pages, cards := map[time.Duration]float64{}, 0
		var causes, again []explain.Cause
		for _, e := range got.Entries {
			switch {
			case e.Page != nil:
				pages[e.At.Sub(i.Start).Round(time.Minute)] = e.Page.Values.All()["ttft_seconds_sum"]
				if v := e.Page.Values.All(); v[config.RequestsRunning.MetricName()] != 3 || v[config.TTFT.MetricName()+"_count"] != 7 || v["requests_total:stop"] != 5 || e.Page.Engine != "vllm" {
					t.Errorf("page %+v", e.Page)
				}
			case e.GPU != nil:
				cards++
				if v := e.GPU.Values.All(); e.GPU.UUID != "GPU-1" || v["temperature_celsius"] != 81 || v["clock_event_active:hw_thermal"] != 1 || v["xid_errors_total:79"] != 1 {
					t.Errorf("GPU %+v", e.GPU)
				}
			case e.Report != nil:
				causes = append(causes, e.Report.Findings[0].Cause)
			case e.Evidence != nil:
				evidence, err := explain.Decode(e.Evidence)
				if err != nil {
					t.Fatal(err)
				}
				again = append(again, explain.Explain(evidence)[0].Cause)
			}
		}
		if len(pages) == 0 || cards < 20 {
			t.Errorf("%d pages and %d samples of the card", len(pages), cards)
		}
		if len(causes) < 2 || causes[0] != explain.ProcessGone || causes[len(causes)-1] != explain.Healthy {
			t.Errorf("causes %v, want that the process is gone, and at the end that nothing is wrong", causes)
		}
		if !slices.Equal(again, causes) {
			t.Errorf("causes %v by the evidence, want those of the reports, %v", again, causes)
		}
		if !strings.Contains(got.Config, "ttft: 1s") || !strings.Contains(got.Config, "10.0.0.1:8000") || strings.Contains(got.Config, "other:") {
			t.Errorf("configuration %s, want that of the endpoint and of its module, as it was", got.Config)
		}
		if all := c.Recorder.List("b0"); len(all) > 0 {
			t.Errorf("recordings %v of an endpoint that was well", all)
		}
	})
}

// checkRecordedProbes checks that each probe from ten minutes before the incident to its end is there once.
func checkRecordedProbes(t *testing.T, r *recorder.Recording, interval time.Duration) {
	t.Helper()
	var at []time.Time
	failed := 0
	for _, e := range r.Entries {
		if e.Probe != nil || e.Point != nil {
			at = append(at, e.At)
		}
		if e.Probe != nil && e.Probe.Outcome == result.ConnectError {
			failed++
		}
	}
	if len(at) == 0 || at[0].Sub(r.From) > interval || r.Incident.End.Sub(at[len(at)-1]) > interval {
		t.Fatalf("%d probes, want those from %s to %s", len(at), r.From, r.Incident.End)
	}
	for i := 1; i < len(at); i++ {
		if pause := at[i].Sub(at[i-1]); pause < time.Second || pause > interval+time.Second {
			t.Errorf("a probe %s after the one before, at %s", pause, at[i])
		}
	}
	if least := int(r.Incident.End.Sub(r.Incident.Start) / interval); failed < least {
		t.Errorf("%d probes whole that failed, want at least %d", failed, least)
	}
}

// After a restart in the middle of an incident its recording goes on.
func TestRecordingGoesOnAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRecordedCourse(t)
		c.fail("a", 20*time.Minute, 40*time.Minute)
		c.run(30 * time.Minute)
		before := c.recording("a0")
		var records [][]byte
		for _, part := range c.Parts() {
			if !slices.Contains([]string{"endpoints", "recordings"}, part.Name) {
				continue
			}
			if err := part.Save(func(record any) error {
				text, err := json.Marshal(record)
				if string(text) != "{}" {
					records = append(records, text)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		next := newRecordedCourse(t, records...)
		next.endpoints, next.after = c.endpoints, c.after
		next.run(50 * time.Minute)
		got := next.recording("a0")
		if all := next.Recorder.List("a0"); len(all) != 1 || !got.Incident.Start.Equal(before.Incident.Start) || got.Incident.End.IsZero() {
			t.Errorf("recordings %+v, want one of the incident since %s, which is over", all, before.Incident.Start)
		}
		checkRecordedProbes(t, got, 15*time.Second)
	})
}

// Without a recorder nothing is kept and there is no part of the state.
func TestNothingIsRecordedWithoutState(t *testing.T) {
	l := newLab(t)
	l.mustApply(`{name: a, url: "http://a"}`)
	if l.endpoint("a").track != nil || slices.ContainsFunc(l.Parts(), func(p store.Part) bool { return p.Name == "recordings" }) {
		t.Error("an endpoint is recorded without a recorder")
	}
}
