package status

import (
	"errors"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/engine"
)

// up is a server that was read.
func up(name string, ratio float64, values map[config.Quantity]float64) engine.Status {
	s := engine.Status{
		Server: name, URL: "http://" + name + "/metrics", At: epoch(), State: engine.Up,
		Snapshot: &engine.Snapshot{Engine: "vllm", Values: values, PrefixCacheRatio: ratio},
	}
	if ratio >= 0 {
		s.Snapshot.PrefixCacheUnit = "tokens"
	}
	return s
}

func TestLoad(t *testing.T) {
	down := engine.Status{
		Server: "d", URL: "http://d/metrics", At: epoch(), State: engine.Down, Reason: engine.ReasonConnect, Err: errors.New("no\x1broute"),
	}
	full := up("a", 0.5, map[config.Quantity]float64{
		config.RequestsRunning: 3, config.RequestsWaiting: 0, config.KVCacheUsage: 0.25, config.PromptTokens: 1000,
	})
	fuller := up("b", 0.75, map[config.Quantity]float64{config.RequestsRunning: 4, config.KVCacheUsage: 0.75})
	for name, c := range map[string]struct {
		statuses []engine.Status
		want     string
	}{
		"none":           {nil, `null`},
		"down":           {[]engine.Status{down}, `{"known":1,"up":0}`},
		"nothing to say": {[]engine.Status{up("a", -1, nil)}, `{"known":1,"up":1}`},
		"one":            {[]engine.Status{full}, `{"known":1,"up":1,"running":3,"waiting":0,"kv_cache_usage_ratio":0.25,"prefix_cache_hit_ratio":0.5}`},
		"several": {
			[]engine.Status{fuller, down, full, up("c", -1, nil)},
			`{"known":4,"up":3,"running":7,"waiting":0,"kv_cache_usage_ratio":0.75,"prefix_cache_hit_ratio":0.625}`,
		},
	} {
		l := newLab(t)
		l.open()
		l.board.SetServers("e", c.statuses)
		if got := text(t, l.row().Servers); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		l.board.SetServers("e", nil)
		if l.row().Servers != nil {
			t.Errorf("%s: servers that are gone", name)
		}
	}

	l := newLab(t)
	l.open()
	l.pass(time.Minute)
	l.board.SetServers("e", []engine.Status{full, down, up("c", -1, nil)})
	expectJSON(t, l.detail("e").Pages, `[
		{"server": "a", "url": "http://a/metrics", "engine": "vllm", "at": 1767323045, "state": "up", "prefix_cache_hit_ratio": 0.5,
			"values": {"requests_running": 3, "requests_waiting": 0, "kv_cache_usage_ratio": 0.25, "prompt_tokens": 1000}},
		{"server": "d", "url": "http://d/metrics", "at": 1767323045, "state": "down", "reason": "connect", "error": "no route"},
		{"server": "c", "url": "http://c/metrics", "engine": "vllm", "at": 1767323045, "state": "up"}]`)
}
