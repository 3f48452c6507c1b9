package browse

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/tools/lab/process"
)

var metricsAddress = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/metrics`)

// startDemo builds the program, runs its demo and returns the address of the
// pages.
func startDemo(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "inference_exporter")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".")
	build.Dir = filepath.Join("..", "..", "..")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, text)
	}
	demo, err := process.Start(context.WithoutCancel(t.Context()), process.Options{Dir: t.TempDir()}, program, "demo", "--web.listen-address=127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(demo.Stop)
	address, err := demo.Find(t.Context(), metricsAddress)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// settled waits until the demo has a history to look at, where pictures are taken.
func (p *tab) settled() {
	p.t.Helper()
	if os.Getenv("SCREENSHOTS") == "" {
		return
	}
	const full = "[...document.querySelectorAll('tr')].find(r => r.querySelector('a.name')?.textContent === 'healthy').querySelector('.strip').getAttribute('aria-label').includes('of 30 ')"
	for range 60 {
		if eval[bool](p, full) {
			return
		}
		time.Sleep(5 * time.Second)
	}
	p.t.Fatal("the demo does not probe on")
}

// failingLink leads to the endpoint whose server fails some requests and not others.
const failingLink = "document.querySelector('tr:is([data-state=down], [data-state=flapping], [data-state=degraded]) a.name')"

// TestDemo looks at the pages of the real program, which probes simulated
// servers every five seconds: a healthy, a saturated and a failing one, one in
// bursts, one whose answers are not right, and one that embeds texts.
func TestDemo(t *testing.T) {
	server := startDemo(t)

	p := open(t, server, "/", laptop)
	p.await("document.querySelectorAll('.fleet tbody tr').length === 6")
	p.await(failingLink)
	const row = "[...document.querySelectorAll('tr[data-state=up]')].find(r => r.querySelector('a.name').textContent === 'healthy')"
	p.await(row + "?.querySelector('.strip .good')")
	p.await(row + "?.querySelector('td.c-ttft').textContent.includes(' ms')")
	p.await(row + "?.querySelector('td.c-queue').textContent.includes('running')")
	p.awaitText("#link", "Live")
	p.settled()
	p.picture("demo-fleet", false)

	failing := eval[string](p, "new URL("+failingLink+".href).pathname")
	healthy := eval[string](p, "new URL("+row+".querySelector('a.name').href).pathname")

	p = open(t, server, healthy, laptop)
	p.await("document.querySelector('.probes summary')")
	p.openFirstProbe()
	p.await("document.querySelector('.waterfall .bar.decode') && document.querySelector('.tokens path.answer')")
	before := eval[string](p, "document.querySelector('.probes details').dataset.key")
	p.await("document.querySelector('.probes details').dataset.key !== " + strconv.Quote(before)) // a new probe came
	p.picture("demo-endpoint", true)

	p = open(t, server, failing, laptop)
	p.await("document.querySelector('.problem:not([hidden])')")
	p.picture("demo-endpoint-failing", true)

	p = open(t, server, "/endpoint/saturated", laptop)
	p.await("document.querySelector('.probes summary')")
	p.picture("demo-saturated", true)
	p = open(t, server, "/endpoint/saturated", view{width: 1440, height: 1100}) // as in docs/images
	p.awaitText(".problem", "Most likely")
	p.picture("status-endpoint", false)
	p = open(t, server, "/", view{width: 1440, height: 560})
	p.await("document.querySelector('.strip')")
	p.picture("status", false)

	p = open(t, server, "/endpoint/crowded", laptop)
	p.await("document.querySelector('.probes summary')")
	p.picture("demo-burst", true)

	p = open(t, server, "/endpoint/healthy", laptop)
	p.await("document.querySelector('.probes summary')")
	p.chooseTab("lengths · cold")
	p.picture("demo-lengths", true)

	p = open(t, server, "/", phone)
	p.await("document.querySelector('.strip')")
	p.picture("demo-phone", true)

	p = open(t, server, "/gpus", laptop)
	p.await("document.querySelectorAll('.gpu').length === 2")
	p.awaitText("main", "Simulated")
	p.picture("demo-gpus", true)

	p = open(t, server, "/self", laptop)
	p.await("document.querySelectorAll('tbody tr').length > 10")
	p.awaitText(".info", "Endpoints6")
	p.picture("demo-self", true)

	p = open(t, server, "/config", laptop)
	p.awaitText("pre", "endpoints:")
}
