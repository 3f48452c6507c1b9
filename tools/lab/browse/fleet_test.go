package browse

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/tools/lab/browse/fake"
)

// names are those of the rows that are shown, in order.
const names = ".fleet tbody a.name"

func openFleet(t *testing.T, path string) *tab {
	t.Helper()
	p := open(t, serve(t, fake.NewBoard(fake.Fleet()...)).URL, path, laptop)
	p.await("document.querySelector('.fleet tbody tr') || document.querySelector('.empty:not([hidden])')")
	return p
}

func (p *tab) wantNames(want ...string) {
	p.t.Helper()
	if got := p.texts(names); !slices.Equal(got, want) {
		p.t.Errorf("rows %q, want %q", got, want)
	}
}

// press presses a key where the focus is.
func (p *tab) press(keys string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys))
}

// slash presses the key "/" as a keyboard does: what it types comes with the key,
// and not when the page has taken the key for itself.
func (p *tab) slash() {
	p.t.Helper()
	key := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: "/", Code: "Slash", Text: "/", WindowsVirtualKeyCode: 191}
	p.do(send(input.DispatchKeyEvent, key))
	key.Type, key.Text = input.DispatchKeyEventTypeKeyUp, ""
	p.do(send(input.DispatchKeyEvent, key))
}

func TestFleetShowsTheWorstFirst(t *testing.T) {
	p := openFleet(t, "/")
	p.wantNames("judge", "code/70b", "hosted", "rag-staging", "vision-lab", "chat-eu", "chat-us")
	if got, want := run(p, chromedp.Title()), "1 down – inference_exporter"; got != want {
		t.Errorf("title %q, want %q", got, want)
	}
	chips := p.texts(".chip:not([hidden])")
	for i, chip := range chips {
		chips[i] = words(chip)
	}
	if want := []string{"1 down", "1 degraded", "1 slow", "1 stale", "1 waiting", "2 up"}; !slices.Equal(chips, want) {
		t.Errorf("chips %q, want %q", chips, want)
	}
	// Nothing is known of an endpoint that waits for its first result.
	waiting := eval[[]string](p, "[...document.querySelector('tr[data-state=waiting]').cells].slice(2).map(c => c.textContent)")
	for _, text := range waiting {
		if text != "–" {
			t.Errorf("an unknown value is shown as %q, want a dash", text)
		}
	}
}

func TestFleetIsSorted(t *testing.T) {
	p := openFleet(t, "/")
	sort := func(label string) {
		p.script("[...document.querySelectorAll('th button')].find(b => b.textContent === '" + label + "').click()")
	}
	aria := func() []string {
		return eval[[]string](p, "[...document.querySelectorAll('th[aria-sort] [aria-pressed=true]')].map(b => b.textContent + ' ' + b.parentNode.getAttribute('aria-sort'))")
	}

	sort("p50 1 h") // the fake's medians are 1.02 times the typical TTFT
	p.wantNames("code/70b", "hosted", "judge", "chat-us", "rag-staging", "chat-eu", "vision-lab")
	if got := aria(); !slices.Equal(got, []string{"p50 1 h descending"}) {
		t.Errorf("sorted by %q", got)
	}
	sort("p50 1 h")
	p.wantNames("chat-eu", "rag-staging", "chat-us", "judge", "hosted", "code/70b", "vision-lab") // the unknown stays last
	sort("p99 1 h")                                                                               // under p50: 1.9 times the typical TTFT
	p.wantNames("code/70b", "hosted", "judge", "chat-us", "rag-staging", "chat-eu", "vision-lab")
	if got := aria(); !slices.Equal(got, []string{"p99 1 h descending"}) {
		t.Errorf("sorted by %q", got)
	}
	sort("Endpoint")
	p.wantNames("chat-eu", "chat-us", "code/70b", "hosted", "judge", "rag-staging", "vision-lab")
	if got := run(p, chromedp.Location()); !strings.HasSuffix(got, "/?sort=name&dir=asc") {
		t.Errorf("address %q does not keep the order", got)
	}
}

func TestFleetIsFiltered(t *testing.T) {
	for _, c := range []struct{ filter, want string }{
		{"qwen", "chat-eu chat-us"},
		{"tier=prod region=eu", "judge chat-eu"},
		{"SGLANG", "judge"},
		{"vision-lab.inference", "vision-lab"},
		{"state=down", "judge"},
		{"requests wait in the queue", "hosted"},
	} {
		t.Run(c.filter, func(t *testing.T) {
			p := openFleet(t, "/")
			p.slash()
			p.press(c.filter)
			p.wantNames(strings.Fields(c.want)...)
			again := eval[string](p, "location.pathname + location.search")
			p.do(chromedp.Reload())
			p.await("document.querySelector('.fleet tbody tr')")
			p.wantNames(strings.Fields(c.want)...)
			if got := eval[string](p, "location.pathname + location.search"); got != again {
				t.Errorf("address %q became %q", again, got)
			}
		})
	}
}

func TestFleetKeys(t *testing.T) {
	p := openFleet(t, "/?q=nothing-like-that")
	p.awaitText(".empty:not([hidden])", "No endpoint matches")
	p.press(kb.Escape)
	if got := len(p.texts(names)); got != 7 {
		t.Errorf("Esc shows %d rows, want 7", got)
	}
	p.slash()
	if id := eval[string](p, "document.activeElement.id"); id != "filter" {
		t.Errorf("/ leads to %q", id)
	}
	if text := eval[string](p, "document.activeElement.value"); text != "" {
		t.Errorf("the key itself is in the filter: %q", text)
	}
	p.script("document.querySelectorAll('.chip')[0].focus()")
	p.press(kb.Enter)
	p.wantNames("judge")
	if got := eval[string](p, "document.querySelectorAll('.chip')[0].getAttribute('aria-pressed')"); got != "true" {
		t.Errorf("a pressed chip says %q", got)
	}
	p.script("document.querySelector('.fleet tbody a').focus()")
	p.press(kb.Enter)
	p.awaitText("h1", "judge")
}

func TestRowLeadsToItsEndpoint(t *testing.T) {
	p := openFleet(t, "/?q=code")
	p.script("document.querySelector('td.c-kv').click()")
	p.awaitText("h1", "code/70b") // a name with a slash
	p.script("document.querySelector('.brand').click()")
	p.await("document.querySelectorAll('" + names + "').length === 7")
}

// TestFleetSaysWhatItLacks has an endpoint without tokens, and one of which a
// server does not report its queue.
func TestFleetSaysWhatItLacks(t *testing.T) {
	embeds := &status.Detail{Row: status.Row{Name: "embeds", URL: "http://embeds", State: health.Up, Times: status.Times{Duration: new(0.25)}}}
	partly := &status.Detail{Row: status.Row{
		Name: "partly", URL: "http://partly", State: health.Up,
		Servers: &status.Load{Known: 3, Up: 2, Running: new(5.0), Waiting: new(1.0)},
	}}
	p := open(t, serve(t, fake.NewBoard(embeds, partly)).URL, "/", laptop)
	p.await("document.querySelectorAll('.fleet tbody tr').length === 2")
	if got, want := p.texts(".fleet .c-ttft:not(th)"), []string{"250 mswhole reply", "–"}; !slices.Equal(got, want) {
		t.Errorf("TTFT shows %q, want %q", got, want)
	}
	if got, want := p.texts(".fleet .c-queue:not(th)"), []string{"–", "1 waiting5 runningof 2 of 3 servers"}; !slices.Equal(got, want) {
		t.Errorf("the queue shows %q, want %q", got, want)
	}
}

// TestStripsShowEveryRun has a success, one over an objective, two runs that did
// not start, and a failure: they differ in height and colour.
func TestStripsShowEveryRun(t *testing.T) {
	d := &status.Detail{Row: status.Row{
		Name: "one", URL: "http://one", State: health.Degraded, Runs: ".o--x", Outcomes: []result.Outcome{result.Success, result.Success, result.TimeoutFirstToken},
	}}
	p := open(t, serve(t, fake.NewBoard(d)).URL, "/", laptop)
	p.await("document.querySelector('.strip')")
	if got, want := eval[string](p, "document.querySelector('.strip').getAttribute('aria-label')"), "2 of 3 succeeded, 1 over the objective, 2 runs missed; last: timeout first token"; got != want {
		t.Errorf("strip says %q, want %q", got, want)
	}
	// The latest is at the right: five of 30 places of 4 pixels begin at 100.
	paths := eval[map[string]string](p, "Object.fromEntries([...document.querySelectorAll('.strip path')].map(e => [e.getAttribute('class'), e.getAttribute('d')]))")
	want := map[string]string{"good": "M100 6h3V16h-3z", "late": "M104 3h3V16h-3z", "missed": "M108 14h3V16h-3zM112 14h3V16h-3z", "bad": "M116 0h3V16h-3z"}
	if !maps.Equal(paths, want) {
		t.Errorf("bars %q, want %q", paths, want)
	}
	fills := eval[[]string](p, "[...document.querySelectorAll('.strip path')].map(e => getComputedStyle(e).fill)")
	slices.Sort(fills)
	if len(slices.Compact(fills)) != 4 {
		t.Errorf("colours %q, want four", fills)
	}
}

func TestFleetWithoutEndpoints(t *testing.T) {
	p := open(t, serve(t, fake.NewBoard()).URL, "/", laptop)
	p.awaitText(".empty:not([hidden])", "No endpoints yet")
}

func TestThemeIsKept(t *testing.T) {
	p := openFleet(t, "/")
	background := func() string { return eval[string](p, "getComputedStyle(document.body).backgroundColor") }
	light := background()
	press := "document.getElementById('theme').click()"
	p.script(press + "; " + press) // auto, light, dark
	dark := background()
	if dark == light {
		t.Fatal("the dark theme looks like the light one")
	}
	p.do(chromedp.Reload())
	p.await("document.getElementById('theme').textContent === 'Theme: dark'")
	if got := background(); got != dark {
		t.Errorf("after a reload the background is %s, want %s", got, dark)
	}
	p.script(press) // auto again, and the system is light
	if got := background(); got != light {
		t.Errorf("the automatic theme has the background %s, want %s", got, light)
	}
}

// TestDarkThemesAreTheSame compares the colours of the theme that the system
// asks for with those of the one that the reader has chosen: CSS has them twice.
func TestDarkThemesAreTheSame(t *testing.T) {
	p := openFleet(t, "/")
	colors := func(find string) []string {
		return eval[[]string](p, "(rule => [...rule.style].filter(n => n.startsWith('--')).map(n => n + rule.style.getPropertyValue(n)))("+find+")")
	}
	rules := "[...[...document.styleSheets].find(s => s.href.endsWith('app.css')).cssRules]"
	system := colors(rules + ".find(r => r.media?.mediaText.includes('dark')).cssRules[0]")
	chosen := colors(rules + `.find(r => r.selectorText?.includes('dark') && r.style.getPropertyValue('--back'))`)
	if len(system) < 20 || !slices.Equal(system, chosen) {
		t.Errorf("the colours of the system's dark theme %q are not those of the chosen one %q", system, chosen)
	}
}

// TestTenThousandEndpoints reports how long a large fleet takes to appear, and
// fails when that is far too long.
func TestTenThousandEndpoints(t *testing.T) {
	b := fake.NewBoard(fake.Many(10_000)...)
	s := serve(t, b)
	p := open(t, s.URL, "/", laptop)
	p.await("document.querySelectorAll('.fleet tbody tr').length === 100")
	p.await("performance.getEntriesByName('first-contentful-paint').length === 1")
	times := eval[map[string]float64](p, `({
		paint: performance.getEntriesByName('first-contentful-paint')[0].startTime,
		rows: performance.getEntriesByName('first-rows')[0].startTime,
		asked: performance.getEntriesByType('resource').find(r => r.name.endsWith('api/v1/endpoints')).startTime,
		loaded: performance.getEntriesByType('resource').find(r => r.name.endsWith('api/v1/endpoints')).responseEnd,
		megabytes: performance.getEntriesByType('resource').find(r => r.name.endsWith('api/v1/endpoints')).decodedBodySize / 1e6,
	})`)
	t.Logf("10,000 endpoints: first paint %.0f ms, answer of %.1f MB asked for after %.0f ms and read after %.0f ms, first rows %.0f ms",
		times["paint"], times["megabytes"], times["asked"], times["loaded"], times["rows"])
	// What the answer takes is the server's, which has benchmarks of its own.
	if own := times["rows"] - (times["loaded"] - times["asked"]); own > 3000 {
		t.Errorf("the first rows came after %.0f ms, the answer not counted", own)
	}

	p.awaitText(".rest", "100 endpoints of 10,000 shown")
	p.script("document.querySelector('.rest button').click()")
	p.await("document.querySelectorAll('.fleet tbody tr').length === 200")
	p.script("{ const f = document.getElementById('filter'); f.value = 'endpoint-04242'; f.dispatchEvent(new Event('input')); }")
	p.wantNames("endpoint-04242")
	sorted := eval[float64](p, `(() => {
		document.getElementById('filter').value = '';
		const begin = performance.now();
		document.getElementById('filter').dispatchEvent(new Event('input'));
		return performance.now() - begin;
	})()`)
	t.Logf("filtering, sorting and drawing again: %.0f ms", sorted)
}

func TestFleetShowsWhatTheExporterRefused(t *testing.T) {
	p := openFleet(t, "/")
	p.awaitText(".notices", `endpoints[3].url: want a URL like http://host:8000, got "http//judge"`)
	p.awaitText(".notices", "3 discovered targets rejected: 1 duplicate name, 2 invalid.")
	s := serveWith(t, func(c *fake.Content) { c.Info.ConfigOK, c.Info.ConfigError = true, "" }, fake.Fleet()[0])
	p = open(t, s.URL, "/", laptop)
	p.awaitText(".notices", "3 discovered targets rejected")
	if text := p.texts(".notices")[0]; strings.Contains(text, "configuration") {
		t.Errorf("an active configuration is shown as refused: %q", text)
	}
}

// TestFleetSaysWhyAndSinceWhen has each state say why, since when and how many.
func TestFleetSaysWhyAndSinceWhen(t *testing.T) {
	down, degraded, slow := fake.Fleet()[2], fake.Fleet()[3], fake.Fleet()[6]
	degraded.ProbesSince, degraded.FailedSince = 472, 236
	degraded.Cause = explain.ProcessGone
	degraded.Why = "connection refused: dial tcp 10.4.0.17:8000 (interactive)"
	muted := fake.Fleet()[0]
	muted.State, muted.Muted = health.Muted, &status.Muted{Until: 4e9, Reason: "new <b>weights</b>", State: health.Down}
	b := fake.NewBoard(down, degraded, slow, muted)
	p := open(t, serve(t, b).URL, "/", laptop)
	p.await("document.querySelectorAll('.fleet tbody tr').length === 4")
	p.wantNames("judge", "code/70b", "hosted", "chat-eu")
	states := p.texts("td.c-state")
	for i, want := range []string{"9 of 18 probes failed", "236 of 472 probes failed", "", "; the state is Down: new <b>weights</b>"} {
		if !strings.Contains(states[i], want) || !strings.Contains(states[i], "since ") {
			t.Errorf("state %q, want since when and %q", states[i], want)
		}
	}
	why := p.texts("td.c-error .failure")
	if len(why) < 3 || why[1] != degraded.Why || why[2] != slow.Why {
		t.Errorf("reasons %q", why)
	}
	if text := p.texts("td.c-error")[1]; !strings.Contains(text, "cause: process gone failed ") {
		t.Errorf("the cause is missing: %q", text)
	}
	if got := p.texts(".chip.muted:not([hidden])"); len(got) != 1 || words(got[0]) != "1 muted" {
		t.Errorf("chip %q", got)
	}
}

func TestGPUsNameTheirEndpoints(t *testing.T) {
	p := open(t, serve(t, fake.NewBoard(fake.Fleet()...)).URL, "/gpus", laptop)
	p.awaitText(".gpu .serves", "Serves chat-eu, code/70b")
	if got := p.hrefs(".serves a"); !slices.Equal(got, []string{"endpoint/chat-eu", "endpoint/code%2F70b"}) {
		t.Errorf("links %q", got)
	}
	if n := len(p.texts(".serves")); n != 1 {
		t.Errorf("%d cards name endpoints, want the one of which some are known", n)
	}
}

// TestIncidentFitsTheScreen has 11 endpoints of which 7 are down for reasons as long as
// they are: all of them are on one screen, and nothing is to the right of it.
func TestIncidentFitsTheScreen(t *testing.T) {
	all := fake.Many(11)
	for _, d := range all[:7] {
		d.State, d.Why, d.Cause = health.Down, "status 503: ServiceUnavailableError: The server is overloaded (interactive)", explain.QueueFull
		d.ProbesSince, d.FailedSince, d.Failing, d.Times = 34, 34, []string{"interactive"}, status.Times{}
		d.Failure = &status.Failure{At: d.LastAt, Module: "interactive", Outcome: result.Overloaded, Message: d.Why}
	}
	p := open(t, serve(t, fake.NewBoard(all...)).URL, "/", view{width: 1300, height: 900})
	p.await("document.querySelectorAll('.fleet tbody tr').length === 11")
	p.await("document.querySelector('.notices').firstChild")
	p.script("document.querySelector('.notices').remove()") // a refused configuration is another incident
	if bottom := eval[float64](p, "document.querySelector('.fleet').getBoundingClientRect().bottom"); bottom > 900 {
		t.Errorf("the table ends at %g, below a screen of 900", bottom)
	}
	if eval[bool](p, "document.querySelector('.scroll').scrollWidth > document.querySelector('.scroll').clientWidth") {
		t.Error("the table is wider than the screen")
	}
	if cut := eval[int](p, "[...document.querySelectorAll('.failure')].filter(f => f.scrollHeight > f.clientHeight + 1).length"); cut > 0 {
		t.Errorf("%d reasons are cut", cut)
	}
	p.picture("fleet-incident", false)
}

// TestFleetShowsFlapping has an endpoint that is down again and again.
func TestFleetShowsFlapping(t *testing.T) {
	all := fake.Fleet()
	flapping := all[3]
	flapping.State, flapping.ProbesSince, flapping.FailedSince, flapping.SpellsSince = health.Flapping, 193, 94, 16
	b := fake.NewBoard(all...)
	p := open(t, serve(t, b).URL, "/", laptop)
	p.await("document.querySelector('tr[data-state=flapping]')")
	p.wantNames("judge", "code/70b", "hosted", "rag-staging", "vision-lab", "chat-eu", "chat-us")
	if text := p.texts("tr[data-state=flapping] td.c-state")[0]; !strings.HasPrefix(text, "Flapping ") || !strings.HasSuffix(text, "94 of 193 probes failed, in 16 spells") {
		t.Errorf("state %q", text)
	}
	if got := p.texts(".chip.flapping:not([hidden])"); len(got) != 1 || words(got[0]) != "1 flapping" {
		t.Errorf("chip %q", got)
	}
	b.Remove("judge")
	p.await("document.title === '1 flapping – inference_exporter'")
	p.script("document.querySelector('tr[data-state=flapping] a.name').click()")
	p.awaitText(".problem h2", "94 of 193 probes failed, in 16 spells")
}

// TestFleetShowsEarlierTimes has an endpoint whose latest probe has no precise times.
func TestFleetShowsEarlierTimes(t *testing.T) {
	d := fake.Fleet()[0]
	d.Times = status.Times{}
	d.Earlier = &status.EarlierTimes{At: d.LastAt - 30, Times: status.Times{TTFT: new(0.0853), TPOT: new(0.0123)}}
	p := open(t, serve(t, fake.NewBoard(d)).URL, "/", laptop)
	p.await("document.querySelector('.past')")
	const earlier = ", of an earlier probe: the latest has no precise value"
	if got, want := p.texts(".fleet tbody .past"), []string{"85.3 ms" + earlier, "12.3 ms" + earlier}; !slices.Equal(got, want) {
		t.Errorf("values %q, want %q", got, want)
	}
	color := eval[[]string](p, "['.past .value', '.fleet td .small', '.c-p50 .value'].map(s => getComputedStyle(document.querySelector(s)).color)")
	if color[0] != color[1] || color[0] == color[2] {
		t.Errorf("colours %q: want the first pale as the second, and not as the third", color)
	}
}

// TestOneZone has a reader in another zone than UTC, in which the exporter's texts are.
func TestOneZone(t *testing.T) {
	d := fake.Fleet()[6]
	since := time.Now().Add(-10 * time.Minute)
	d.Since = float64(since.Unix())
	p := open(t, serve(t, fake.NewBoard(d)).URL, "/", laptop)
	p.do(send(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Tokyo"}), chromedp.Reload())
	layout := "15:04"
	if since.UTC().Day() != time.Now().UTC().Day() {
		layout = "01-02 15:04"
	}
	p.awaitText("td.c-state", "Slow 10 minsince "+since.UTC().Format(layout)+" UTC")
	if title := eval[string](p, "document.querySelector('td.c-state time').title"); !strings.Contains(title, " UTC, ") || !strings.HasSuffix(title, " GMT+9") {
		t.Errorf("title %q, want the time in the zone of the reader too", title)
	}
}
