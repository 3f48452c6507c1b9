package browse

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/web"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/load"
	"github.com/inference-exporter/inference_exporter/tools/lab/browse/fake"
)

// TestPictures opens every page on every screen: none may scroll sideways or
// complain. SCREENSHOTS names a folder for the pictures.
func TestPictures(t *testing.T) {
	fleet, gateways := fake.Fleet(), fake.Gateways()
	fleet[1].Gateway, fleet[2].Gateway = gateways[1], gateways[1] // chat-us and judge
	s := serveWith(t, func(c *fake.Content) { c.Gateways = gateways }, fleet...)
	dark := view{width: 1440, height: 900, dark: true}
	for _, c := range []struct {
		name, path, ready string
		view              view
		open              bool // the latest probe
	}{
		{"fleet-light", "/", ".fleet tbody tr", laptop, false},
		{"fleet-dark", "/", ".fleet tbody tr", dark, false},
		{"fleet-phone", "/", ".fleet tbody tr", phone, false},
		{"endpoint-ok", "/endpoint/chat-eu", ".probes details", laptop, true},
		{"endpoint-failing", "/endpoint/judge", ".probes details", laptop, true},
		{"endpoint-dark", "/endpoint/chat-us", ".probes details", dark, true},
		{"endpoint-phone", "/endpoint/judge", ".probes details", phone, true},
		{"endpoint-ok-phone", "/endpoint/chat-us", ".probes details", phone, true},
		{"endpoint-burst", "/endpoint/judge", ".probes details", laptop, false},
		{"endpoint-waiting", "/endpoint/vision-lab", ".tiles", laptop, false},
		{"gpus", "/gpus", ".gpu", laptop, false},
		{"gpus-phone", "/gpus", ".gpu", phone, false},
		{"self", "/self", "tbody tr", laptop, false},
		{"self-phone", "/self", "tbody tr", phone, false},
		{"config", "/config", "pre.panel", laptop, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := open(t, s.URL, c.path, c.view)
			p.await("document.querySelector('" + c.ready + "')")
			if c.open {
				p.script("document.querySelector('.probes summary').click()")
				p.await("document.querySelector('.probes .inside')")
			}
			if c.name == "endpoint-burst" {
				p.script("[...document.querySelectorAll('[role=tab]')].at(-1).click()")
				p.await("document.querySelectorAll('.wide td button').length === 4")
			}
			p.await("document.getElementById('version').textContent.includes('1.4.0')")
			if wide := eval[int64](p, "document.documentElement.scrollWidth"); wide > c.view.width {
				t.Errorf("the page is %d pixels wide on a screen of %d", wide, c.view.width)
			}
			if cut := eval[string](p, "[...document.querySelectorAll('.tiles dd')].filter(d => d.scrollWidth > d.clientWidth).map(d => d.textContent).join('; ')"); cut != "" {
				t.Errorf("wider than their tiles: %s", cut)
			}
			p.picture(c.name, true)
		})
	}
}

// pages are all pages with what shows that they are there.
var pages = map[string]string{
	"/": ".fleet tbody tr", "/endpoint/chat-eu": ".probes details", "/endpoint/judge": ".probes details",
	"/gpus": ".gpu", "/self": "tbody tr", "/config": "pre.panel",
}

// contrast lists texts with less contrast to what is behind them than WCAG AA
// asks for: 4.5, or 3 for large text.
const contrast = `(() => {
  const parse = (c) => c.match(/[\d.]+/g).map(Number);
  const luminance = (c) => {
    const [r, g, b] = c.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.textContent.trim());
    if (!own || !e.checkVisibility() || e.closest('svg, noscript')) continue;
    const style = getComputedStyle(e);
    const [a, b] = [luminance(parse(style.color)), luminance(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    if (ratio < (size >= 24 || size >= 18.66 && style.fontWeight >= 700 ? 3 : 4.5)) bad.push(ratio.toFixed(2) + ' ' + e.className + ': ' + e.textContent.slice(0, 40));
  }
  return bad;
})()`

func TestContrast(t *testing.T) {
	s := serve(t, fake.NewBoard(fake.Fleet()...))
	for path, ready := range pages {
		for _, dark := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s dark=%t", path, dark), func(t *testing.T) {
				p := open(t, s.URL, path, view{width: 1440, height: 900, dark: dark})
				p.await("document.querySelector('" + ready + "')")
				p.script("document.querySelectorAll('summary').forEach(s => s.click()); document.querySelectorAll('.chip')[0]?.click()")
				for _, bad := range eval[[]string](p, contrast) {
					t.Errorf("contrast %s", bad)
				}
			})
		}
	}
}

// interactive are the roles that a reader acts on.
var interactive = map[string]bool{
	"button": true, "link": true, "textbox": true, "searchbox": true, "combobox": true, "tab": true, "checkbox": true, "DisclosureTriangle": true,
}

// TestAccessibilityTree wants a name for everything that a reader can act on
// and for every image, one heading of the first level and one main part.
func TestAccessibilityTree(t *testing.T) {
	s := serve(t, fake.NewBoard(fake.Fleet()...))
	for path, ready := range pages {
		t.Run(path, func(t *testing.T) {
			p := open(t, s.URL, path, laptop)
			p.await("document.querySelector('" + ready + "')")
			tree := run(p, func(ctx context.Context, target *chromedp.Target) (accessibility.GetFullAXTreeResult, error) {
				return cdp.Call(ctx, target, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
			})
			seen := map[string]int{}
			for _, node := range tree.Nodes {
				if node.Ignored || node.Role == nil {
					continue
				}
				role := strings.Trim(string(node.Role.Value), `"`)
				seen[role]++
				if (interactive[role] || role == "image" || role == "img") && (node.Name == nil || strings.Trim(string(node.Name.Value), `" `) == "") {
					t.Errorf("a %s has no name (node %s)", role, node.NodeID)
				}
			}
			if seen["main"] != 1 || seen["link"] < 5 {
				t.Errorf("roles %v: want one main part and the links of the head", seen)
			}
			if n := len(p.texts("h1")); n != 1 {
				t.Errorf("%d headings of the first level, want 1", n)
			}
		})
	}
}

// TestNumbersAsWritten asks the page's own module how it writes numbers. What is
// not a known number is a dash, never 0 or NaN.
func TestNumbersAsWritten(t *testing.T) {
	p := open(t, serve(t, fake.NewBoard()).URL, "/config", laptop)
	for _, c := range []struct{ call, want string }{
		{"seconds(0)", "0 ms"},
		{"seconds(0.000123)", "0.123 ms"},
		{"seconds(0.0853)", "85.3 ms"},
		{"seconds(0.09996)", "100 ms"},
		{"seconds(0.1234)", "123 ms"},
		{"seconds(0.9994)", "999 ms"},
		{"seconds(0.9996)", "1.00 s"},
		{"seconds(1.234)", "1.23 s"},
		{"seconds(9.996)", "10.0 s"},
		{"seconds(12.34)", "12.3 s"},
		{"seconds(180)", "180 s"},
		{"seconds(7260)", "2 h 1 min"},
		{"seconds(undefined)", "–"},
		{"seconds(null)", "–"},
		{"seconds(NaN)", "–"},
		{"seconds(Infinity)", "–"},
		{"seconds('7')", "–"},
		{"age(-3)", "0 s"},
		{"age(59.9)", "59 s"},
		{"age(60)", "1 min"},
		{"age(3600)", "1 h 0 min"},
		{"age(90000)", "1 d 1 h"},
		{"ratio(0)", "0 %"},
		{"ratio(0.004)", "0.4 %"},
		{"ratio(0.62)", "62 %"},
		{"ratio(1)", "100 %"},
		{"ratio(undefined)", "–"},
		{"number(0)", "0"},
		{"number(1234567)", "1,234,567"},
		{"number(0.123456)", "0.1235"},
		{"number(undefined)", "–"},
		{"bytes(0)", "0 B"},
		{"bytes(1536)", "1.5 KiB"},
		{"bytes(85899345920)", "80.0 GiB"},
		{"bytes(undefined)", "–"},
		{"plural(1, 'probe')", "1 probe"},
		{"plural(0, 'probe')", "0 probes"},
		{"exactTime(1800000000)", "2027-01-15 08:00:00 UTC"},
	} {
		got := run(p, chromedp.Evaluate[json.RawMessage]("import('/assets/format.js').then(f => f."+c.call+")", chromedp.EvalAwaitPromise))
		var text string
		if err := json.Unmarshal(got, &text); err != nil || text != c.want {
			t.Errorf("%s is %s, want %q", c.call, got, c.want)
		}
	}
}

// evil would run a script if it were taken for HTML, and breaks out of an
// attribute; it is also wider than any screen.
var evil = `<img src=x onerror="window.hacked=1">"'><script>window.hacked=1</script>` + strings.Repeat("W", 300)

func facts(all ...workload.Finding) *workload.Findings { return &workload.Findings{All: all} }

// hostile has the text in every string that a server or a configuration may
// fill.
func hostile() *status.Detail {
	d := fake.Fleet()[2]
	d.Name, d.URL, d.Model, d.API, d.Engine, d.Module = evil, "javascript:window.hacked=1//"+evil, evil, evil, evil, evil
	d.Labels = map[string]string{evil: evil}
	d.Failing, d.State = []string{evil}, health.State(evil)
	d.Failure = &status.Failure{At: 1, Module: evil, Outcome: result.Outcome(evil), Message: evil, Advice: evil}
	d.Outcomes, d.Runs, d.Why = []result.Outcome{result.Outcome(evil)}, evil, evil
	d.Muted = &status.Muted{Until: 2e9, Reason: evil, State: health.State(evil)}
	d.Findings = []*status.Module{{Module: evil, Findings: &workload.Findings{All: []workload.Finding{&load.BurstFinding{Knee: &load.Burst{Concurrency: 4}}}}}}
	d.Changes = []status.Change{{At: 1, Module: evil, Text: evil, State: health.State(evil)}}
	d.Pages = []*status.Server{{Server: evil, URL: evil, Engine: evil, At: 1, State: page.State(evil), Reason: page.Reason(evil), Error: evil}}
	d.Facts = facts(&page.Compared{Findings: []page.Difference{{Setting: config.Setting(evil), Since: 1, Values: map[string][]string{evil: {evil}}}}})
	d.Gateway = hostileGateway()
	for _, s := range d.Series {
		s.Module, s.Prefix, s.InputTokens, s.Concurrency = evil, evil, evil, evil
		s.History.Outcome[len(s.History.Outcome)-1] = result.Outcome(evil)
		s.Probes = []*result.Document{{
			Outcome: result.Outcome(evil), Error: evil, Advice: evil, TraceID: evil, Model: evil, Finish: evil, Clock: result.Clock(evil),
			Answer: &result.Answer{Text: evil, Verdict: result.Verdict(evil)}, Server: map[string]*float64{evil: new(1.0)},
			Phases: map[string]*float64{evil: new(1.0), "dns": new(1.0)},
		}}
	}
	return d
}

func hostileGateway() *status.Gateway {
	return &status.Gateway{
		Name: evil, Software: evil, State: status.GatewayState(evil), Why: evil, Values: map[string]float64{"backends_ready": 1}, Endpoints: []string{evil},
		Backends: []*status.Backend{{Name: evil, Ready: new(true)}},
		Pages:    []*status.Server{{Server: evil, URL: evil, State: page.State(evil), Reason: page.Reason(evil), Error: evil}},
	}
}

func TestHostileTextIsText(t *testing.T) {
	content := fake.Content{
		Gateways: []*status.Gateway{hostileGateway()},
		GPUs: &status.GPUPage{State: evil, Error: evil, Driver: evil, CUDA: evil, GPUs: []*status.GPU{{
			UUID: evil, Name: evil, Endpoints: []string{evil}, Profile: evil, Throttle: []string{evil}, Problems: []string{evil}, Processes: []*status.GPUProcess{{Name: evil}},
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

// TestConfigBeginsWithTheEndpoints has a module that no endpoint uses, which is folded at
// the end, and one that an endpoint does.
func TestConfigBeginsWithTheEndpoints(t *testing.T) {
	p := open(t, serve(t, fake.NewBoard()).URL, "/config", laptop)
	p.await("document.querySelector('pre.panel')")
	parts := func(selector string) string { return strings.Join(p.texts(selector), "|") }
	if got, want := parts("main summary"), "endpoints (2)|modules (1)|global (1)|modules used by no endpoint (1)"; got != want {
		t.Errorf("sections %q, want %q", got, want)
	}
	if got, want := parts("details:not([open]) pre"), "modules:\n  agent:\n    interval: 2m\n"; got != want {
		t.Errorf("folded %q, want %q", got, want)
	}
	p.slash()
	p.press("JUDGE")
	if got, want := parts("main pre"), "endpoints:\n  - name: judge\n    url: http://judge:8000/v1\n"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	if got := parts("mark"); got != "judge|judge" {
		t.Errorf("marked %q", got)
	}
	p.press(kb.Escape)
	if n := len(p.texts("main summary")); n != 4 {
		t.Errorf("Esc shows %d sections, want 4", n)
	}
}

// linesOfNames are the lines, but for the last ones, of the names of metrics.
const linesOfNames = `[...document.querySelectorAll('td b')].flatMap((name) => {
  const lines = new Map();
  for (const node of name.childNodes) {
    for (let i = 0; i < (node.length ?? 0); i++) {
      const range = document.createRange();
      range.setStart(node, i);
      range.setEnd(node, i + 1);
      const { top } = range.getBoundingClientRect();
      lines.set(top, (lines.get(top) ?? '') + node.data[i]);
    }
  }
  return [...lines.values()].slice(0, -1);
})`

func TestMetricNamesBreakAtUnderscores(t *testing.T) {
	p := open(t, serve(t, fake.NewBoard()).URL, "/self", phone)
	p.await("document.querySelector('tbody tr')")
	lines := eval[[]string](p, linesOfNames)
	if len(lines) == 0 {
		t.Fatal("no name is broken: the screen is too wide for the test")
	}
	for _, line := range lines {
		if !strings.HasSuffix(line, "_") {
			t.Errorf("a line of a name ends within a word: %q", line)
		}
	}
}

// TestBannerHasTheCommand wants the command that probes the endpoint by hand: from the
// file of the configuration and, without one, by its URL.
func TestBannerHasTheCommand(t *testing.T) {
	d := fake.Fleet()[2]
	d.URL, d.API = "http://judge:8000/v1?a=1&b='x'", "openai-chat"
	for file, want := range map[string]string{
		"/etc/my config.yml": `--config.file='/etc/my config.yml' --module=interactive judge`,
		"":                   `--api=openai-chat --model=meta-llama/Llama-3.3-70B-Instruct --module=interactive 'http://judge:8000/v1?a=1&b='\''x'\'''`,
	} {
		s := serveWith(t, func(c *fake.Content) { c.Info.ConfigFile = file }, d)
		p := open(t, s.URL, "/endpoint/judge", laptop)
		p.await("document.querySelector('.problem .copyable')")
		if got := p.texts(".problem .copyable code"); !slices.Equal(got, []string{"inference_exporter probe " + want}) {
			t.Errorf("command %q, want %q", got, want)
		}
	}
}
