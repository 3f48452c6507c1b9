package prober

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// rawServer hands each connection to serve, in a goroutine of its own, and
// closes it after that.
func rawServer(t *testing.T, serve func(net.Conn)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return "http://" + l.Addr().String()
}

// A server that answers before it has read the request, and closes then, resets
// the connection while the request is still being sent. Its answer counts.
func TestAnswerBeforeTheRequestIsRead(t *testing.T) {
	url := rawServer(t, func(c net.Conn) {
		if _, err := c.Read(make([]byte, 200)); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 413 Request Entity Too Large\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntoo large")
	})
	for _, tokens := range []int{64, 4000, 40_000} {
		m := newModule()
		m.InputTokens = config.Tokens(tokens)
		p := newProber(t, newEndpoint(t, url), m)
		for range 20 {
			r := p.one(t.Context(), time.Time{})
			if r.Outcome != result.HTTPError || r.Status != http.StatusRequestEntityTooLarge || !strings.Contains(r.Err.Error(), "too large") {
				t.Fatalf("outcome %s, status %d: %v", r.Outcome, r.Status, r.Err)
			}
		}
	}
}

// A write to a closed connection returns no error: the reads report it.
func TestWriteToAClosedConnection(t *testing.T) {
	for _, err := range []error{syscall.ECONNRESET, syscall.EPIPE} {
		c := &conn{Conn: failingConn{err: &net.OpError{Op: "write", Err: os.NewSyscallError("write", err)}}}
		if n, err := c.Write(make([]byte, 7)); n != 7 || err != nil {
			t.Errorf("wrote %d bytes, %v", n, err)
		}
	}
	c := &conn{Conn: failingConn{err: os.ErrDeadlineExceeded}}
	if _, err := c.Write(make([]byte, 7)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// failingConn fails to write.
type failingConn struct {
	net.Conn
	err error
}

func (c failingConn) Write([]byte) (int, error) { return 0, c.err }

// Under TLS 1.3 a server refuses a client without a certificate after the
// handshake, as far as the client is concerned.
func TestNoClientCertificate(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: version, MaxVersion: version}
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		cfg := newEndpoint(t, s.URL)
		cfg.HTTP.TLSConfig.InsecureSkipVerify = true
		p := newProber(t, cfg, newModule())
		for range 10 {
			if r := p.one(t.Context(), time.Time{}); r.Outcome != result.TLSError || !strings.HasPrefix(r.Err.Error(), "tls: ") {
				t.Errorf("%s: outcome %s: %v", tls.VersionName(version), r.Outcome, r.Err)
			}
		}
		s.Close()
	}
}

// A server that speaks first does not speak HTTP, whatever it says. Where the
// transport notices before it sends the request, it closes the connection.
func TestServerThatSpeaksFirst(t *testing.T) {
	for _, greeting := range []string{"220 mail.example ESMTP\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "\x00"} {
		noticed := make(chan struct{}, 1)
		url := rawServer(t, func(c net.Conn) {
			_, _ = io.WriteString(c, greeting)
			_, _ = io.Copy(io.Discard, c)
			noticed <- struct{}{}
		})
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { <-noticed }})
		r := newProber(t, newEndpoint(t, url), newModule()).one(ctx, time.Time{})
		if r.Outcome != result.ProtocolError || r.Err.Error() != "the server sent data before the request" {
			t.Errorf("%q: outcome %s: %v", greeting, r.Outcome, r.Err)
		}
	}
}

func TestConnectionOutcomes(t *testing.T) {
	f := func(name, url string, want result.Outcome) {
		t.Helper()
		m := newModule()
		if want == result.TimeoutConnect { // the others have as long as a busy machine needs
			m.Timeouts.Connect = model.Duration(time.Second)
		}
		r := newProber(t, newEndpoint(t, url), m).one(t.Context(), time.Time{})
		if r.Outcome != want {
			t.Errorf("%s: outcome %s (%v), want %s", name, r.Outcome, r.Err, want)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	f("refused", "http://"+closed, result.ConnectError)
	f("no such name", "http://endpoint.invalid", result.DNSError)

	plain := chat(t, func(w http.ResponseWriter, _ *http.Request) { events(w, one, stop, endMarker) })
	f("TLS to a plain server", strings.Replace(plain.URL, "http:", "https:", 1), result.TLSError)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	f("unknown authority", secure.URL, result.TLSError)

	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts by the backlog, never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	f("handshake without an answer", "https://"+silent.Addr().String(), result.TimeoutConnect)
	cfg := newEndpoint(t, "https://"+silent.Addr().String())
	cfg.API, cfg.Model = "", "" // the first question gets no connection either
	m := newModule()
	m.Timeout = model.Duration(200 * time.Millisecond)
	if r := newProber(t, cfg, m).one(t.Context(), time.Time{}); r.Outcome != result.TimeoutConnect {
		t.Errorf("question without a connection: outcome %s (%v), want %s", r.Outcome, r.Err, result.TimeoutConnect)
	}
}

func TestTLS(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
		events(w, one, stop, endMarker)
	})
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	cfg := newEndpoint(t, s.URL)
	cfg.HTTP.TLSConfig.InsecureSkipVerify = true
	r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{})
	if r.Outcome != result.Success {
		t.Fatalf("outcome %s: %v", r.Outcome, r.Err)
	}
	if r.Timing.Phases[result.PhaseTLS] <= 0 || r.Timing.Phases[result.PhaseConnect] <= 0 {
		t.Errorf("phases %v, want connect and tls", r.Timing.Phases)
	}
	if want := s.Certificate().NotAfter; !r.CertNotAfter.Equal(want) {
		t.Errorf("certificate until %s, want %s", r.CertNotAfter, want)
	}
	if want := netip.MustParseAddrPort(s.Listener.Addr().String()).Addr(); r.Address != want {
		t.Errorf("address %s, want %s", r.Address, want)
	}
}

// A request that takes several writes has a phase of its own: a long prompt
// over a slow line must not be taken for a slow server.
func TestWritePhase(t *testing.T) {
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		events(w, one, stop, endMarker)
	})
	m := newModule()
	m.InputTokens = config.Tokens(400_000)
	r := newProber(t, newEndpoint(t, s.URL), m).one(t.Context(), time.Time{})
	if d := r.Timing; r.Outcome != result.Success || d.Phases[result.PhaseWrite] <= 0 || d.TTFT < d.Phases[result.PhaseWrite] {
		t.Errorf("outcome %s (%v), timing %+v", r.Outcome, r.Err, d)
	}
}

// A token that an OAuth2 server takes its time for is not the endpoint's time.
func TestOAuth2IsNotTimed(t *testing.T) {
	const wait = 150 * time.Millisecond
	token := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(wait)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"access_token":"t0ken-abc","token_type":"bearer"}`)
	}))
	t.Cleanup(token.Close)
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken-abc" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		events(w, one, stop, endMarker)
	})
	cfg := newEndpoint(t, s.URL)
	cfg.HTTP.OAuth2 = &promconfig.OAuth2{ClientID: "c", ClientSecret: "s3cret", TokenURL: token.URL}
	p, began := newProber(t, cfg, newModule()), time.Now()
	r := p.one(t.Context(), time.Time{})
	if took := time.Since(began); r.Outcome != result.Success || r.Timing.Duration > took-wait {
		t.Errorf("outcome %s (%v), phases %v of %s in all", r.Outcome, r.Err, r.Timing.Phases, took)
	}
}
