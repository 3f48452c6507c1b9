package browse

import (
	"slices"
	"testing"

	"github.com/inference-exporter/inference_exporter/tools/lab/browse/fake"
)

// The page of the fleet lists the gateways, those with trouble first, and the endpoints
// behind each; without any it shows nothing of them.
func TestGatewaysOfTheFleet(t *testing.T) {
	s := serveWith(t, func(c *fake.Content) { c.Gateways = fake.Gateways() }, fake.Fleet()...)
	p := open(t, s.URL, "/", laptop)
	p.await("document.querySelector('.gateways tbody tr')")
	want := []string{
		"epp|Not readableno page can be read; epp:9090: connect: dial tcp 10.4.0.9:9090: connect: connection refused|–|–|code/70b",
		"routerlitellm|Degraded2 of 3 backends ready|2 of 3|12|chat-us, judge",
	}
	rows := eval[[]string](p, "[...document.querySelectorAll('.gateways tbody tr')].map(r => [...r.cells].map(c => c.textContent).join('|'))")
	if !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
	p.script("document.querySelector('.gateways a').click()")
	p.awaitText("h1", "code/70b")

	p = open(t, serve(t, fake.NewBoard(fake.Fleet()...)).URL, "/", laptop)
	p.await("document.querySelector('.fleet tbody tr')")
	if eval[bool](p, "document.querySelector('.gateways').hasChildNodes()") {
		t.Error("without gateways there is a list of them")
	}
}

// The page of an endpoint shows its gateway: the state, its numbers, and the backends,
// those with trouble first; without one it shows nothing of it.
func TestGatewayOfAnEndpoint(t *testing.T) {
	d := fake.Fleet()[1]
	d.Gateway = fake.Gateways()[1]
	p := openEndpoint(t, d)
	p.await("document.querySelector('#gateway tbody tr')")
	p.awaitText("#gateway h2", "Gateway router Degradedlitellm")
	p.awaitText(".headline a[href='#gateway']", "gateway router")
	tiles := []string{
		"Ready backends2 of 3", "Queue12 waiting1.32 s in the queue, mean", "Running31", "Queues of backends5 waitingas it last read", "Saturation120 %", "Metrics not read4",
		"Requests1,204last 285 s41 failed", "Rejected0last 285 s", "Routing decisions1,251last 285 s2.10 ms each, mean", "Cooldowns1last 285 s", "Retries6last 285 s",
		"Fallbacks9last 285 s2 failed", "Quota left480 requests, 125,000 tokens", "Prompt tokens812,000last 285 s96,000 of answers", "Cached prompt tokens62 %as reported",
		"Prefix hits41 %as the gateway expects", "TTFT710 msmean, last 285 sTPOT 21.0 ms", "Overhead17.0 msmean, last 285 s",
	}
	if got := p.texts("#gateway .tiles > div"); !slices.Equal(got, tiles) {
		t.Errorf("tiles %q, want %q", got, tiles)
	}
	want := []string{
		"Backend|Ready|Running|Requests|Failed|Decisions|Waiting|TTFT|Uptime|Median TTFT|Median tokens/s",
		"llama-70b-2|Not ready|–|3|3|3|–|–|–|–|–", "llama-70b-1|Ready|19|610|38|640|4|930 ms|–|–|–", "llama-70b-0|Ready|12|591|0|608|1|490 ms|99.50 %|420 ms|58",
	}
	rows := eval[[]string](p, "[...document.querySelectorAll('#gateway tr')].map(r => [...r.cells].map(c => c.textContent).join('|'))")
	if !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}

	d = fake.Fleet()[3]
	d.Gateway = fake.Gateways()[0]
	p = openEndpoint(t, d)
	p.awaitText("#gateway", "Gateway epp Not readableno page can be read; epp:9090: connect: dial tcp 10.4.0.9:9090: connect: connection refused")

	p = openEndpoint(t, fake.Fleet()[1])
	if !eval[bool](p, "document.querySelector('#gateway').hidden") {
		t.Error("an endpoint without a gateway shows one")
	}
}
