package prober

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// listen serves raw connections until the test ends.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	over, end := context.WithCancel(context.Background())
	t.Cleanup(func() {
		l.Close()
		end()
		conns.Wait()
	})
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer context.AfterFunc(over, func() { c.Close() })()
				defer c.Close()
				serve(c)
			})
		}
	})
	return "http://" + l.Addr().String()
}

// untilClosed writes text again and again until the peer has closed.
func untilClosed(c net.Conn, text string) {
	go silent(c)
	for _, err := io.WriteString(c, text); err == nil; _, err = io.WriteString(c, text) {
		time.Sleep(time.Millisecond)
	}
}

// endless answers with a status line and header, and then with a body that never
// ends. The path says which status.
func endless(c net.Conn) {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	var code int
	_, _ = fmt.Sscanf(req.URL.Path, "/%d/", &code)
	head := fmt.Sprintf("HTTP/1.1 %d X\r\n", code)
	if code == http.StatusSwitchingProtocols {
		head += "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	}
	_, _ = io.WriteString(c, head+"Content-Type: text/event-stream\r\n\r\n")
	if code/100 == 1 && code != http.StatusSwitchingProtocols {
		untilClosed(c, head+"\r\n") // a flood of them
		return
	}
	untilClosed(c, ": x\n\n")
}

func newHurriedModule(limit time.Duration) *config.Module {
	m, d := newModule(), model.Duration(limit)
	m.Timeout, m.Timeouts = d, config.Timeouts{Connect: d, Headers: d, FirstToken: d, Stall: d}
	return m
}

// Whatever the status of a reply, probes, questions and detection end at their
// limits, also where the body does not.
func TestEveryStatusEnds(t *testing.T) {
	t.Parallel()
	url := listen(t, endless)
	ended := make(chan struct{})
	var all sync.WaitGroup
	for code := 100; code < 600; code++ {
		m := newHurriedModule(200 * time.Millisecond)
		for _, api := range []string{"openai-chat", ""} {
			cfg := newEndpoint(t, fmt.Sprintf("%s/%d/", url, code))
			cfg.API = api
			p := newProber(t, cfg, m)
			all.Go(func() {
				if r := p.one(context.Background(), time.Time{}); r.Outcome == result.Success || r.Outcome == result.Canceled {
					t.Errorf("status %d, api %q: outcome %s", code, api, r.Outcome)
				}
			})
		}
		if code%10 != 0 && code != http.StatusSwitchingProtocols {
			continue
		}
		cfg := newEndpoint(t, fmt.Sprintf("%s/%d/", url, code))
		e := newFreshProber(t, cfg, m).endpoint
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			if _, err := e.Detect(ctx); err == nil {
				t.Errorf("status %d: detected", code)
			}
		})
	}
	go func() {
		all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute): // of what should take well under a second
		t.Fatal("some do not end")
	}
}

// A token server that hangs is a failure of the probe within its limit, too.
func TestTokenServerThatHangs(t *testing.T) {
	t.Parallel()
	tokens := listen(t, silent)
	s := chat(t, answerOne)
	cfg := newEndpoint(t, s.URL)
	cfg.HTTP.OAuth2 = &promconfig.OAuth2{ClientID: "id", ClientSecret: "secret", TokenURL: tokens}
	p := newProber(t, cfg, newHurriedModule(200*time.Millisecond))
	ended := make(chan *result.Result)
	go func() {
		for range 2 {
			ended <- p.one(context.Background(), time.Time{})
		}
	}()
	for range 2 {
		select {
		case r := <-ended:
			if r.Outcome != result.TimeoutConnect {
				t.Errorf("outcome %s: %v", r.Outcome, r.Err)
			}
		case <-time.After(time.Minute):
			t.Fatal("it does not end")
		}
	}
}

// An http:// URL at a port that speaks TLS is said to be that, whatever the
// server makes of plain HTTP.
func TestPlainRequestsAtATLSPort(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	secure := s.Listener.Addr().String()
	// proxied serves TLS as it is, and answers all else in another way.
	proxied := func(answer func(*bufio.Reader, net.Conn)) string {
		return listen(t, func(c net.Conn) {
			r := bufio.NewReader(c)
			if first, err := r.Peek(1); err != nil || first[0] != 0x16 {
				answer(r, c)
				return
			}
			up, err := net.Dial("tcp", secure)
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(up, r)
				up.Close()
			}()
			_, _ = io.Copy(c, up)
		})
	}
	for name, url := range map[string]string{
		"Go":    "http://" + secure,
		"reset": proxied(func(_ *bufio.Reader, c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }),
		"end":   proxied(func(*bufio.Reader, net.Conn) {}),
		"alert": proxied(func(_ *bufio.Reader, c net.Conn) { _, _ = c.Write([]byte("\x15\x03\x01\x00\x02\x02\x50")) }),
		"nginx": proxied(func(r *bufio.Reader, c net.Conn) {
			_, _ = http.ReadRequest(r)
			body := "<html><head><title>400 The plain HTTP request was sent to HTTPS port</title></head></html>"
			fmt.Fprintf(c, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}),
	} {
		for _, api := range []string{"openai-chat", ""} {
			cfg := newEndpoint(t, url)
			if cfg.API = api; api == "" {
				cfg.Model = ""
			}
			r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{})
			if r.Outcome != result.TLSError || !wantsTLS(r) || !strings.HasPrefix(r.Err.Error(), "the server speaks TLS at this port: use https://") {
				t.Errorf("%s, api %q: outcome %s: %v", name, api, r.Outcome, r.Err)
			}
		}
	}
	// Elsewhere the same failures are what they are.
	for name, url := range map[string]string{
		"end":        listen(t, func(net.Conn) {}),
		"bad status": listen(t, pages(func(string) (int, string) { return 400, "no" })),
	} {
		if r := newProber(t, newEndpoint(t, url), newModule()).one(t.Context(), time.Time{}); r.Outcome == result.Success || wantsTLS(r) {
			t.Errorf("%s: outcome %s: %v", name, r.Outcome, r.Err)
		}
	}
}

func wantsTLS(r *result.Result) bool {
	_, ok := errors.AsType[*result.SchemeError](r.Err)
	return ok
}

// A refusal to say what the server is makes the outcome, and its own words begin
// the reason.
func TestRefusedQuestions(t *testing.T) {
	f := func(status int, body string, want result.Outcome, begin string) {
		t.Helper()
		for _, api := range []string{"", "openai-chat"} {
			cfg := newEndpoint(t, listen(t, pages(func(string) (int, string) { return status, body })))
			cfg.API, cfg.Model = api, ""
			r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{})
			if r.Outcome != want || !strings.HasPrefix(fmt.Sprint(r.Err), begin) {
				t.Errorf("status %d, api %q: outcome %s (%v), want %s (%s...)", status, api, r.Outcome, r.Err, want, begin)
			}
		}
	}
	f(401, `{"message":"No API key found in request"}`, result.Unauthorized, "status 401: No API key found in request")
	f(403, `{"error":{"message":"tenant unknown"}}`, result.Unauthorized, "status 403: tenant unknown")
	f(400, `{"detail":"header X-Tenant is missing"}`, result.HTTPError, "status 400: header X-Tenant is missing")
	f(503, "loading", result.Overloaded, "status 503: loading")
	f(404, "no such page", result.HTTPError, "status 404: no such page") // a wrong path
	f(429, "slow down", result.RateLimited, "status 429: slow down")
}

// The cause begins the reason, so that it is read even where the text is cut.
func TestCauseComesFirst(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, api := range []string{"", "openai-chat"} {
		for _, name := range []string{"", "m"} {
			cfg := newEndpoint(t, gone.URL)
			cfg.API, cfg.Model = api, name
			r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{})
			if !strings.HasPrefix(fmt.Sprint(r.Err), "connection refused (") {
				t.Errorf("api %q, model %q: %v", api, name, r.Err)
			}
		}
	}
	// However long the text around it is.
	err := fail(result.ConnectError, "%s: %w", strings.Repeat("x", 2000), io.ErrClosedPipe)
	if text := presentable(err, nil).Error(); !strings.HasPrefix(text, "io: read/write on closed pipe (xxx") || len(text) > maxReason+10 {
		t.Errorf("%d bytes: %.60s", len(text), text)
	}
}
