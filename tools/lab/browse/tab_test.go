// Package browse tests the status page in a real browser.
package browse

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/inference-exporter/inference_exporter/tools/lab/browse/fake"
)

// patience is how long a condition may take to come true, several probes of the demo
// on a slow machine among them: an endpoint is slow by three of its answers, which
// the demo has in half a minute.
const patience = 2 * time.Minute

// browser is the one that all tests share; each test has its own storage in it.
var browser context.Context

func TestMain(m *testing.M) {
	os.Exit(withBrowser(m.Run))
}

func withBrowser(run func() int) int {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("force-color-profile", "srgb"))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	var close context.CancelFunc
	browser, close = chromedp.NewContext(allocator)
	defer close()
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "start chromium:", err)
		return 1
	}
	return run()
}

// tab is one page of the browser. Whatever a page complains about, and any
// request to another host, fails the test.
type tab struct {
	t    *testing.T
	ctx  context.Context
	host string

	mu       sync.Mutex
	trouble  []string
	tolerant bool // requests may fail
}

// view is the screen that a page is looked at with.
type view struct {
	width, height int64
	dark          bool
}

var (
	laptop = view{width: 1440, height: 900}
	phone  = view{width: 360, height: 780}
)

// open opens a page of a server.
func open(t *testing.T, server, path string, v view, scripts ...string) *tab {
	t.Helper()
	p := openBlank(t, server, v, scripts...)
	p.do(chromedp.Navigate(server + path))
	return p
}

// openBlank opens an empty tab for the pages of a server.
func openBlank(t *testing.T, server string, v view, scripts ...string) *tab {
	t.Helper()
	address, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	p := &tab{t: t, host: address.Host}
	ctx, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.listen))
	p.ctx = ctx
	t.Cleanup(func() {
		end()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, trouble := range p.trouble {
			t.Error("the page complains: " + trouble)
		}
	})
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	p.do(
		send(log.Enable, cdp.Empty{}), send(audits.Enable, cdp.Empty{}), send(network.Enable, network.EnableParams{}),
		send(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: v.width, Height: v.height, DeviceScaleFactor: 1, Mobile: v.width < 500,
		}),
		send(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"}),
		send(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}),
		send(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		}),
	)
	for _, script := range scripts {
		p.do(send(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script}))
	}
	return p
}

// send is the step that sends one command of the browser's protocol.
func send[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func (p *tab) listen(event any) {
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			text, _ := json.Marshal(e.Args)
			p.complain(string(text))
		}
	case *runtime.EventExceptionThrown:
		text, _ := json.Marshal(e.ExceptionDetails)
		p.complain(string(text))
	case *log.EventEntryAdded:
		if e.Entry.Source == log.EntrySourceNetwork && p.tolerates() {
			return
		}
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.complain(e.Entry.Text + " " + e.Entry.URL)
		}
	case *audits.EventIssueAdded:
		if e.Issue.Code == audits.InspectorIssueCodeContentSecurityPolicyIssue {
			p.complain("a violation of the content security policy")
		}
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err != nil || u.Host != p.host && u.Scheme != "data" {
			p.complain("a request to another host: " + e.Request.URL)
		}
	}
}

func (p *tab) complain(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = append(p.trouble, text)
}

// tolerate lets requests fail from now on: the server will be away.
func (p *tab) tolerate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tolerant = true
}

func (p *tab) tolerates() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tolerant
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	run(p, chromedp.Steps(steps...))
}

// run returns the result of a step.
func run[T any](p *tab, step chromedp.Action[T]) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, step)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

// eval returns the value of an expression of JavaScript.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	return run(p, chromedp.Evaluate[T](expression))
}

// script runs JavaScript for what it does.
func (p *tab) script(text string) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](text))
}

// await waits until an expression is true.
func (p *tab) await(expression string) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && ok {
			return
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			text := eval[string](p, "document.body.innerText.slice(0, 1500)")
			p.t.Fatalf("did not come true: %s (%v)\nthe page shows:\n%s", expression, err, text)
		}
	}
}

// awaitText waits until the text of what a selector finds contains some.
func (p *tab) awaitText(selector, text string) {
	p.t.Helper()
	p.await(fmt.Sprintf("document.querySelector(%q)?.textContent.includes(%q)", selector, text))
}

// texts returns the texts of all that a selector finds.
func (p *tab) texts(selector string) []string {
	p.t.Helper()
	return eval[[]string](p, fmt.Sprintf("[...document.querySelectorAll(%q)].map(e => e.textContent)", selector))
}

// picture saves a screenshot where the environment names a folder for it.
func (p *tab) picture(name string, whole bool) {
	p.t.Helper()
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		return
	}
	take := chromedp.CaptureScreenshot()
	if whole {
		take = chromedp.FullScreenshot(100)
	}
	png := run(p, take)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// serve starts a fake server.
func serve(t *testing.T, b *fake.Board) *fake.Server {
	t.Helper()
	s, err := fake.Serve(b, fake.OtherPages())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// words makes one line of a text.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }
