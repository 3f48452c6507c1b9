package browse

import (
	"testing"

	"github.com/inference-exporter/inference_exporter/tools/browse/fake"
)

// TestPictures opens every page on every screen: none may scroll sideways or
// complain. SCREENSHOTS names a folder for the pictures.
func TestPictures(t *testing.T) {
	s := serve(t, fake.NewBoard(fake.Fleet()...))
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
			p.picture(c.name, true)
		})
	}
}
