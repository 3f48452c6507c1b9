package web

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/internal/fleet"
)

// newProbeSite is a site whose only page of interest is /probe.
func newProbeSite(t *testing.T, probe func(context.Context, fleet.ProbeRequest) (*fleet.ProbeAnswer, error)) *site {
	t.Helper()
	return newSiteWith(t, func(o *Options) { o.Probe = probe })
}

// answer is the result of a probe, in the words of the test.
func answer() *fleet.ProbeAnswer {
	return &fleet.ProbeAnswer{
		Metrics: metricsFunc(func(w io.Writer, format expfmt.Format) error {
			_, err := fmt.Fprintf(w, "metrics as %s\n", format)
			return err
		}),
		Report: func(w io.Writer) error {
			_, err := io.WriteString(w, "report\n")
			return err
		},
	}
}

func TestProbeRequest(t *testing.T) {
	f := func(query string, want fleet.ProbeRequest, header ...string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) { // so that the wait for a slot takes no time
			var got fleet.ProbeRequest
			s := newProbeSite(t, func(_ context.Context, r fleet.ProbeRequest) (*fleet.ProbeAnswer, error) {
				got = r
				return answer(), nil
			})
			if resp := s.ask(http.MethodGet, "/probe?"+query, header...); resp.StatusCode != http.StatusOK {
				t.Errorf("%s: status %d: %s", query, resp.StatusCode, readAll(t, resp.Body))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", query, diff)
			}
		})
	}
	f("target=a", fleet.ProbeRequest{Target: "a"})
	f("target=http%3A%2F%2Fh%3A1%2Fv1&module=m&api=x&model=o%2Fp&debug=false",
		fleet.ProbeRequest{Target: "http://h:1/v1", Module: "m", API: "x", Model: "o/p"})
	f("target=a", fleet.ProbeRequest{Target: "a", Limit: 9500 * time.Millisecond}, scrapeTimeoutHeader, "10")
	f("target=a", fleet.ProbeRequest{Target: "a", Limit: 2 * time.Second}, scrapeTimeoutHeader, "2.500000")
	f("target=a", fleet.ProbeRequest{Target: "a", Limit: 24*time.Hour - scrapeMargin}, scrapeTimeoutHeader, "+Inf")
}

func TestProbeRefusals(t *testing.T) {
	f := func(query string, err error, status int, want string, header ...string) {
		t.Helper()
		s := newProbeSite(t, func(context.Context, fleet.ProbeRequest) (*fleet.ProbeAnswer, error) { return nil, err })
		resp := s.ask(http.MethodGet, "/probe"+query, header...)
		if body := readAll(t, resp.Body); resp.StatusCode != status || body != want+"\n" {
			t.Errorf("%s: status %d, %q, want %d, %q", query, resp.StatusCode, body, status, want)
		}
	}
	none := errors.New("probed although nobody asked for it")
	f("", none, 400, "parameter target is missing: want the name or the URL of an endpoint")
	f("?target=", none, 400, "parameter target is missing: want the name or the URL of an endpoint")
	for _, header := range []string{"x", "0", "0.5", "-1", "NaN", "-Inf", "1e999"} {
		f("?target=a", none, 400,
			fmt.Sprintf("header X-Prometheus-Scrape-Timeout-Seconds is %q: want more than 0.5 seconds", header), scrapeTimeoutHeader, header)
	}
	f("?target=a", &fleet.Refusal{Reason: "no such endpoint"}, 400, "no such endpoint")
	f("?target=a", fmt.Errorf("wrapped: %w", &fleet.Refusal{Reason: "no such endpoint"}), 400, "no such endpoint")
	f("?target=a", &fleet.Refusal{Forbidden: true, Reason: "not that host"}, 403, "not that host")
	f("?target=a", errors.New("read /secret/file: gone"), 503, "running the probe failed; see the log")

	s := newProbeSite(t, func(context.Context, fleet.ProbeRequest) (*fleet.ProbeAnswer, error) { return nil, none })
	for _, method := range []string{http.MethodPut, http.MethodHead} {
		resp := s.ask(method, "/probe?target=a")
		if resp.StatusCode != http.StatusMethodNotAllowed || s.log.Len() > 0 {
			t.Errorf("%s: status %d, log %q", method, resp.StatusCode, &s.log)
		}
	}
	if resp := s.ask(http.MethodGet, "/probe?target=a"); resp.StatusCode != 503 || !strings.Contains(s.log.String(), none.Error()) {
		t.Errorf("status %d, log %q", resp.StatusCode, &s.log)
	}
}

func TestProbeAnswer(t *testing.T) {
	s := newProbeSite(t, func(context.Context, fleet.ProbeRequest) (*fleet.ProbeAnswer, error) { return answer(), nil })
	f := func(query, accept, contentType, body string) {
		t.Helper()
		resp := s.ask(http.MethodGet, "/probe?target=a"+query, "Accept", accept)
		if got := readAll(t, resp.Body); got != body || !strings.HasPrefix(resp.Header.Get("Content-Type"), contentType) {
			t.Errorf("%s as %q: content type %q, body %q", query, accept, resp.Header.Get("Content-Type"), got)
		}
	}
	text, open := string(expfmt.NewFormat(expfmt.TypeTextPlain)), string(expfmt.FmtOpenMetrics_1_0_0)
	f("", "", "text/plain; version=0.0.4", "metrics as "+text+"; escaping=underscores\n")
	f("", "application/openmetrics-text;version=1.0.0", "application/openmetrics-text", "metrics as "+open+"; escaping=underscores\n")
	f("&debug=true", "application/openmetrics-text;version=1.0.0", "text/plain; charset=utf-8", "report\n\nMetrics\nmetrics as "+text+"\n")
}

// TestProbeAnswerThatBreaks must not be taken for the whole.
func TestProbeAnswerThatBreaks(t *testing.T) {
	s := newProbeSite(t, func(context.Context, fleet.ProbeRequest) (*fleet.ProbeAnswer, error) {
		a := answer()
		a.Metrics = metricsFunc(func(io.Writer, expfmt.Format) error { return errors.New("broken") })
		return a, nil
	})
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("recovered %v", v)
		}
	}()
	s.ask(http.MethodGet, "/probe?target=a")
	t.Error("answered")
}

func TestProbePath(t *testing.T) {
	if resp := newSite(t, writeLong).ask(http.MethodGet, "/probe?target=a"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("without a prober: status %d", resp.StatusCode)
	}
	if _, err := New(Options{MetricsPath: "/probe"}); err == nil {
		t.Error("the metrics may have the path /probe")
	}
}

func TestProbesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, most := 0, 0
		enter := make(chan int, 1)
		enter <- 0
		count := func(d int) {
			running = <-enter + d
			most = max(most, running)
			enter <- running
		}
		s := newProbeSite(t, func(_ context.Context, r fleet.ProbeRequest) (*fleet.ProbeAnswer, error) {
			count(1)
			defer count(-1)
			if r.Limit != 0 && r.Limit != 6*time.Second {
				t.Errorf("limit %s, want 6s", r.Limit)
			}
			time.Sleep(4 * time.Second)
			return answer(), nil
		})
		statuses := make(chan int, 3*maxProbes)
		ask := func(n int, header ...string) {
			for range n {
				go func() { statuses <- s.ask(http.MethodGet, "/probe?target=a", header...).StatusCode }()
			}
			synctest.Wait()
		}
		ask(maxProbes)
		ask(maxProbes - 1)
		ask(1, scrapeTimeoutHeader, "10.5") // 10 s, of which 4 pass before its slot
		ask(1, scrapeTimeoutHeader, "4")    // no slot within 3.5 s
		start := time.Now()
		got := map[int]int{}
		for range 2*maxProbes + 1 {
			got[<-statuses]++
		}
		if diff := cmp.Diff(map[int]int{200: 2 * maxProbes, 503: 1}, got); diff != "" || most != maxProbes {
			t.Errorf("%d at once, statuses (-want +got):\n%s", most, diff)
		}
		if d := time.Since(start); d != 8*time.Second {
			t.Errorf("took %s", d)
		}
	})
}

// TestLongProbe takes longer than the server allows for other pages.
func TestLongProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newProbeSite(t, func(ctx context.Context, _ fleet.ProbeRequest) (*fleet.ProbeAnswer, error) {
			select {
			case <-time.After(time.Minute):
				return answer(), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		status, body := overPipe(t, s.Handler(), "GET /probe?target=a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		if status != http.StatusOK || !strings.HasPrefix(body, "metrics as") {
			t.Errorf("status %d: %q", status, body)
		}
	})
}

// TestClientGone ends the probe with the request.
func TestClientGone(t *testing.T) {
	s := newProbeSite(t, func(ctx context.Context, _ fleet.ProbeRequest) (*fleet.ProbeAnswer, error) {
		<-ctx.Done()
		return answer(), nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/probe?target=a", nil))
	if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "metrics as") {
		t.Errorf("status %d: %q", w.Code, w.Body)
	}
}

// TestHungTargets has more targets that hang than there are slots for those that
// are known to: others have theirs at once, and one that answers again has its
// own.
func TestHungTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mended atomic.Bool
		s := newProbeSite(t, func(_ context.Context, r fleet.ProbeRequest) (*fleet.ProbeAnswer, error) {
			a := answer()
			if strings.HasPrefix(r.Target, "hung") && !mended.Load() {
				time.Sleep(30 * time.Second)
				a.TimedOut = true
			}
			return a, nil
		})
		for round := range 3 {
			for i := range maxHungProbes + 200 {
				go s.ask(http.MethodGet, fmt.Sprintf("/probe?target=hung-%d", i))
			}
			synctest.Wait()
			start := time.Now()
			if resp := s.ask(http.MethodGet, "/probe?target=well"); resp.StatusCode != http.StatusOK || time.Since(start) > 0 {
				t.Errorf("round %d: status %d after %s", round, resp.StatusCode, time.Since(start))
			}
			time.Sleep(time.Second)
			if resp := s.ask(http.MethodGet, "/probe?target=hung-0"); round > 0 && resp.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("round %d: status %d for one more that hangs", round, resp.StatusCode)
			}
			time.Sleep(2 * time.Minute)
		}
		mended.Store(true)
		s.ask(http.MethodGet, "/probe?target=hung-0")
		mended.Store(false)
		for i := range maxHungProbes {
			go s.ask(http.MethodGet, fmt.Sprintf("/probe?target=hung-%d", i+1))
		}
		synctest.Wait()
		mended.Store(true)
		if resp := s.ask(http.MethodGet, "/probe?target=hung-0"); resp.StatusCode != http.StatusOK {
			t.Errorf("status %d once it answers again", resp.StatusCode)
		}
		time.Sleep(time.Minute)
	})
}

// TestNoTurn answers in time where the probes before take longer.
func TestNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newProbeSite(t, func(context.Context, fleet.ProbeRequest) (*fleet.ProbeAnswer, error) {
			time.Sleep(time.Minute)
			return answer(), nil
		})
		for range maxProbes {
			go s.ask(http.MethodGet, "/probe?target=a")
		}
		synctest.Wait()
		start := time.Now()
		resp := s.ask(http.MethodGet, "/probe?target=a")
		want := "1000 such requests are running, and none ended within 5s\n"
		if body := readAll(t, resp.Body); resp.StatusCode != http.StatusServiceUnavailable || body != want || s.log.Len() > 0 {
			t.Errorf("status %d, %q, want %q, log %q", resp.StatusCode, body, want, &s.log)
		}
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("answered after %s", d)
		}
		time.Sleep(time.Minute)
	})
}

// overPipe serves one request by a server with tight limits, without a
// network, so that its time can be simulated.
func overPipe(t *testing.T, h http.Handler, request string) (status int, body string) {
	t.Helper()
	client, server := net.Pipe()
	conns := make(chan net.Conn, 1)
	conns <- server
	l := &pipeListener{conns: conns}
	srv := &http.Server{Handler: h, ReadTimeout: time.Second, WriteTimeout: time.Second}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	go func() { _, _ = io.Copy(client, bytes.NewBufferString(request)) }()
	resp, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text := readAll(t, resp.Body)
	_ = srv.Close()
	_ = client.Close()
	<-served
	return resp.StatusCode, text
}

// pipeListener accepts what conns holds.
type pipeListener struct{ conns chan net.Conn }

func (l *pipeListener) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l *pipeListener) Close() error {
	close(l.conns)
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }
