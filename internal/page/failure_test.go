package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
)

// answer is a reply of status 200 with a body and pairs of header fields.
func answer(body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		io.WriteString(w, body)
	}
}

func answerStatus(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// hijacked answers with these bytes and closes the connection.
func hijacked(raw string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		io.WriteString(c, raw)
	}
}

func zipped(body []byte) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(body)
	w.Close()
	return b.String()
}

// manySeries returns a page of n series, and of about 22 bytes for each.
func manySeries(n int) string {
	var b strings.Builder
	b.WriteString("# TYPE lab_running gauge\n")
	for i := range n {
		fmt.Fprintf(&b, "lab_running{i=%q} 1\n", fmt.Sprint(i))
	}
	return b.String()
}

func noise(n int) string {
	b := make([]byte, n)
	src := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(src.Uint32())
	}
	return string(b)
}

func TestReasons(t *testing.T) {
	type row struct {
		name   string
		answer http.HandlerFunc
		state  State
		reason Reason
	}
	const page = "# TYPE lab_running gauge\nlab_running 3\n"
	bomb := zipped(make([]byte, 2*maxPage))
	for _, r := range []row{
		{"page", answer(page), Up, ReasonNone},
		{"compressed, not asked for", answer(zipped([]byte(page)), "Content-Encoding", "gzip"), Up, ReasonNone},
		{"404", answerStatus(404), Down, ReasonStatus},
		{"503", answerStatus(503), Down, ReasonStatus},
		{"204", answerStatus(204), Down, ReasonStatus},
		{"401", answerStatus(401), Down, ReasonStatus},
		{"cut before the headers", hijacked(""), Down, ReasonConnect},
		{"cut in the body", hijacked("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + page), Down, ReasonConnect},
		{"no HTTP", hijacked("SSH-2.0-OpenSSH_9.6\r\n"), Down, ReasonConnect},
		{"endless headers", hijacked("HTTP/1.1 200 OK\r\n" + strings.Repeat("a:\r\n", 100_000)), Unreadable, ReasonTooLarge},
		{"long headers that end", hijacked("HTTP/1.1 200 OK\r\na: " + strings.Repeat("x", 70_000) + "\r\n\r\n" + page), Unreadable, ReasonTooLarge},
		{"early answers without end", hijacked(strings.Repeat("HTTP/1.1 103 Early Hints\r\na: b\r\n\r\n", 4_000)), Unreadable, ReasonTooLarge},
		{"50 MB", answer(strings.Repeat("# HELP lab_running ...\n", 50<<20/23)), Unreadable, ReasonTooLarge},
		{"300,000 series", answer(manySeries(300_000)), Unreadable, ReasonTooLarge},
		{"endless", func(w http.ResponseWriter, _ *http.Request) {
			for line := []byte(strings.Repeat("# \n", 1<<14)); ; {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		}, Unreadable, ReasonTooLarge},
		{"bomb", answer(bomb, "Content-Encoding", "gzip"), Unreadable, ReasonTooLarge},
		{"endless compression of nothing", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			for empty := zipped(nil); ; {
				if _, err := io.WriteString(w, empty); err != nil {
					return
				}
			}
		}, Unreadable, ReasonTooLarge},
		{"not compressed as it says", answer(page, "Content-Encoding", "gzip"), Unreadable, ReasonFormat},
		{"other compression", answer(page, "Content-Encoding", "br"), Unreadable, ReasonFormat},
		{"random bytes", answer(noise(1 << 16)), Unreadable, ReasonFormat},
		{"web page", answer("<html></html>", "Content-Type", "text/html"), Unreadable, ReasonFormat},
		{"twice", answer(page + "lab_running 3\n"), Unreadable, ReasonDuplicate},
		{"other type", answer("# TYPE lab_running histogram\nlab_running_bucket{le=\"+Inf\"} 1\n"), Unreadable, ReasonType},
		{"other series", answer("# TYPE up gauge\nup 1\n"), Unmapped, ReasonUnmapped},
	} {
		t.Run(r.name, func(t *testing.T) {
			got := labOf(t, serve(t, r.answer).URL+"/metrics").one()
			if got.State != r.state || got.Reason != r.reason {
				t.Errorf("%s, %q (%v); want %s, %q", got.State, got.Reason, got.Err, r.state, r.reason)
			}
			checkFailure(t, got)
		})
	}
}

// checkFailure checks what holds of every status of a first reading.
func checkFailure(t *testing.T, s Status) {
	t.Helper()
	if up := s.State == Up; up != (s.Err == nil) || up != (s.Snapshot != nil) || up != (s.Reason == ReasonNone) {
		t.Errorf("state %s with error %v, reason %q and snapshot %v", s.State, s.Err, s.Reason, s.Snapshot)
	}
	if s.State != Up && (s.Failures[s.Reason] != 1 || len(s.Failures) != 1) {
		t.Errorf("failures %v of a first %s", s.Failures, s.Reason)
	}
	if s.Err != nil && (s.Err.Error() == "" || len(s.Err.Error()) > 600 || strings.ContainsAny(s.Err.Error(), "\n\x00")) {
		t.Errorf("error %q", s.Err)
	}
}

// What a hung server costs is the time limit.
func TestTimeout(t *testing.T) {
	f := func(name string, h http.HandlerFunc) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, h)
			l := newLab(t, func(c *config.Endpoint, _ *Options) {
				c.Servers.URLs = urlsOf(t, s.URL)
				c.Servers.Timeout = model.Duration(100 * time.Millisecond)
			})
			got := l.one()
			if got.State != Down || got.Reason != ReasonTimeout || got.Err.Error() != "no whole page within 100ms" {
				t.Errorf("%s, %q (%v); want a timeout", got.State, got.Reason, got.Err)
			}
			checkFailure(t, got)
		})
	}
	hang := func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	f("no headers", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	f("no body", hang)
	f("half a body", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, labPage[:40])
		hang(w, r)
	})
}

func TestRedirectIsNotFollowed(t *testing.T) {
	var asked requests
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.add(r.URL.Path)
		showLab(w, r)
	})
	s := serve(t, answerStatus(302, "Location", other.URL+"/metrics?key=hunter2"))
	got := labOf(t, s.URL).one()
	if got.State != Down || got.Reason != ReasonStatus || asked.since() != nil {
		t.Errorf("got %+v, want http_status and nothing asked elsewhere", got)
	}
	if text := fmt.Sprint(got.Err); text != "status 302: a redirect, and redirects are not followed" {
		t.Errorf("error %q", text)
	}
}

func TestNoConnection(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	secure := httptest.NewUnstartedServer(http.HandlerFunc(showLab))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := serve(t, showLab)
	f := func(name, page string, want Reason) {
		t.Helper()
		got := labOf(t, page).one()
		if got.State != Down || got.Reason != want {
			t.Errorf("%s: %s, %q (%v); want %q", name, got.State, got.Reason, got.Err, want)
		}
		checkFailure(t, got)
	}
	f("nobody listens", closed.URL, ReasonConnect)
	f("unknown authority", secure.URL, ReasonTLS)
	f("no TLS", "https://"+plain.Listener.Addr().String(), ReasonTLS)
	// A label of a name has at most 63 bytes: no name server is asked.
	f("no address", "http://"+strings.Repeat("a", 64)+".invalid", ReasonDNS)
}

// Under TLS 1.3 a server misses the client's certificate after the handshake.
func TestNoClientCertificate(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(showLab))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	got := newLab(t, func(c *config.Endpoint, _ *Options) {
		http := caOf(s)
		c.Servers.URLs, c.Servers.HTTP, c.HTTP = urlsOf(t, s.URL), &http, http
	}).one()
	if got.State != Down || got.Reason != ReasonTLS {
		t.Errorf("%s, %q (%v); want %q", got.State, got.Reason, got.Err, ReasonTLS)
	}
}

// caOf returns HTTP settings that trust a test server.
func caOf(s *httptest.Server) config.HTTPClient {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return config.HTTPClient{HTTPClientConfig: promconfig.HTTPClientConfig{TLSConfig: promconfig.TLSConfig{CA: string(ca)}}}
}

// Behind a name, TLS is with the name and not with the address.
func TestTLSNameOfAnAddress(t *testing.T) {
	sni := make(chan string, 2)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sni <- r.TLS.ServerName + " " + r.Host
		showLab(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS() // with a certificate for example.com
	t.Cleanup(s.Close)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	f := func(host string) Status {
		t.Helper()
		return newLab(t, func(c *config.Endpoint, o *Options) {
			http := caOf(s)
			c.Servers.DNS, c.Servers.HTTP = urlsOf(t, "https://"+host+":"+port), &http
			o.Resolve = func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			}
		}).one()
	}
	if got := f("example.com"); got.State != Up || got.Server != "127.0.0.1:"+port {
		t.Errorf("got %+v, want 127.0.0.1:%s up", got, port)
	} else if got := <-sni; got != "example.com example.com:"+port {
		t.Errorf("the server saw %q", got)
	}
	if got := f("example.org"); got.Reason != ReasonTLS {
		t.Errorf("got %+v, want no TLS with another name", got)
	}
}

func TestFailureOf(t *testing.T) {
	expired, cancel := context.WithTimeoutCause(t.Context(), 0, errors.New("no whole page within 1s"))
	defer cancel()
	f := func(name string, ctx context.Context, err error, want Reason, text string) {
		t.Helper()
		got := failureOf(ctx, &attempt{}, err)
		if got.Reason != want || got.Err.Error() != text {
			t.Errorf("%s: %s, %q; want %s, %q", name, got.Reason, got.Err, want, text)
		}
	}
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	f("refused", t.Context(), refused, ReasonConnect, "dial tcp: connection refused")
	f("refused at last", expired, refused, ReasonTimeout, "no whole page within 1s")
	f("name server in no time", t.Context(), &net.DNSError{Err: "timeout", Name: "a", IsTimeout: true}, ReasonDNS, "lookup a: timeout")
	f("alert", t.Context(), &net.OpError{Op: "remote error", Err: tls.AlertError(42)}, ReasonTLS, "set up TLS: remote error: tls: bad certificate")
	f("system's limit", t.Context(), &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ETIMEDOUT}, ReasonTimeout, "dial tcp: connection timed out")
	f("secret's file at last", expired, &foreign.FileError{Err: &fs.PathError{Op: "open", Path: "token", Err: fs.ErrNotExist}}, ReasonConnect, "open token: file does not exist")
	f("text of the server", t.Context(), errors.New("malformed HTTP response: Bearer abc"), ReasonConnect, "no HTTP reply")
	f("known", t.Context(), fmt.Errorf("x: %w", pageErrorf(ReasonDuplicate, "twice")), ReasonDuplicate, "twice")
}

func TestPresentable(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := presentable(errors.New(text), nil); got.Error() != want {
			t.Errorf("presentable(%q) = %q, want %q", text, got, want)
		}
	}
	f("as it is", "as it is")
	f("two\nlines\x00", "two lines")
	f(strings.Repeat("a", 513), strings.Repeat("a", 509)+"...")
	f(strings.Repeat("a", 508)+"éaaa", strings.Repeat("a", 508)+"...")
}

// FuzzReadPage checks that a page comes out as it went in, whatever the sizes
// of its reads.
func FuzzReadPage(f *testing.F) {
	f.Add([]byte(labPage), uint8(1))
	f.Add([]byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, page []byte, step uint8) {
		for _, size := range []int64{-1, int64(len(page))} {
			b := &body{reader: &stepReader{page, int(step) + 1}, size: size, memory: newMemory()}
			got, err := b.read(t.Context(), nil)
			if err != nil || !bytes.Equal(got, page) {
				t.Errorf("size %d: got %q, %v; want %q", size, got, err, page)
			}
		}
	})
}

// stepReader gives a few bytes at a time, the last ones with io.EOF.
type stepReader struct {
	rest []byte
	step int
}

func (r *stepReader) Read(b []byte) (int, error) {
	n := copy(b, r.rest[:min(r.step, len(r.rest))])
	if r.rest = r.rest[n:]; len(r.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}
