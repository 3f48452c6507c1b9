package browse

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/status"
	"github.com/inference-exporter/inference_exporter/tools/browse/fake"
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
		Row: status.Row{Name: "one", URL: "http://one:8000", State: status.Up},
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
	want := []string{"interactive · cold", "pairs · warm · 512 tokens in · 16 out", "burst · cold"}
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
	p := openEndpoint(t, &status.Detail{Row: status.Row{Name: "bare", URL: "http://bare", State: status.Waiting}})
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
		Name: "quiet", TTFT: 0.1, TPOT: 0.01, State: status.Stale, Bad: 2, Outcome: result.Empty, Error: "no token",
	})
	d.Failing = nil
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
	p := open(t, serve(t, fake.NewBoard()).URL, "/endpoint/nobody", laptop)
	p.tolerate()
	p.awaitText("main", "there is no endpoint of this name")
}
