package browse

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/inference-exporter/inference_exporter/internal/web"
	"github.com/inference-exporter/inference_exporter/tools/lab/browse/fake"
)

// The page of a recording opens from a file, asks for nothing, and fits a phone.
func TestIncidentPage(t *testing.T) {
	const said = `no token for 10 s </script><script>document.title="run"</script><img src=http://elsewhere/x.png onerror="document.title='run'">`
	name := filepath.Join(t.TempDir(), "incident.html")
	file, err := os.Create(name)
	if err == nil {
		err = web.WriteIncident(file, fake.Incident(said))
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []view{{1300, 900, false}, {1300, 900, true}, {390, 844, false}, {390, 844, true}} {
		p := openBlank(t, "file://", v)
		p.script("navigator.serviceWorker") // the tab is there
		p.do(chromedp.Navigate("file://" + name))
		p.await("document.querySelectorAll('.waterfall').length === 2 && document.querySelectorAll('.tokens').length === 2")
		p.awaitText("h1", "llama-prod: down")
		p.awaitText(".shown", said)
		p.awaitText("#probes .waterfall", "failed")
		if title := eval[string](p, "document.title"); title != "Incident of llama-prod, down since 2026-11-26 03:04:05 UTC" {
			t.Errorf("the title is %q: a text of a server was run", title)
		}
		if wide := eval[int](p, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
			t.Errorf("%d px: %d px wider than the screen", v.width, wide)
		}
		p.picture(fmt.Sprintf("incident-%d-%v", v.width, map[bool]string{true: "dark", false: "light"}[v.dark]), true)
	}
}
