package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

// TestLoadWith makes load tests of modules, as a command does that has no file.
func TestLoadWith(t *testing.T) {
	cfg, err := FromURLs([]string{"http://127.0.0.1:8000", "https://api.openai.com"})
	if err != nil {
		t.Fatal(err)
	}
	own, hosted := cfg.Endpoints[0], cfg.Endpoints[1]
	load := func(e *Endpoint, name string, keys ...string) (*Module, error) {
		set := map[string]string{}
		for _, key := range keys {
			k, v, _ := strings.Cut(key, "=")
			set[k] = v
		}
		return e.LoadWith(cfg.Modules[name], name, set)
	}

	// A module of bursts, and one with a long timeout: both keep what they ask.
	m, err := load(own, "batch", "load.users=[1, 4]", "load.duration=20s", "slo.ttft=1s")
	if err != nil {
		t.Fatal(err)
	}
	if m.Load.Duration != model.Duration(20*time.Second) || len(m.Concurrency) > 0 || m.Connection != ConnectionReuse || m.InputTokens.Max() != 1000 || m.SLO.TTFT != model.Duration(time.Second) {
		t.Errorf("a load test of bursts: %+v", m)
	}
	before := cfg.Modules["long-context"].Timeouts
	if m, err = load(own, "long-context", "load.users=[1]", "input_tokens=8000"); err != nil || m.Timeouts != before || m.InputTokens.Max() != 8000 {
		t.Errorf("%v, a load test of long prompts: %+v", err, m)
	}
	if cfg.Modules["batch"].Load != nil || cfg.Modules["batch"].SLO != nil {
		t.Error("the module itself has changed")
	}

	// A module that is a load test already: its window does not count, and its levels stay.
	night := *m
	night.Load = &LoadTest{Users: []int{1, 2}, Duration: m.Load.Duration, Target: 1, Window: &LoadWindow{Hours: "02:00-05:00"}, MaxErrorRatio: 0.05, TraceSpeeds: []float64{1}}
	if m, err = own.LoadWith(&night, "night", map[string]string{"load.target": "1"}); err != nil || m.Load.Window != nil || night.Load.Window == nil || len(m.Load.Users) != 2 {
		t.Errorf("%v, the load of a module: %+v", err, m)
	}

	for keys, want := range map[[2]string]string{
		{"load.users=[4, 1]"}:                     "flags: load.users[1]: expected rising numbers, got 1 after 4",
		{"load.users=[1]", "load.duration=1s"}:    "flags: load.duration: must be between 10s and 30m, got 1s",
		{"load.users=[1]", "load.target=2"}:       "flags: load.target: want one of users, got 2",
		{"load.users=[x]"}:                        `flags: load.users[0]: expected a whole number, got "x"`,
		{"load.trace_file=/does/not/exist"}:       "flags: load.trace_file:",
		{"load.users=[1"}:                         "flags: ",
		{"load.users=[1]", "load.max_usd=1"}:      "flags: load: load.max_usd of module",
		{"load.users=[1]", "load.trace_speeds=1"}: "flags: load.trace_speeds: expected a list",
	} {
		if _, err := load(own, Interactive, slices.DeleteFunc(keys[:], func(k string) bool { return k == "" })...); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", keys, err, want)
		}
	}
	if _, err := load(hosted, Interactive, "load.users=[1]"); err == nil || !strings.Contains(err.Error(), "set load.without_page") {
		t.Errorf("a hosted service: %v", err)
	}
	if _, err := load(hosted, Interactive, "load.users=[1]", "load.without_page=true"); err == nil || !strings.Contains(err.Error(), "set load.max_tokens") {
		t.Errorf("a hosted service without a bound: %v", err)
	}
	if _, err := load(hosted, Interactive, "load.users=[1]", "load.without_page=true", "load.max_tokens=1000"); err != nil {
		t.Errorf("a hosted service with a bound: %v", err)
	}
}
