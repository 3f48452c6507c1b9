package browse

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/tools/lab/browse/fake"
)

// advanceable lets a test move the page's clock.
const advanceable = `(() => {
  const real = performance.now.bind(performance);
  let extra = 0;
  performance.now = () => real() + extra;
  window.advance = (seconds) => { extra += seconds * 1000; };
})()`

func openLive(t *testing.T, path string) (*tab, *fake.Board, *fake.Server) {
	t.Helper()
	b := fake.NewBoard(fake.Fleet()...)
	s := serve(t, b)
	p := open(t, s.URL, path, laptop, advanceable)
	p.awaitText("#link", "Live")
	return p, b, s
}

// broken is the healthy endpoint chat-eu after some failures.
func broken() *status.Detail {
	return fake.Endpoint(fake.Kind{
		Name: "chat-eu", Model: "Qwen/Qwen3-32B", Engine: "vllm", TTFT: 0.085, TPOT: 0.0123, State: health.Down, Bad: 4,
		Outcome: result.ConnectError, Error: "connection refused",
	})
}

func TestFleetChangesWithoutReload(t *testing.T) {
	p, b, _ := openLive(t, "/")
	p.script("window.untouched = true")

	b.Set(broken())
	p.await("document.title === '2 down – inference_exporter'")
	p.wantNames("chat-eu", "judge", "code/70b", "hosted", "rag-staging", "vision-lab", "chat-us")
	p.awaitText(".fleet tbody tr .failure", "connection refused (interactive)")

	b.Remove("judge")
	p.await("document.title === '1 down – inference_exporter'")
	p.wantNames("chat-eu", "code/70b", "hosted", "rag-staging", "vision-lab", "chat-us")

	b.Reset(fake.Endpoint(fake.Kind{Name: "new", TTFT: 0.1, TPOT: 0.01, State: health.Up}))
	p.await("document.querySelectorAll('" + names + "').length === 1")
	p.wantNames("new")
	if !eval[bool](p, "window.untouched === true") {
		t.Error("the page was loaded again")
	}
}

// TestRowsStayUnderTheHand has a link in focus while the state of its row
// changes: the link must stay, and the order change afterwards.
func TestRowsStayUnderTheHand(t *testing.T) {
	p, b, _ := openLive(t, "/")
	p.script("[...document.querySelectorAll('" + names + "')].find(a => a.textContent === 'chat-eu').focus()")
	b.Set(broken())
	p.await("document.title === '2 down – inference_exporter'")
	p.wantNames("judge", "code/70b", "hosted", "rag-staging", "vision-lab", "chat-eu", "chat-us")
	if got := eval[string](p, "document.activeElement.textContent"); got != "chat-eu" {
		t.Errorf("the focus went to %q", got)
	}
	p.script("document.activeElement.blur()")
	p.await("document.querySelector('" + names + "').textContent === 'chat-eu'")
}

func TestEndpointChangesWithoutReload(t *testing.T) {
	p, b, _ := openLive(t, "/endpoint/chat-eu")
	b.Set(broken())
	p.await("document.title.startsWith('Down: chat-eu')")
	p.awaitText(".problem", "connection refused")
	p.awaitText(".problem", "What to do")
	p.tolerate() // what is gone is not found
	b.Remove("chat-eu")
	p.awaitText(".problem", "no longer exists")
}

func TestOpenProbeStaysOpen(t *testing.T) {
	p, b, _ := openLive(t, "/endpoint/chat-eu")
	p.script("document.querySelectorAll('.probes summary')[3].click()")
	p.await("document.querySelector('.probes .inside')")
	d, _ := b.Detail("chat-eu")
	changed := *d
	changed.Model = "another-model"
	b.Set(&changed)
	p.awaitText(".about", "another-model")
	if n := eval[int](p, "document.querySelectorAll('.probes details[open] .inside').length"); n != 1 {
		t.Errorf("%d probes are open, want 1", n)
	}
}

func TestStaleBanner(t *testing.T) {
	for _, path := range []string{"/", "/endpoint/judge", "/gpus"} {
		t.Run(path, func(t *testing.T) {
			p, _, s := openLive(t, path)
			p.tolerate()
			s.Break()
			p.awaitText("#link", "Reconnecting since")
			if eval[bool](p, "!document.getElementById('stale').hidden") {
				t.Error("the banner is there at once")
			}
			p.script("advance(16)")
			p.await("!document.getElementById('stale').hidden")
			p.awaitText("#stale", "This page is stale")
			p.picture("stale-"+strings.Trim(strings.ReplaceAll(path, "/", "-"), "-"), false)

			s.Down.Store(false)
			p.await("document.getElementById('stale').hidden")
			p.awaitText("#link", "Live")
		})
	}
}

// TestSilentStream has a stream that says nothing, as after a network that
// drops packets: the page opens another one.
// TestAddressWithPassword opens pages as a bookmark does that has the name and
// the password of the listener in it.
func TestAddressWithPassword(t *testing.T) {
	s := serve(t, fake.NewBoard(fake.Fleet()...))
	for path, ready := range pages {
		p := open(t, strings.Replace(s.URL, "http://", "http://user:secret@", 1), path, laptop)
		p.await("document.querySelector('" + ready + "')")
	}
}

func TestSilentStream(t *testing.T) {
	p, b, _ := openLive(t, "/")
	p.script("advance(11)") // longer than the server is silent
	b.Set(broken())
	p.await("document.title === '2 down – inference_exporter'")
	p.awaitText("#link", "Live")
}

func TestPausesWhileHidden(t *testing.T) {
	p, b, _ := openLive(t, "/")
	hide := func(hidden bool) {
		p.script(fmt.Sprintf("Object.defineProperty(document, 'hidden', {configurable: true, get: () => %t}); document.dispatchEvent(new Event('visibilitychange'))", hidden))
	}
	hide(true)
	p.awaitText("#link", "Paused")
	b.Set(broken())
	p.script("advance(100)")
	if got := run(p, chromedp.Title()); got != "1 down – inference_exporter" {
		t.Errorf("a hidden page has the title %q", got)
	}
	hide(false)
	p.await("document.title === '2 down – inference_exporter'")
	if eval[bool](p, "!document.getElementById('stale').hidden") {
		t.Error("the page is called stale after a pause")
	}
}
