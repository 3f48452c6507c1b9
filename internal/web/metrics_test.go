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

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/common/expfmt"
)

func TestFormats(t *testing.T) {
	s := newSite(t, func(w io.Writer, format expfmt.Format) error {
		_, err := fmt.Fprint(w, format)
		return err
	})
	f := func(accept, want string) {
		t.Helper()
		resp := s.ask(http.MethodGet, "/metrics", "Accept", accept)
		wrote, contentType := readAll(t, resp.Body), resp.Header.Get("Content-Type")
		if wrote != contentType || !strings.HasPrefix(contentType, want) || resp.StatusCode != http.StatusOK {
			t.Errorf("Accept %q: status %d, content type %q, wrote %q, want %q", accept, resp.StatusCode, contentType, wrote, want)
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
			t.Errorf("Accept-Encoding %q: a cache does not know", accept)
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

// scrapeOver returns the client's end of a connection over which a page is
// asked for. Nothing reads the answer yet.
func scrapeOver(t *testing.T, conns chan<- net.Conn, encoding string) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	conns <- server
	_, err := fmt.Fprintf(client, "GET /metrics HTTP/1.1\r\nHost: h\r\nAccept-Encoding: %s\r\nConnection: close\r\n\r\n", encoding)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// serveOver serves on connections of the test until the returned function is
// called.
func serveOver(h http.Handler) (conns chan net.Conn, stop func()) {
	conns = make(chan net.Conn, 16)
	srv := &http.Server{Handler: h, WriteTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(&pipeListener{conns: conns}) }()
	return conns, func() {
		_ = srv.Close()
		<-served
	}
}

// writePages writes n parts of a page, too large for what lies between.
func writePages(n int) metricsFunc {
	return func(w io.Writer, _ expfmt.Format) error {
		for range n {
			if _, err := io.WriteString(w, long); err != nil {
				return err
			}
		}
		return nil
	}
}

// Clients that do not read keep nobody from the page, however many there are:
// they hold no slot.
func TestClientsThatDoNotRead(t *testing.T) {
	for _, encoding := range []string{"identity", "gzip", "zstd"} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, writePages(100))
			conns, stop := serveOver(s.Handler())
			defer stop()
			for range 12 {
				defer scrapeOver(t, conns, encoding).Close()
			}
			time.Sleep(time.Second) // 4 s before these are given up
			start := time.Now()
			client := scrapeOver(t, conns, "identity")
			defer client.Close()
			resp, err := http.ReadResponse(bufio.NewReader(client), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if body := readAll(t, resp.Body); resp.StatusCode != http.StatusOK || len(body) != 100*len(long) {
				t.Errorf("%s: status %d, %d bytes", encoding, resp.StatusCode, len(body))
			}
			if d := time.Since(start); d != 0 {
				t.Errorf("%s: answered after %s", encoding, d)
			}
		})
	}
}

// The pages that clients do not read have bounded memory: those that are held
// longest are given up, and a page that a client reads is whole.
func TestPagesThatAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := heldPages{limit: 10 << 10}
		conns, stop := serveOver(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			page := &heldPage{}
			page.body.Write(bytes.Repeat([]byte("x"), 4<<10))
			_ = h.write(w, page)
		}))
		defer stop()
		var clients []net.Conn
		for range 6 {
			clients = append(clients, scrapeOver(t, conns, "identity"))
			defer clients[len(clients)-1].Close()
			synctest.Wait()
		}
		if len(h.pages) != maxScrapes || h.bytes > h.limit {
			t.Errorf("%d pages of %d bytes are held, want %d", len(h.pages), h.bytes, maxScrapes)
		}
		for i, client := range clients {
			got := 0
			resp, err := http.ReadResponse(bufio.NewReader(client), nil)
			if err == nil {
				var body []byte
				body, err = io.ReadAll(resp.Body)
				resp.Body.Close()
				got = len(body)
			}
			if held := i >= 4; held != (err == nil && got == 4<<10) {
				t.Errorf("client %d: %d bytes, %v", i, got, err)
			}
		}
		synctest.Wait()
		if len(h.pages) != 0 || h.bytes != 0 {
			t.Errorf("%d pages of %d bytes are held after the last client", len(h.pages), h.bytes)
		}
	})
}

// A client that reads slowly gets the page; one that takes for ever does not.
func TestClientsThatReadSlowly(t *testing.T) {
	f := func(pause time.Duration, complete bool) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, writePages(20))
			conns, stop := serveOver(s.Handler())
			defer stop()
			client := scrapeOver(t, conns, "identity")
			defer client.Close()
			resp, err := http.ReadResponse(bufio.NewReaderSize(client, len(long)), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var got strings.Builder
			for err == nil {
				time.Sleep(pause)
				_, err = io.CopyN(&got, resp.Body, int64(len(long)))
			}
			if whole := got.Len() == 20*len(long); whole != complete {
				t.Errorf("a pause of %s: %d bytes of %d, %v", pause, got.Len(), 20*len(long), err)
			}
		})
	}
	f(2*time.Second, true)
	f(4*time.Second, false) // 80 s in all
	f(6*time.Second, false)
}

// Where nobody gives up a slot, the answer says so.
func TestScrapeWithoutATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		s := newSite(t, func(io.Writer, expfmt.Format) error {
			<-finish
			return nil
		})
		for range maxScrapes {
			go s.ask(http.MethodGet, "/metrics")
		}
		synctest.Wait()
		resp := s.ask(http.MethodGet, "/metrics")
		want := "2 such requests are running, and none ended within 5s\n"
		if body := readAll(t, resp.Body); resp.StatusCode != http.StatusServiceUnavailable || body != want {
			t.Errorf("status %d, %q, want %q", resp.StatusCode, body, want)
		}
		close(finish)
	})
}
