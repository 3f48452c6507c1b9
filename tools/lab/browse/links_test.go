package browse

import (
	"context"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/web"
	"github.com/inference-exporter/inference_exporter/tools/lab/browse/fake"
)

// serveWith starts a fake server that shows some endpoints and other content.
func serveWith(t *testing.T, change func(*fake.Content), details ...*status.Detail) *fake.Server {
	t.Helper()
	content := fake.OtherPages()
	change(&content)
	s, err := fake.Serve(fake.NewBoard(details...), content)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (p *tab) hrefs(selector string) []string {
	p.t.Helper()
	return eval[[]string](p, "[...document.querySelectorAll('"+selector+"')].map(a => a.getAttribute('href'))")
}

func TestLinksToOtherSystems(t *testing.T) {
	slow := fake.Fleet()[6] // hosted
	slow.Name, slow.TTFT, slow.Since = `a "b"`, new(0.9), 1.7e9
	s := serveWith(t, func(c *fake.Content) {
		c.Links = web.Links{
			Runbooks: "https://runbooks.example/r", Grafana: "https://grafana.example", Prometheus: "https://prometheus.example/p/",
			Trace: "https://traces.example/trace/{trace_id}",
		}
	}, slow)
	p := open(t, s.URL, "/endpoint/"+url.PathEscape(slow.Name), laptop)
	p.await("document.querySelector('.probes summary')")
	links := p.hrefs(".about a")
	if len(links) != 2 {
		t.Fatalf("links %q, want Grafana and Prometheus", links)
	}
	grafana, err := url.Parse(links[0])
	if err != nil {
		t.Fatal(err)
	}
	q := grafana.Query()
	// The state began at 1.7e9 s, and the board begins an hour before.
	if grafana.Host != "grafana.example" || grafana.Path != "/d/ie-endpoint" || q.Get("var-endpoint") != slow.Name || q.Get("from") != "1699996400000" || q.Get("to") != "now" {
		t.Errorf("Grafana: %s", links[0])
	}
	prometheus, err := url.Parse(links[1])
	if err != nil {
		t.Fatal(err)
	}
	q = prometheus.Query()
	if prometheus.Host != "prometheus.example" || prometheus.Path != "/p/graph" || q.Get("g0.expr") != `inference_probe_last_ttft_seconds{endpoint="a \"b\""}` {
		t.Errorf("Prometheus: %s", links[1])
	}
	// The runbook is that of the most likely cause, as soon as that is known.
	p.awaitText(".problem .away", "Runbook: InferenceServerHung")
	if got := p.hrefs(".problem .away a"); !slices.Equal(got, []string{"https://runbooks.example/r/InferenceServerHung.md", "#changes"}) {
		t.Errorf("links of the banner: %q", got)
	}
	p.openFirstProbe()
	if got := p.hrefs(".facts a"); !slices.Equal(got, []string{"https://traces.example/trace/" + slow.Series[0].Probes[0].TraceID}) {
		t.Errorf("trace: %q", got)
	}
	for _, rel := range eval[[]string](p, "[...document.querySelectorAll('a[target=_blank]')].map(a => a.rel)") {
		if rel != "noreferrer" {
			t.Errorf("a link to another site has rel %q", rel)
		}
	}
}

func TestRunbooksOfTheFleet(t *testing.T) {
	s := serveWith(t, func(c *fake.Content) { c.Links.Runbooks = "https://runbooks.example/" }, fake.Fleet()...)
	p := open(t, s.URL, "/", laptop)
	p.await("document.querySelector('.fleet tbody tr')")
	want := []string{"InferenceEndpointDown", "InferenceEndpointFailing", "InferenceTTFTHigh"} // judge, code/70b, hosted
	for i := range want {
		want[i] = "https://runbooks.example/" + want[i] + ".md"
	}
	if got := p.hrefs("td.c-error a"); !slices.Equal(got, want) {
		t.Errorf("runbooks %q, want %q", got, want)
	}
}

func TestNoLinksWithoutAddresses(t *testing.T) {
	s := serveWith(t, func(*fake.Content) {}, fake.Fleet()[2])
	p := open(t, s.URL, "/endpoint/judge", laptop)
	p.await("document.querySelector('.probes summary')")
	p.openFirstProbe()
	if got := p.hrefs("main a"); !slices.Equal(got, []string{"#changes"}) {
		t.Errorf("links %q without addresses", got)
	}
}

// once answers probes on request.
type once struct {
	asked chan fleet.ProbeRequest
	err   error
}

func (o *once) Probe(_ context.Context, r fleet.ProbeRequest) (*fleet.ProbeAnswer, error) {
	o.asked <- r
	if o.err != nil {
		return nil, o.err
	}
	return &fleet.ProbeAnswer{Metrics: fake.NoMetrics{}, Report: func(w io.Writer) error {
		_, err := io.WriteString(w, "success <b>TTFT</b> 85 ms\n")
		return err
	}}, nil
}

func TestProbeNow(t *testing.T) {
	prober := &once{asked: make(chan fleet.ProbeRequest, 1)}
	s := serveWith(t, func(c *fake.Content) { c.Probe = prober.Probe }, fake.Fleet()[3])
	p := open(t, s.URL, "/endpoint/code%2F70b", laptop)
	p.await("document.querySelector('.probes summary')")
	p.chooseTab("pairs · warm · 512 tokens in · 16 out")
	p.awaitText(".buttons button", "Probe now: pairs")
	p.script("document.querySelector('.buttons button').click()")
	p.awaitText(".answer pre", "success <b>TTFT</b> 85 ms")
	if text := p.texts(".answer pre")[0]; strings.Contains(text, "Metrics") {
		t.Errorf("the answer has the metrics: %q", text)
	}
	if r := <-prober.asked; r.Target != "code/70b" || r.Module != "pairs" {
		t.Errorf("probed %+v", r)
	}
	prober.err = &fleet.Refusal{Busy: true, Reason: "the budget has no room for a probe"}
	p.tolerate() // a status that is not 200
	p.script("document.querySelector('.buttons button').click()")
	p.awaitText(".answer", "the budget has no room for a probe")
}

// mutes mutes one endpoint of a board.
type mutes struct {
	board *fake.Board
	asked chan string
}

func (m *mutes) Mute(endpoint string, d time.Duration, reason string) error {
	m.asked <- endpoint + " for " + d.String() + ": " + reason
	if reason == "no" {
		return health.ErrNoEndpoint
	}
	page, _ := m.board.Detail(endpoint)
	page.State, page.Muted = health.Muted, &status.Muted{Until: 4e9, Reason: reason, State: health.Degraded}
	m.board.Set(page)
	return nil
}

func (m *mutes) Unmute(endpoint string) error {
	m.asked <- endpoint + " again"
	page, _ := m.board.Detail(endpoint)
	page.State, page.Muted = health.Degraded, nil
	m.board.Set(page)
	return nil
}

func TestMute(t *testing.T) {
	b := fake.NewBoard(fake.Fleet()[3])
	m := &mutes{board: b, asked: make(chan string, 1)}
	content := fake.OtherPages()
	content.Muter = m
	s, err := fake.Serve(b, content)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	p := open(t, s.URL, "/endpoint/code%2F70b", laptop)
	p.awaitText("#link", "Live")
	p.script("document.querySelector('.mute summary').click()")
	press := func(reason string) {
		p.script("document.querySelector('.mute select').value = '240'; document.querySelector('.mute input').value = '" + reason + "'; document.querySelector('.mute button').click()")
	}
	press(" ")
	p.awaitText(".answer", "A mute needs a reason.")
	press("new <b>driver</b>")
	if got, want := <-m.asked, "code/70b for 4h0m0s: new <b>driver</b>"; got != want {
		t.Errorf("muted %q, want %q", got, want)
	}
	p.awaitText(".problem.muted h2", "Muted since")
	p.awaitText(".problem.muted", "the state is Degraded: new <b>driver</b>")
	p.awaitText(".buttons button", "End the mute")
	p.script("document.querySelector('.buttons button').click()")
	if got, want := <-m.asked, "code/70b again"; got != want {
		t.Errorf("asked %q, want %q", got, want)
	}
	p.await("document.querySelector('.mute summary')")
	p.tolerate() // a status that is not 200
	press("no")
	<-m.asked
	p.awaitText(".answer", health.ErrNoEndpoint.Error())
}

func TestProbeNowIsHiddenWhereNobodyMay(t *testing.T) {
	s := serveWith(t, func(*fake.Content) {}, fake.Fleet()[0])
	p := open(t, s.URL, "/endpoint/chat-eu", laptop)
	p.await("document.querySelector('.probes summary')")
	if n := len(p.texts(".actions button")); n != 0 {
		t.Errorf("%d buttons for what is not allowed", n)
	}
}
