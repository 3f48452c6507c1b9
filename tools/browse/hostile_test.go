package browse

import (
	"net/url"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/engine"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/check"
	"github.com/inference-exporter/inference_exporter/status"
	"github.com/inference-exporter/inference_exporter/tools/browse/fake"
	"github.com/inference-exporter/inference_exporter/web"
)

// evil would run a script if it were taken for HTML, and breaks out of an
// attribute; it is also wider than any screen.
var evil = `<img src=x onerror="window.hacked=1">"'><script>window.hacked=1</script>` + strings.Repeat("W", 300)

// hostile has the text in every string that a server or a configuration may
// fill.
func hostile() *status.Detail {
	d := fake.Fleet()[2]
	d.Name, d.URL, d.Model, d.API, d.Engine, d.Module = evil, "javascript:window.hacked=1//"+evil, evil, evil, evil, evil
	d.Labels = map[string]string{evil: evil}
	d.Failing, d.State = []string{evil}, status.State(evil)
	d.Failure = &status.Failure{At: 1, Module: evil, Outcome: result.Outcome(evil), Message: evil, Advice: evil}
	d.Outcomes = []result.Outcome{result.Outcome(evil)}
	d.Changes = []status.Change{{At: 1, Module: evil, Text: evil}}
	d.Pages = []*status.Server{{Server: evil, URL: evil, Engine: evil, At: 1, State: engine.State(evil), Reason: engine.Reason(evil), Error: evil}}
	for _, s := range d.Series {
		s.Module, s.Prefix, s.InputTokens, s.Concurrency = evil, evil, evil, evil
		s.History.Outcome[len(s.History.Outcome)-1] = result.Outcome(evil)
		s.Probes = []*result.Document{{
			Outcome: result.Outcome(evil), Error: evil, Advice: evil, TraceID: evil, Model: evil, Finish: evil, Clock: result.Clock(evil),
			Answer: &result.Answer{Text: evil, Verdict: check.Verdict(evil)}, Server: map[string]*float64{evil: new(1.0)},
			Phases: map[string]*float64{evil: new(1.0), "dns": new(1.0)},
		}}
	}
	return d
}

func TestHostileTextIsText(t *testing.T) {
	content := fake.Content{
		GPUs: &status.GPUPage{State: evil, Error: evil, Driver: evil, CUDA: evil, GPUs: []*status.GPU{{
			UUID: evil, Name: evil, Profile: evil, Throttle: []string{evil}, Problems: []string{evil}, Processes: []*status.GPUProcess{{Name: evil}},
		}}},
		Info:   web.Info{Version: evil, Revision: evil, ConfigFile: evil, ConfigError: evil},
		Config: evil,
	}
	s, err := fake.Serve(fake.NewBoard(hostile()), content)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for _, c := range []struct{ path, ready string }{
		{"/", ".fleet tbody tr"}, {"/endpoint/" + url.PathEscape(evil), ".tiles"}, {"/gpus", ".gpu"}, {"/self", "tbody tr"}, {"/config", "pre.panel"},
	} {
		for _, v := range []view{laptop, phone} {
			p := open(t, s.URL, c.path, v)
			p.await("document.querySelector('" + c.ready + "')")
			p.script("document.querySelectorAll('summary').forEach(s => s.click())")
			p.awaitText("main", `<img src=x onerror="window.hacked=1">`)
			if eval[bool](p, "window.hacked !== undefined || document.querySelector('main img, main script, a[href^=javascript]') !== null") {
				t.Errorf("%s takes a text for HTML", c.path)
			}
			if wide := eval[int64](p, "document.documentElement.scrollWidth"); wide > v.width {
				t.Errorf("%.20s is %d pixels wide on a screen of %d", c.path, wide, v.width)
			}
		}
	}
}
