package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// metricsFunc writes a page of metrics.
type metricsFunc func(w io.Writer, format expfmt.Format) error

func (f metricsFunc) Write(w io.Writer, format expfmt.Format) error { return f(w, format) }

// scrapes keeps the sizes that an observer was told.
type scrapes struct {
	mu    sync.Mutex
	sizes []int64
}

func (s *scrapes) Scraped(_ time.Duration, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes = append(s.sizes, size)
}

// site is a server with what it told others.
type site struct {
	*Server
	t       testing.TB
	scrapes scrapes
	log     bytes.Buffer
}

func newSite(t *testing.T, metrics metricsFunc) *site {
	t.Helper()
	return newSiteWith(t, func(o *Options) { o.Metrics = metrics })
}

// newSiteWith is a site with the options that the functions change.
func newSiteWith(t testing.TB, changes ...func(*Options)) *site {
	t.Helper()
	s := &site{t: t}
	o := Options{
		MetricsPath: "/metrics", Hosts: []string{"example.com"}, Version: "1.2.3", Metrics: metricsFunc(writeLong), Scrapes: &s.scrapes,
		Formats: []expfmt.Format{expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtProtoDelim, expfmt.FmtText},
		Logger:  slog.New(slog.NewTextHandler(&s.log, nil)),
	}
	for _, change := range changes {
		change(&o)
	}
	var err error
	if s.Server, err = New(o); err != nil {
		t.Fatal(err)
	}
	return s
}

// ask returns the answer to one request. Headers come in pairs.
func (s *site) ask(method, path string, header ...string) *http.Response {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w.Result()
}

func readAll(t testing.TB, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// long is a page that is worth compressing.
var long = strings.Repeat("inference_probe_success 1\n", 1000)

func writeLong(w io.Writer, _ expfmt.Format) error {
	_, err := io.WriteString(w, long)
	return err
}

func TestFormats(t *testing.T) {
	s := newSite(t, func(w io.Writer, format expfmt.Format) error {
		_, err := fmt.Fprint(w, format)
		return err
	})
	f := func(accept, want string) {
		t.Helper()
		resp := s.ask(http.MethodGet, "/metrics", "Accept", accept)
		asked, told := readAll(t, resp.Body), resp.Header.Get("Content-Type")
		if asked != told || !strings.HasPrefix(told, want) || resp.StatusCode != http.StatusOK {
			t.Errorf("Accept %q: status %d, content type %q, wrote %q, want %q", accept, resp.StatusCode, told, asked, want)
		}
	}
	const (
		text  = "text/plain; version=0.0.4"
		open  = "application/openmetrics-text; version=1.0.0"
		proto = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
	)
	f("", text)
	f("text/html,application/xhtml+xml,*/*;q=0.8", text) // a browser
	f("image/png", text)
	f("text/plain;version=0.0.4", text)
	f("application/openmetrics-text;version=1.0.0", open)
	f("application/openmetrics-text;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.5", text)
	f("application/openmetrics-text;version=7.0.0", text)
	f("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", proto)
	f("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text", text)
	f("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=compact-text", text)
}

func TestCompression(t *testing.T) {
	f := func(accept, want string, unpack func(io.Reader) (io.Reader, error)) {
		t.Helper()
		s := newSite(t, writeLong)
		resp := s.ask(http.MethodGet, "/metrics", "Accept-Encoding", accept)
		body := readAll(t, resp.Body)
		if got := resp.Header.Get("Content-Encoding"); got != want {
			t.Fatalf("Accept-Encoding %q: encoding %q, want %q", accept, got, want)
		}
		if resp.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: a cache is not told", accept)
		}
		plain, err := unpack(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if readAll(t, plain) != long || (want != "") != (len(body) < len(long)/10) {
			t.Errorf("Accept-Encoding %q: another page, or %d bytes for %d", accept, len(body), len(long))
		}
		// The size is that of the page, whatever goes over the wire.
		if len(s.scrapes.sizes) != 1 || s.scrapes.sizes[0] != int64(len(long)) {
			t.Errorf("Accept-Encoding %q: observed %v, want one of %d", accept, s.scrapes.sizes, len(long))
		}
	}
	identity := func(r io.Reader) (io.Reader, error) { return r, nil }
	unzip := func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	unzstd := func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r, zstd.WithDecoderConcurrency(1)) }
	f("", "", identity)
	f("identity", "", identity)
	f("br, deflate", "", identity)
	f("gzip;q=0", "", identity)
	f("gzip", "gzip", unzip)
	f("zstd", "zstd", unzstd)
	f("gzip, zstd", "zstd", unzstd)
	f("gzip, zstd;q=0.5", "gzip", unzip)
}

func TestErrorBeforeTheFirstByte(t *testing.T) {
	for _, encoding := range []string{"identity", "gzip", "zstd"} {
		s := newSite(t, func(io.Writer, expfmt.Format) error { return errors.New("store on fire") })
		resp := s.ask(http.MethodGet, "/metrics", "Accept-Encoding", encoding)
		if resp.StatusCode != http.StatusInternalServerError {
			t.Errorf("%s: status %d", encoding, resp.StatusCode)
		}
		if body := readAll(t, resp.Body); body != "writing the metrics failed\n" {
			t.Errorf("%s: body %q", encoding, body)
		}
		if got := s.log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "store on fire") {
			t.Errorf("%s: logged %q", encoding, got)
		}
		if len(s.scrapes.sizes) != 0 {
			t.Errorf("%s: a page that failed was observed", encoding)
		}
	}
}

// A page that broke off must not pass for a whole one.
func TestErrorAfterTheFirstByte(t *testing.T) {
	f := func(page, encoding string) {
		t.Helper()
		s := newSite(t, func(w io.Writer, _ expfmt.Format) error {
			_, err := io.WriteString(w, page)
			return errors.Join(err, errors.New("store on fire"))
		})
		resp := s.ask(http.MethodGet, "/metrics", "Accept-Encoding", encoding)
		if body := readAll(t, resp.Body); resp.StatusCode != http.StatusInternalServerError || body != "writing the metrics failed\n" {
			t.Errorf("%d bytes, %s: status %d, %d bytes", len(page), encoding, resp.StatusCode, len(body))
		}
		if got := s.log.String(); strings.Count(got, "\n") != 1 || len(s.scrapes.sizes) != 0 {
			t.Errorf("%d bytes, %s: logged %q, observed %v", len(page), encoding, got, s.scrapes.sizes)
		}
	}
	for _, encoding := range []string{"identity", "gzip", "zstd"} {
		f(long, encoding)
		f("inference_probe_success 1\n", encoding)
	}
}

// brokenClient is a connection that is gone.
type brokenClient struct{ http.ResponseWriter }

func (brokenClient) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestClientGoneWhileWriting(t *testing.T) {
	s := newSite(t, writeLong)
	s.Handler().ServeHTTP(brokenClient{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if s.log.Len() != 0 || len(s.scrapes.sizes) != 0 {
		t.Errorf("a client that left is news: log %q, observed %v", &s.log, s.scrapes.sizes)
	}
}

func TestTwoScrapesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writing atomic.Int32
		finish := make(chan struct{})
		s := newSite(t, func(w io.Writer, f expfmt.Format) error {
			writing.Add(1)
			<-finish
			return writeLong(w, f)
		})
		scrape := func(ctx context.Context) <-chan *httptest.ResponseRecorder {
			answer := make(chan *httptest.ResponseRecorder, 1)
			go func() {
				w := httptest.NewRecorder()
				s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
				answer <- w
			}()
			synctest.Wait()
			return answer
		}
		expect := func(when string, want int32) {
			t.Helper()
			if got := writing.Load(); got != want {
				t.Errorf("%s: %d pages begun, want %d", when, got, want)
			}
		}
		first := scrape(t.Context())
		second := scrape(t.Context())
		impatient, leave := context.WithCancel(t.Context())
		third := scrape(impatient)
		fourth := scrape(t.Context())
		expect("four scrapes", 2)

		leave()
		if w := <-third; w.Code != http.StatusServiceUnavailable {
			t.Errorf("who left would see status %d: %q", w.Code, w.Body)
		}
		expect("one left", 2)

		finish <- struct{}{}
		synctest.Wait()
		expect("one is done", 3)

		close(finish)
		for _, answer := range []<-chan *httptest.ResponseRecorder{first, second, fourth} {
			if w := <-answer; w.Code != http.StatusOK || w.Body.String() != long {
				t.Errorf("status %d, %d bytes", w.Code, w.Body.Len())
			}
		}
	})
}

func TestPages(t *testing.T) {
	s := newSite(t, writeLong)
	f := func(method, path string, status int, want string) {
		t.Helper()
		resp := s.ask(method, path)
		if body := readAll(t, resp.Body); resp.StatusCode != status || !strings.Contains(body, want) {
			t.Errorf("%s %s: status %d, want %d, with %q in %q", method, path, resp.StatusCode, status, want, body)
		}
	}
	f(http.MethodGet, "/-/healthy", http.StatusOK, "healthy\n")
	f(http.MethodHead, "/-/healthy", http.StatusOK, "")
	f(http.MethodGet, "/-/ready", http.StatusServiceUnavailable, "not ready\n")
	s.Ready(true)
	f(http.MethodGet, "/-/ready", http.StatusOK, "ready\n")
	s.Ready(false)
	f(http.MethodGet, "/-/ready", http.StatusServiceUnavailable, "not ready\n")

	s.Ready(true)
	s.hangs = func() bool { return true }
	f(http.MethodGet, "/-/healthy", http.StatusServiceUnavailable, "the scheduler hangs\n")
	f(http.MethodGet, "/-/ready", http.StatusServiceUnavailable, "not ready\n")

	f(http.MethodGet, "/", http.StatusOK, "inference_exporter")
	f(http.MethodGet, "/", http.StatusOK, "1.2.3")
	f(http.MethodGet, "/", http.StatusOK, `href="/metrics"`)
	f(http.MethodGet, "/", http.StatusOK, `href="/-/ready"`)
	f(http.MethodGet, "/nowhere", http.StatusNotFound, "")
	f(http.MethodGet, "/metrics/", http.StatusNotFound, "")
	f(http.MethodGet, "/debug/pprof/", http.StatusNotFound, "")
	for _, path := range []string{"/", "/metrics", "/-/healthy", "/-/ready"} {
		f(http.MethodPost, path, http.StatusMethodNotAllowed, "")
	}
}

func TestMetricsPath(t *testing.T) {
	f := func(path string, good bool) {
		t.Helper()
		s, err := New(Options{MetricsPath: path, Hosts: []string{"example.com"}, Metrics: metricsFunc(writeLong), Scrapes: &scrapes{}})
		if (err == nil) != good {
			t.Errorf("path %q: error %v", path, err)
		}
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK || w.Body.String() != long {
			t.Errorf("path %q: status %d", path, w.Code)
		}
		w = httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/nowhere", nil))
		if w.Code != http.StatusNotFound {
			t.Errorf("path %q takes others too: status %d", path, w.Code)
		}
	}
	f("/metrics", true)
	f("/", true)
	f("/a/b-c_d.e~1", true)
	f("", false)
	f("metrics", false)
	f("/metrics/", false)
	f("//metrics", false)
	f("/a/../b", false)
	f("/{name}", false)
	f("/a b", false)
	f("/a?b=c", false)
	f("/-/healthy", false)
	f("/-/", false)
	f("/-", false)
	f("/probe", false)
	f("/api/v1/metrics", false)
	f("/assets", false)
	f("/endpoint/metrics", false)
	f("/self", false)
	f("/config/metrics", true)
	f("/endpoints", true)
}
