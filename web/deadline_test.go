package web

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
)

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
// they hold no turn.
func TestClientsThatDoNotRead(t *testing.T) {
	for _, encoding := range []string{"identity", "gzip", "zstd"} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, writePages(1000))
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
			if body := readAll(t, resp.Body); resp.StatusCode != http.StatusOK || len(body) != 1000*len(long) {
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

// Where nobody gives up a turn, the answer says so.
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
		want := "2 such requests run, and none ended within 5s\n"
		if body := readAll(t, resp.Body); resp.StatusCode != http.StatusServiceUnavailable || body != want {
			t.Errorf("status %d, %q, want %q", resp.StatusCode, body, want)
		}
		close(finish)
	})
}
