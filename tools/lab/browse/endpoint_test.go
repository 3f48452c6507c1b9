package browse

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/tools/lab/browse/fake"
)

func openEndpoint(t *testing.T, d *status.Detail) *tab {
	t.Helper()
	p := open(t, serve(t, fake.NewBoard(d)).URL, "/endpoint/"+d.Name, laptop)
	p.await("document.querySelector('.tiles')")
	return p
}

// onlyProbe is an endpoint with one probe.
func onlyProbe(probe *result.Document) *status.Detail {
	probe.Time = time.Unix(1.8e9, 0).UTC()
	return &status.Detail{
		Row: status.Row{Name: "one", URL: "http://one:8000", State: health.Up},
		Series: []*status.Series{{
			Module: "m", Prefix: "cold", Interval: 30, Probes: []*result.Document{probe},
			History: &status.History{At: []float64{1.8e9}, TTFT: []*float64{nil}, TPOT: []*float64{nil}, Outcome: []result.Outcome{probe.Outcome}},
		}},
	}
}

func (p *tab) openFirstProbe() {
	p.t.Helper()
	p.script("document.querySelector('.probes summary').click()")
	p.await("document.querySelector('.probes .inside')")
}

func TestWaterfall(t *testing.T) {
	p := openEndpoint(t, onlyProbe(&result.Document{
		Outcome: result.Success, TraceID: "ab", Duration: new(0.2),
		Phases: map[string]*float64{"connect": new(0.01), "first_byte": new(0.08), "first_token": new(0.01), "decode": new(0.1)},
	}))
	p.openFirstProbe()
	want := []string{"connect10.0 ms", "first byte80.0 ms", "first token10.0 ms", "decode100 ms"}
	if got := p.texts(".waterfall dl > div"); !slices.Equal(got, want) {
		t.Errorf("phases %q, want %q", got, want)
	}
	// The first byte begins 10 ms into 200 ms and takes 80 ms.
	bar := eval[[]string](p, "(b => [b.style.marginLeft, b.style.width])(document.querySelectorAll('.waterfall .bar')[1])")
	if !slices.Equal(bar, []string{"5%", "40%"}) {
		t.Errorf("the bar is at %q, want 5%% and 40%%", bar)
	}
}

func TestWaterfallOfAFailure(t *testing.T) {
	p := openEndpoint(t, onlyProbe(&result.Document{
		Outcome: result.TimeoutFirstToken, TraceID: "ab", Duration: new(10.0),
		Error: "no first token within 10 s", Advice: "Look at the queue.",
		Phases: map[string]*float64{"connect": new(0.5), "write": new(0.5)},
	}))
	p.awaitText("summary .reason", "no first token within 10 s") // before it is opened
	p.openFirstProbe()
	want := []string{"connect500 ms", "write500 ms", "then failed9.00 s"}
	if got := p.texts(".waterfall dl > div"); !slices.Equal(got, want) {
		t.Errorf("phases %q, want %q", got, want)
	}
	p.awaitText(".why pre", "no first token within 10 s")
	p.awaitText(".why", "Check next: Look at the queue.")
}

func TestTokenTimeline(t *testing.T) {
	event := func(at float64, merged bool) result.DocumentEvent {
		return result.DocumentEvent{At: at, Tokens: 2, Merged: merged}
	}
	p := openEndpoint(t, onlyProbe(&result.Document{
		Outcome: result.Success, TraceID: "ab",
		Events: []result.DocumentEvent{event(0.1, false), event(0.12, true), event(0.62, false), event(0.65, false)},
	}))
	p.openFirstProbe()
	p.awaitText(".tokens h3", "4 events in 550 ms")
	p.awaitText(".tokens .readout", "Longest gap 500 ms before event 3, 620 ms after the start. 1 event merged")
	want := "Event 1 at 100 ms, 2 tokens\nEvent 2 at 120 ms, gap 20.0 ms, 2 tokens, merged\n" +
		"Event 3 at 620 ms, gap 500 ms, 2 tokens\nEvent 4 at 650 ms, gap 30.0 ms, 2 tokens"
	if got := p.texts(".tokens pre"); !slices.Equal(got, []string{want}) {
		t.Errorf("gaps %q, want %q", got, want)
	}
}

func TestSeriesTabsAndBursts(t *testing.T) {
	p := openEndpoint(t, fake.Fleet()[0]) // chat-eu
	want := []string{"interactive · cold", "pairs · warm · 512 tokens in · 16 out", "lengths · cold", "burst · cold"}
	if got := p.texts("[role=tab]"); !slices.Equal(got, want) {
		t.Fatalf("tabs %q, want %q", got, want)
	}
	p.script("document.querySelector('[role=tab][aria-selected=true]').focus()")
	p.press(kb.ArrowLeft) // around to the last one
	p.await("document.querySelector('[role=tab][aria-selected=true]').textContent === 'burst · cold'")
	sizes := eval[[]string](p, "[...document.querySelectorAll('.wide td button')].map(b => b.textContent)")
	if !slices.Equal(sizes, []string{"1", "4", "16", "48"}) {
		t.Errorf("sizes %q", sizes)
	}
	p.script("document.querySelectorAll('.wide td button')[1].click()")
	p.await("document.querySelectorAll('.wide td button')[1].getAttribute('aria-pressed') === 'true'")
}

func TestChartsShowTheHistory(t *testing.T) {
	p := openEndpoint(t, fake.Fleet()[1]) // chat-us: 240 probes, 2 failures, threshold 500 ms
	if n := eval[int](p, "document.querySelectorAll('.chart canvas').length"); n != 3 {
		t.Fatalf("%d charts, want 3", n)
	}
	p.awaitText(".chart:nth-of-type(3)", "2 failures among 240 probes")
	p.awaitText(".chart:nth-of-type(1)", "in 238 probes since")
	p.awaitText(".chart:nth-of-type(1)", "over the threshold of 500 ms")
	// All three have the same axis of time.
	lefts := eval[[]float64](p, "[...document.querySelectorAll('.chart .u-over')].flatMap(e => [e.getBoundingClientRect().left, e.getBoundingClientRect().width])")
	if lefts[0] != lefts[2] || lefts[0] != lefts[4] || lefts[1] != lefts[3] || lefts[1] != lefts[5] {
		t.Errorf("the charts are not aligned: %v", lefts)
	}
	p.script(`{
		const over = document.querySelector('.chart .u-over');
		const box = over.getBoundingClientRect();
		over.dispatchEvent(new MouseEvent('mousemove', {clientX: box.right - 1, clientY: box.top + 20, bubbles: true}));
	}`)
	p.awaitText(".charts .readout", "success, TTFT 567 ms")
}

// After a step of the clock back the history is not in the order of time.
func TestChartsAfterAStepOfTheClock(t *testing.T) {
	d := onlyProbe(&result.Document{Outcome: result.Success})
	d.Series[0].History = &status.History{
		At:      []float64{1.8e9, 1.8e9 + 30, 1.8e9 - 3600},
		TTFT:    []*float64{new(0.111), new(0.222), new(0.333)},
		TPOT:    []*float64{nil, nil, nil},
		Outcome: []result.Outcome{result.Success, result.Success, result.Success},
	}
	p := openEndpoint(t, d)
	p.await("document.querySelector('.chart .u-over')")
	p.script(`{
		const over = document.querySelector('.chart .u-over');
		const box = over.getBoundingClientRect();
		over.dispatchEvent(new MouseEvent('mousemove', {clientX: box.left + 1, clientY: box.top + 20, bubbles: true}));
	}`)
	p.awaitText(".charts .readout", "TTFT 333 ms")
	p.script(`{
		const over = document.querySelector('.chart .u-over');
		const box = over.getBoundingClientRect();
		over.dispatchEvent(new MouseEvent('mousemove', {clientX: box.right - 1, clientY: box.top + 20, bubbles: true}));
	}`)
	p.awaitText(".charts .readout", "TTFT 222 ms")
}

func TestAbsentIsADash(t *testing.T) {
	p := openEndpoint(t, &status.Detail{Row: status.Row{Name: "bare", URL: "http://bare", State: health.Waiting}})
	for i, text := range p.texts(".tiles dd") {
		if text != "–" {
			t.Errorf("tile %d shows %q, want a dash", i, text)
		}
	}
	body := eval[string](p, "document.querySelector('main').innerText")
	for _, wrong := range []string{"NaN", "undefined", "null", "Infinity", "[object"} {
		if strings.Contains(body, wrong) {
			t.Errorf("the page says %s:\n%s", wrong, body)
		}
	}
}

// TestFailureThatIsOver has a failure from before an endpoint went stale: its
// latest probe succeeded, so that nothing fails.
func TestFailureThatIsOver(t *testing.T) {
	d := fake.Endpoint(fake.Kind{
		Name: "quiet", TTFT: 0.1, TPOT: 0.01, State: health.Stale, Bad: 2, Outcome: result.Empty, Error: "no token",
	})
	d.Failing, d.Why, d.ProbesSince = nil, "", 0
	s := serve(t, fake.NewBoard(d))
	p := open(t, s.URL, "/endpoint/quiet", laptop)
	p.awaitText(".problem.over h2", "Last failure, over now: empty")
	p = open(t, s.URL, "/", laptop)
	p.awaitText(".fleet .failure.past", "empty: no token")
}

func TestTraceIDIsCopied(t *testing.T) {
	p := openEndpoint(t, fake.Fleet()[0])
	p.openFirstProbe()
	p.do(chromedp.Click(chromedp.CSS(".copyable button")))
	p.awaitText(".copyable button", "Copied")
}

func TestEndpointThatIsNotThere(t *testing.T) {
	s := serve(t, fake.NewBoard())
	p := openBlank(t, s.URL, laptop)
	p.tolerate() // the browser logs the 404
	p.do(chromedp.Navigate(s.URL + "/endpoint/nobody"))
	p.awaitText("main", "no endpoint with this name")
}

// tile returns the text of the tile with a label; "" is none.
func (p *tab) tile(label string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf("[...document.querySelectorAll('.tiles > div')].find(d => d.querySelector('dt').textContent === %q)?.querySelector('dd').textContent ?? ''", label))
}

// chooseTab opens the tab of a name.
func (p *tab) chooseTab(name string) {
	p.t.Helper()
	p.script(fmt.Sprintf("[...document.querySelectorAll('[role=tab]')].find(t => t.textContent === %q).click()", name))
	p.awaitText(".subject", name)
}

func TestTilesFollowTheTab(t *testing.T) {
	d := fake.Fleet()[0] // chat-eu
	for _, s := range d.Series {
		last := len(s.History.At) - 1
		s.History.TTFT[last], s.Window = new(0.1), &status.Window{Samples: 7, P50: new(0.2)}
		switch {
		case s.Module == "pairs":
			s.History.TTFT[last] = new(0.03)
		case s.Module == "lengths":
			for i, v := range []result.Verdict{result.VerdictLeakedIntoContent, result.VerdictValid, result.VerdictNoCall, result.VerdictLeakedIntoContent} {
				s.Probes[i].Answer = &result.Answer{Verdict: v}
			}
		case s.Module == "interactive":
			s.Probes[0].Answer, s.Probes[1].Answer, s.Probes[2].Answer = &result.Answer{Verdict: result.VerdictCorrect}, &result.Answer{Verdict: result.VerdictCorrect}, &result.Answer{Verdict: result.VerdictWrong}
			s.Probes[0].Cost = new(0.00025)
		}
	}
	p := openEndpoint(t, d)
	p.awaitText(".subject", "interactive · cold")
	for _, c := range []struct{ tab, label, want string }{
		{"interactive · cold", "TTFT", "100 ms"},
		{"interactive · cold", "p50, last hour", "200 ms7 probes"},
		{"interactive · cold", "Right answers", "67 %2 of the latest 31 wrong"},
		{"interactive · cold", "Cost of a probe", "$ 0.00025$ 0.72 a day"}, // 2,880 probes every 30 s
		{"interactive · cold", "Knee", ""},
		{"pairs · warm · 512 tokens in · 16 out", "TTFT", "30.0 ms"},
		{"pairs · warm · 512 tokens in · 16 out", "Benefit", "52.0 ms(47.0 ms to 58.0 ms): first token earlier when asked again"},
		{"pairs · warm · 512 tokens in · 16 out", "Right answers", ""},
		{"lengths · cold", "Right answers", "25 %1 of the latest 42 leaked into content1 no call"},
		{"lengths · cold", "Prefill", "8012 tokens/s(7630 to 8410)"},
		{"burst · cold", "Knee", "16 at oncemiss the objective"},
		{"burst · cold", "Prefill", ""},
	} {
		p.chooseTab(c.tab)
		if got := p.tile(c.label); got != c.want {
			t.Errorf("%s: %s shows %q, want %q", c.tab, c.label, got, c.want)
		}
	}
}

func TestCurvesOverTheRungs(t *testing.T) {
	p := openEndpoint(t, fake.Fleet()[0]) // chat-eu
	p.await("document.querySelector('.curves').hidden")
	p.chooseTab("burst · cold")
	p.awaitText(".curves h2", "By requests at once")
	p.awaitText(".curves", "Output of a burst 1: 41 tokens/s, 4: 150 tokens/s, 16: 420 tokens/s, 48: 510 tokens/s")
	if n := eval[int](p, "document.querySelectorAll('main > .curves canvas').length"); n != 2 {
		t.Errorf("%d curves of bursts, want 2", n)
	}
	p.chooseTab("lengths · cold")
	p.awaitText(".curves h2", "By prompt tokens")
	p.awaitText(".curves", "8,012 tokens/s (7,630 to 8,410), dashed")
	if got := eval[[]string](p, "[...document.querySelectorAll('.wide td button')].map(b => b.textContent)"); !slices.Equal(got, []string{"256", "1,024", "3,072"}) {
		t.Errorf("lengths %q", got)
	}
}

// A load test has no series: its curve, its target and its levels are there whatever tab is chosen.
func TestLoadTest(t *testing.T) {
	p := openEndpoint(t, fake.Fleet()[0]) // chat-eu
	p.awaitText(".loads h2", "Load test · load")
	p.awaitText(".loads p", "The target, 50 users, meets the objectives at the 99th percentile. The largest good load is 50 users (99.7 % confidence). The knee is at 100 users. The latest run, ")
	p.awaitText(".loads p", "ended: users waiting (2 requests of users wait).")
	p.awaitText(".loads", "p99 of TTFT by users at once 1: 110 ms (100 ms to –), 10: 210 ms (180 ms to 260 ms), 50: 380 ms (350 ms to 430 ms), 100: 1.31 s (1.20 s to 1.50 s)")
	p.awaitText(".loads", "Output by users at once 1: 48 tokens/s, 10: 420 tokens/s, 50: 1,510 tokens/s, 100: 1,720 tokens/s")
	if n := eval[int](p, "document.querySelectorAll('.loads canvas').length"); n != 2 {
		t.Errorf("%d curves, want 2", n)
	}
	if got := eval[string](p, "document.querySelector('.loads tbody tr:last-child').textContent"); !strings.HasPrefix(got, "100 usersmissed2,300097400 ms1.31 s20.0 ms100 %1,720") {
		t.Errorf("level of 100 users: %q", got)
	}
	if got := eval[int](p, "document.querySelectorAll('.loads th').length"); got != 11 {
		t.Errorf("%d columns, want those of what is known, 11", got)
	}
	p.picture("load-test", true)
}

// oneSeries is an endpoint with one series of this history.
func oneSeries(h *status.History) *status.Detail {
	d := onlyProbe(&result.Document{Outcome: result.Success})
	d.Series[0].History = h
	return d
}

// TestNoPointIsLost has a single slow probe and a single failure among more
// points than the chart has pixels: the caption and the drawing show both.
func TestNoPointIsLost(t *testing.T) {
	h := &status.History{}
	for i := range 20_000 {
		h.At, h.TTFT, h.TPOT, h.Outcome = append(h.At, 1.8e9+30*float64(i)), append(h.TTFT, new(0.1)), append(h.TPOT, nil), append(h.Outcome, result.Success)
	}
	h.TTFT[9_998] = new(7.0)
	h.TTFT[10_002], h.Outcome[10_002] = nil, result.Empty
	p := openEndpoint(t, oneSeries(h))
	p.awaitText(".chart:nth-of-type(1)", "100 ms to 7.00 s in 19,999 probes")
	p.awaitText(".chart:nth-of-type(3)", "1 failure among 20,000 probes")
	// TPOT was not measured, so that there are two charts. The line of the slow probe ends near the top of the chart, the bar of the failure
	// is red in the middle.
	const pixels = `((chart, color) => {
		const canvas = document.querySelectorAll('.chart canvas')[chart];
		const ctx = canvas.getContext('2d');
		const probe = document.createElement('canvas').getContext('2d');
		probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(color);
		probe.fillRect(0, 0, 1, 1);
		const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
		const { data, width, height } = ctx.getImageData(0, 0, canvas.width, canvas.height);
		let top = height;
		for (let i = 0; i < data.length; i += 4) {
			if (Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 90 && data[i + 3] > 100) top = Math.min(top, Math.floor(i / 4 / width));
		}
		return top / height;
	})`
	if top := eval[float64](p, pixels+"(0, '--ttft')"); top > 0.35 {
		t.Errorf("the slow probe is not drawn: the line begins at %.0f %% of the height", top*100)
	}
	if top := eval[float64](p, pixels+"(1, '--bad-bar')"); top > 0.5 {
		t.Errorf("the failure is not drawn: red begins at %.0f %% of the height", top*100)
	}
}

// TestTimeRange has 3 hours of probes every 30 s, one gap of 10 minutes in the
// latest hour.
func TestTimeRange(t *testing.T) {
	h := &status.History{}
	for i := range 360 {
		if i >= 300 && i < 320 {
			continue
		}
		h.At, h.TTFT, h.TPOT, h.Outcome = append(h.At, 1.8e9+30*float64(i)), append(h.TTFT, new(0.1)), append(h.TPOT, nil), append(h.Outcome, result.Success)
	}
	p := openEndpoint(t, oneSeries(h))
	if got, want := p.texts(".charts option"), []string{"last 15 min", "last 1 h", "all that is kept: 2 h 59 min"}; !slices.Equal(got, want) {
		t.Errorf("ranges %q, want %q", got, want)
	}
	p.awaitText(".chart:nth-of-type(3)", "0 failures among 340 probes, 1 gap in which no probe ran")
	choose := func(seconds string) {
		p.script("{ const s = document.querySelector('.charts select'); s.value = '" + seconds + "'; s.dispatchEvent(new Event('change')); }")
	}
	choose("900")
	p.awaitText(".chart:nth-of-type(3)", "0 failures among 31 probes")
	choose("3600")
	p.awaitText(".chart:nth-of-type(3)", "0 failures among 101 probes, 1 gap in which no probe ran")
	p.script(`{
		const over = document.querySelector('.chart .u-over');
		const box = over.getBoundingClientRect();
		over.dispatchEvent(new MouseEvent('mousemove', {clientX: box.left + box.width * 0.58, clientY: box.top + 20, bubbles: true}));
	}`)
	p.awaitText(".charts .readout", "no probe ran") // the gap is from 30 to 20 minutes before the end
}

func TestBudgetAndUptime(t *testing.T) {
	d := fake.Fleet()[0]
	d.Series[0].BudgetLeft, d.Series[0].Uptime = new(0.62), &series.Uptime{From: 1.7e9, Hour: new(1.0), Day: new(0.9986), Week: new(0.99951)}
	p := openEndpoint(t, d)
	if got, want := p.tile("Error budget left"), "62 %of 30 days"; got != want {
		t.Errorf("budget %q, want %q", got, want)
	}
	if got, want := p.tile("Uptime"), "1 h 100 %24 h 99.86 %7 d 99.95 %"; got != want {
		t.Errorf("uptime %q, want %q", got, want)
	}
	p.chooseTab("burst · cold")
	if got := p.tile("Error budget left") + p.tile("Uptime"); got != "" {
		t.Errorf("a series without a budget shows %q", got)
	}
}

func TestFluidity(t *testing.T) {
	d := fake.Fleet()[0]
	d.Series[0].Fluidity, d.Series[0].SLO = new(0.62), &series.Objectives{Share: 0.99, TTFT: 500 * time.Millisecond, TPOT: 50 * time.Millisecond, Fluidity: 0.9}
	p := openEndpoint(t, d)
	if got, want := p.tile("Fluidity"), "▼62 %, under the threshold of 90 %of the token deadlines"; got != want {
		t.Errorf("fluidity %q, want %q", got, want)
	}
	p.chooseTab("burst · cold")
	if got := p.tile("Fluidity"); got != "" {
		t.Errorf("a series without the objective shows %q", got)
	}
}

// The speed of the text is shown with the load that it is at, and the announced end of a model in the head and in the fleet.
func TestSpeedAndRetirement(t *testing.T) {
	d := onlyProbe(&result.Document{Outcome: result.Success, TraceID: "ab", Speed: new(50.0), TextRate: new(212.4)})
	d.Servers = &status.Load{Known: 1, Up: 1, Running: new(7.0), Waiting: new(0.0)}
	end := time.Now().Add(5*24*time.Hour - time.Hour)
	d.RetiresAt = end.Unix()
	p := openEndpoint(t, d)
	if got := p.tile("TPOT"); !strings.HasSuffix(got, "212 characters/s at 1 request at a time, 7 running") {
		t.Errorf("TPOT: %q", got)
	}
	said := "Is retired on " + end.UTC().Format(time.DateOnly) + ", in 5 days"
	p.awaitText(".headline", said)
	open(t, serve(t, fake.NewBoard(d)).URL, "/", laptop).awaitText(".fleet", said)
}

func TestStepsAreMarked(t *testing.T) {
	d := fake.Fleet()[0]
	at := d.Series[0].History.At[120]
	d.Series[0].Steps = []explain.Step{
		{At: at, Metric: "ttft", Before: 0.1, After: 0.18, Lower: new(1.7), Upper: new(1.9), Beside: []string{"model changed from a to <b>"}},
		{At: at, Metric: "failures", Before: 0.01, After: 0.3},
	}
	p := openEndpoint(t, d)
	p.await("document.querySelector('.steps li')")
	steps := p.texts(".steps > li")
	if len(steps) != 2 || !strings.Contains(steps[0], "TTFT rose from 100 ms to 180 ms, × 1.8 (1.7 to 1.9, 95 % confidence)model changed from a to <b>") ||
		!strings.Contains(steps[1], "Failures rose from 1.0 % to 30 %, × 30") {
		t.Errorf("steps %q", steps)
	}
	// A line over the whole height of the TTFT chart, in the middle of its time.
	const marked = `((chart) => {
		const canvas = document.querySelectorAll('.chart canvas')[chart];
		const { data, width, height } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
		const probe = document.createElement('canvas').getContext('2d');
		probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--mark');
		probe.fillRect(0, 0, 1, 1);
		const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
		let most = 0;
		for (let x = 0; x < width; x++) {
			let n = 0;
			for (let y = 0; y < height; y++) {
				const i = 4 * (y * width + x);
				if (Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 60 && data[i + 3] > 100) n++;
			}
			most = Math.max(most, n);
		}
		return most / height;
	})`
	for chart, want := range []bool{true, false, true} {
		if share := eval[float64](p, fmt.Sprintf("%s(%d)", marked, chart)); share > 0.5 != want {
			t.Errorf("chart %d: the mark takes %.0f %% of the height, want one: %t", chart, share*100, want)
		}
	}
}

// TestWideTablesSayThatTheyScroll looks at a table that is wider than a phone.
func TestWideTablesSayThatTheyScroll(t *testing.T) {
	s := serve(t, fake.NewBoard(fake.Fleet()[0]))
	p := open(t, s.URL, "/endpoint/chat-eu", phone)
	const hint = "document.querySelector('section .scroller .hint')"
	p.await(hint + " && !" + hint + ".hidden")
	p.script("{ const s = document.querySelector('section .scroller .scroll'); s.scrollLeft = s.scrollWidth; }")
	p.await(hint + ".hidden")
	p = open(t, s.URL, "/endpoint/chat-eu", laptop)
	p.await("document.querySelector('section .scroller table')")
	if !eval[bool](p, hint+".hidden") {
		t.Error("a table that fits says that it scrolls")
	}
}

// TestBanner has the state, since when, how many, the most likely cause with its
// evidence, what to do, and the server's own words.
func TestBanner(t *testing.T) {
	d := fake.Fleet()[2] // judge
	p := openEndpoint(t, d)
	p.awaitText(".problem h2", "Down since ")
	p.awaitText(".problem h2", ": 9 of 18 probes failed")
	p.awaitText(".problem .reason", d.Why)
	p.awaitText(".problem .cause h3", "Most likely: the engine hangs")
	if got, want := p.texts(".problem > .cause li"), []string{
		"9 of 18 probes failed: no first token within 10 s", "the server counts no finished request since 06:15",
		"Look at the engine's log.", "Restart the process.", "the number of finished requests grows",
	}; !slices.Equal(got, want) {
		t.Errorf("the cause says %q, want %q", got, want)
	}
	p.awaitText(".problem pre", d.Failure.Message)
	if text := p.texts(".problem details")[0]; !strings.Contains(text, "more requests than the servers take210 requests wait") {
		t.Errorf("other causes: %q", text)
	}
	if n := len(p.texts(".changes li:first-child .state.down")); n != 1 {
		t.Errorf("the incident that goes on has %d signs of its state", n)
	}
	times := p.texts(".changes time")
	if !strings.Contains(times[len(times)-1], " – ") || strings.Contains(times[0], "–") {
		t.Errorf("times %q: want those of the incident that is over with its end", times)
	}
}

func TestBannerOfASlowEndpoint(t *testing.T) {
	d := fake.Fleet()[6] // hosted
	p := openEndpoint(t, d)
	p.awaitText(".problem.slow h2", "Slow since ")
	p.awaitText(".problem.slow h2", "14 of 17 answers over the objective")
	p.awaitText(".problem.slow .reason", "TTFT 612ms, objective 500ms")
}

// An incident that pages is named with what it shares with others, and so is another model, in the fleet and in the banner.
func TestBannerOfWhatPages(t *testing.T) {
	alone, shared, changed := fake.Fleet()[1], fake.Fleet()[2], fake.Fleet()[0]
	alone.Incident, alone.Scope = health.KindTTFT, "endpoint "+alone.Name
	alone.SeenBy = "users' requests only: a workload or tenant"
	shared.Incident, shared.Scope = health.KindDown, "host gpu-3"
	changed.ModelChanged = &status.ModelChange{Since: float64(time.Now().Unix()), Source: "model", From: "llama-3.1-8b", To: "llama-3.1-70b"}
	p := open(t, serve(t, fake.NewBoard(alone, shared, changed)).URL, "/", laptop)
	p.await("document.querySelectorAll('.fleet tbody tr').length === 3")
	text := strings.Join(p.texts(".fleet td.c-state, .fleet td.c-name"), "\n")
	for _, want := range []string{"Pages as high TTFT; seen by users' requests only: a workload or tenant", "Pages as down, shared: host gpu-3", "llama-3.1-70b answers instead of llama-3.1-8b since "} {
		if !strings.Contains(text, want) || strings.Contains(text, "shared: endpoint") {
			t.Errorf("no %q in the fleet: %q", want, text)
		}
	}
	openEndpoint(t, shared).awaitText(".problem p", "Pages as down, shared: host gpu-3")
	p = openEndpoint(t, changed)
	p.awaitText(".problem h2", "Up, with another model")
	p.awaitText(".problem p", "llama-3.1-70b answers instead of llama-3.1-8b since ")
}

func TestNoBannerWhileUp(t *testing.T) {
	p := openEndpoint(t, fake.Fleet()[0])
	if n := len(p.texts(".problem:not([hidden])")); n != 0 {
		t.Errorf("%d banners of an endpoint that is up", n)
	}
}

// Percentiles of users lie between bounds, of which the last may be missing, and so do those that missed an objective.
func TestUsersTiles(t *testing.T) {
	p := open(t, serve(t, fake.NewBoard(fake.Fleet()...)).URL, "/endpoint/judge", laptop)
	p.await("document.querySelector('.tiles')")
	tiles := strings.Join(p.texts(".tiles > div"), "|")
	for _, want := range []string{
		"p50 of users, last hour≤ 500 ms> 250 ms, 41,873 requests", "p99 of users, last hour> 2.50 s", "Users missedavailability 0 of 41,873TTFT 1,204 – 2,310 of 41,873",
	} {
		if !strings.Contains(tiles, want) {
			t.Errorf("tiles %q, want %q among them", tiles, want)
		}
	}
}

// Under its servers an endpoint says which of them were not started alike.
func TestServersThatDiffer(t *testing.T) {
	d := onlyProbe(&result.Document{Outcome: result.Success})
	d.Pages = []*status.Server{{Server: "a:8000", State: page.Up, At: 1.8e9}, {Server: "b:8000", State: page.Up, At: 1.8e9}}
	d.Facts = facts(&page.Compared{Findings: []page.Difference{{Setting: "precision", Since: 1.8e9, Values: map[string][]string{"bfloat16": {"a:8000"}, "float16": {"b:8000"}}}}})
	p := openEndpoint(t, d)
	p.await("document.querySelector('section p b')")
	got := strings.Join(p.texts("section > p"), " ")
	if want := "Not started alike: precision is bfloat16 on a:8000; float16 on b:8000, since 01-15 08:00:00 UTC."; !strings.Contains(got, want) {
		t.Errorf("the page says %q, want %q in it", got, want)
	}
}
