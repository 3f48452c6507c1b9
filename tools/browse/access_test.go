package browse

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	"github.com/inference-exporter/inference_exporter/tools/browse/fake"
)

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
