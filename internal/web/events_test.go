package web

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endpoints := newTable("a", "b")
		e := newEventServer(t, endpoints)
		defer e.stop()
		p := e.open("")
		defer p.close()
		if got := p.resp.Header.Get("Content-Type"); p.resp.StatusCode != http.StatusOK || got != "text/event-stream" {
			t.Fatalf("status %d, %s", p.resp.StatusCode, got)
		}
		if name := missingHeader(p.resp.Header); name != "" || p.resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v, without %s", p.resp.Header, name)
		}
		p.expect(begins, rowsEvent(2, 2, "", "a", 1, "b", 2))
		start := time.Now()
		endpoints.change("b", "c")
		p.expect(rowsEvent(4, 3, "", "b", 3, "c", 4))
		endpoints.remove("a")
		p.expect(rowsEvent(5, 2, `,"removed":["a"]`))
		if d := time.Since(start); d != 4*time.Second {
			t.Errorf("two changes took %s, want 4s", d)
		}
	})
}

// A client gets what it does not know yet: what it says itself when it first
// comes, and the last event's number when it comes again.
func TestEventsSince(t *testing.T) {
	f := func(query, last string, want ...string) {
		t.Helper()
		for _, watched := range []bool{false, true} { // whether another page watches already
			synctest.Test(t, func(t *testing.T) {
				endpoints := newTable("a", "b", "c")
				e := newEventServer(t, endpoints)
				defer e.stop()
				if watched {
					p := e.open("")
					defer p.close()
					p.expect(begins, rowsEvent(3, 3, "", "a", 1, "b", 2, "c", 3))
				}
				var header []string
				if last != "" {
					header = []string{"Last-Event-ID", last}
				}
				p := e.open(query, header...)
				defer p.close()
				p.expect(append([]string{begins}, want...)...)
				synctest.Wait()
				endpoints.change("a")
				p.expect(rowsEvent(4, 3, "", "a", 4))
			})
		}
	}
	f("?since=0", "", rowsEvent(3, 3, "", "a", 1, "b", 2, "c", 3))
	f("?since=2", "", rowsEvent(3, 3, "", "c", 3))
	f("?since=3", "")
	f("?since=0", "3")
	f("?since=3", "1", rowsEvent(3, 3, "", "b", 2, "c", 3))
	f("?since=77", "", rowsEvent(3, 3, `,"reset":true`, "a", 1, "b", 2, "c", 3)) // of a former process
	f("", "18446744073709551615", rowsEvent(3, 3, `,"reset":true`, "a", 1, "b", 2, "c", 3))
}

func TestEventsThatAreRefused(t *testing.T) {
	s := newStatusSite(t, newTable("a"))
	defer s.Close()
	f := func(query string, status int, want string, header ...string) {
		t.Helper()
		resp := s.ask(http.MethodGet, "/api/v1/events"+query, header...)
		if got := jsonErrorOf(t, resp); resp.StatusCode != status || got != want {
			t.Errorf("%s: status %d, %q, want %d, %q", query, resp.StatusCode, got, status, want)
		}
	}
	const number = "parameter since: want the version of a page, a whole number"
	f("?since=x", http.StatusBadRequest, number)
	f("?since=-1", http.StatusBadRequest, number)
	f("?since=18446744073709551616", http.StatusBadRequest, number)
	f("?since=1", http.StatusBadRequest, number, "Last-Event-ID", "1.5")
	f("?endpoint=b", http.StatusNotFound, "no endpoint with this name")
	s.Close()
	f("", http.StatusServiceUnavailable, "the exporter is shutting down")
}

func TestHeadOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStatusSite(t, newTable("a"))
		defer s.Close()
		start := time.Now()
		time.AfterFunc(time.Minute, s.Close)
		resp := s.ask(http.MethodHead, "/api/v1/events")
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" || time.Since(start) > 0 {
			t.Errorf("status %d, headers %v after %s", resp.StatusCode, resp.Header, time.Since(start))
		}
	})
}

// A page of one endpoint gets an event that it has changed, and no more.
func TestEventsOfOneEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endpoints := newTable("a/b", "c")
		e := newEventServer(t, endpoints)
		defer e.stop()
		p := e.open("?endpoint=a%2Fb&since=2")
		defer p.close()
		p.expect(begins)
		synctest.Wait()
		endpoints.change("c")
		time.Sleep(2 * time.Second)
		endpoints.change("a/b")
		p.expect(newsEvent(4))
		endpoints.remove("a/b")
		p.expect(newsEvent(5))
		endpoints.change("c")
		p.expect(alive)

		again := e.open("?endpoint=c&since=2") // of an older version, so that it has to look
		defer again.close()
		again.expect(begins, newsEvent(6))
		again.expect(alive)
	})
}

// All in the same state ask the status once.
func TestOneQuestionForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endpoints := newTable("a", "b")
		e := newEventServer(t, endpoints)
		defer e.stop()
		var pages []*page
		for range 20 {
			pages = append(pages, e.open("?since=2"))
		}
		synctest.Wait() // for the first round
		for range 20 {  // these come again after a break
			pages = append(pages, e.open("", "Last-Event-ID", "1"))
		}
		for i, p := range pages {
			defer p.close()
			p.expect(begins)
			if i >= 20 {
				p.expect(rowsEvent(2, 2, "", "b", 2))
			}
		}
		endpoints.change("a")
		for _, p := range pages {
			p.expect(rowsEvent(3, 2, "", "a", 3))
		}
		if diff := cmp.Diff([]uint64{2, 1, 2}, endpoints.questions()); diff != "" {
			t.Errorf("changes were asked for since (-want +got):\n%s", diff)
		}
	})
}

// While nobody watches there is nothing to do; who comes later misses nothing.
func TestNobodyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endpoints := newTable("a")
		e := newEventServer(t, endpoints)
		defer e.stop()
		for version := 1; version <= 3; version++ {
			known := fmt.Sprintf("?since=%d", version)
			one, other := e.open(known), e.open(known)
			one.expect(begins, alive)
			one.close()
			other.expect(begins, alive, alive)
			other.close()
			time.Sleep(time.Minute) // for the streams to notice
			asked := len(endpoints.questions())
			endpoints.change("a")
			time.Sleep(time.Hour)
			if n := len(endpoints.questions()) - asked; n != 0 || asked == 0 {
				t.Errorf("asked %d times while somebody watched and %d times while nobody did", asked, n)
			}
			late := e.open(known)
			late.expect(begins, rowsEvent(version+1, 1, "", "a", version+1))
			late.close()
			time.Sleep(time.Minute)
		}
	})
}

// A stream without news says every 5 s that it is alive, for longer than the
// limits of the server.
func TestQuietStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endpoints := newTable("a")
		e := newEventServer(t, endpoints)
		defer e.stop()
		p := e.open("?since=1")
		defer p.close()
		p.expect(begins)
		start := time.Now()
		for range 720 {
			p.expect(alive)
		}
		if d := time.Since(start); d != time.Hour {
			t.Errorf("720 pings within %s", d)
		}
		time.Sleep(time.Second)
		endpoints.change("a")
		p.expect(rowsEvent(2, 1, "", "a", 2))
		sent := time.Now()
		p.expect(alive)
		if d := time.Since(sent); d != 5*time.Second {
			t.Errorf("a ping %s after an event", d)
		}
	})
}

func TestCompressedEvents(t *testing.T) {
	f := func(accept, want string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			endpoints := newTable("a")
			e := newEventServer(t, endpoints)
			defer e.stop()
			p := e.open("", "Accept-Encoding", accept)
			defer p.close()
			if got := p.resp.Header.Get("Content-Encoding"); got != want || p.resp.Header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("Accept-Encoding %q: encoding %q, want %q", accept, got, want)
			}
			if want != "" {
				unpacked, err := gzip.NewReader(p.resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				p.in = bufio.NewReader(unpacked)
			}
			p.expect(begins, rowsEvent(1, 1, "", "a", 1))
			endpoints.change("b")
			p.expect(rowsEvent(2, 2, "", "b", 2), alive)
		})
	}
	f("gzip", "gzip")
	f("deflate, GZIP;q=0.5, br", "gzip")
	f("gzip;q=0", "")
	f("gzip; q=0.00", "")
	f("x-gzip, zstd", "")
}

// At most 256 streams are open, and one that ends makes room.
func TestTooManyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEventServer(t, newTable("a"))
		defer e.stop()
		var pages []*page
		for range 256 {
			pages = append(pages, e.open("?since=1"))
		}
		p := e.open("?since=1")
		if got := jsonErrorOf(t, p.resp); p.resp.StatusCode != http.StatusServiceUnavailable || got != "too many event streams are open" {
			t.Errorf("status %d, %q", p.resp.StatusCode, got)
		}
		p.close()
		pages[7].close()
		synctest.Wait()
		pages[7] = e.open("?since=1")
		pages[7].expect(begins)
		for _, p := range pages {
			p.close()
		}
	})
}

// A page that does not read is left behind; the others are not held up.
func TestPageThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endpoints := newTable("a")
		e := newEventServer(t, endpoints)
		defer e.stop()
		stuck, p := e.open("?since=1"), e.open("?since=1")
		defer stuck.close()
		defer p.close()
		p.expect(begins)
		for version := 2; version < 20; version++ {
			endpoints.change("a")
			start := time.Now()
			p.expect(rowsEvent(version, 1, "", "a", version))
			if d := time.Since(start); d > 2*time.Second {
				t.Fatalf("an event took %s", d)
			}
		}
		// After 5 s the server gave up; what it did not write is not there.
		if rest, _ := io.ReadAll(stuck.in); strings.Contains(string(rest), "id: 19\n") {
			t.Errorf("it got %q", rest)
		}
	})
}

// A large event may take long to write, as long as the client reads.
func TestSlowPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := make([]string, 10_000)
		for i := range names {
			names[i] = fmt.Sprintf("%0100d", i)
		}
		e := newEventServer(t, newTable(names...))
		defer e.stop()
		p := e.open("")
		defer p.close()
		p.expect(begins)
		var got strings.Builder
		for range 16 {
			time.Sleep(time.Second)
			if _, err := io.CopyN(&got, p.in, 64<<10); err != nil {
				t.Fatalf("%d bytes: %v", got.Len(), err)
			}
		}
		if strings.Contains(got.String(), "\n\n") {
			t.Error("the event is not large")
		}
		if rest := p.next(); !strings.HasSuffix(rest, "}]}\n") {
			t.Errorf("the event ends with %.100q", rest)
		}
	})
}

// The end of the server does not wait for streams.
func TestShutdownEndsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEventServer(t, newTable("a"))
		p := e.open("?since=1")
		defer p.close()
		p.expect(begins)
		ended := make(chan string, 1)
		go func() { ended <- p.next() }()
		synctest.Wait()
		if d := e.stop(); d > 100*time.Millisecond {
			t.Errorf("stopped after %s", d)
		}
		if got := <-ended; got != "" {
			t.Errorf("got the event %q", got)
		}
	})
}

// A request that is canceled ends its stream.
func TestCanceledStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newStatusSite(t, newTable("a"))
		defer s.Close()
		e := &eventServer{site: s, t: t, conns: make(chan net.Conn), served: make(chan error, 1)}
		e.http = &http.Server{Handler: s.Handler(), BaseContext: func(net.Listener) context.Context { return ctx }}
		go func() { e.served <- e.http.Serve(&pipeListener{conns: e.conns}) }()
		p := e.open("?since=1")
		defer p.close()
		p.expect(begins)
		cancel()
		if got := p.next(); got != "" {
			t.Errorf("got the event %q", got)
		}
		e.stop()
	})
}

// Over HTTP/2 a deadline that has passed ends a stream even while nothing is
// written, so that none may be left behind.
func TestEventsOverHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endpoints := newTable("a")
		s := newStatusSite(t, endpoints)
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		conns, served := make(chan net.Conn, 1), make(chan error, 1)
		server := &http.Server{Handler: s.Handler(), ReadTimeout: time.Second, WriteTimeout: time.Second, Protocols: &protocols}
		server.RegisterOnShutdown(s.Close)
		go func() { served <- server.Serve(&pipeListener{conns: conns}) }()
		client := &http.Client{Transport: &http.Transport{
			Protocols: &protocols,
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				conns <- far
				return near, nil
			},
		}}
		defer client.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://h/api/v1/events?since=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "identity")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		p := &page{t: t, resp: resp, in: bufio.NewReader(resp.Body)}
		p.expect(begins, alive, alive, alive)
		endpoints.change("a")
		p.expect(rowsEvent(2, 1, "", "a", 2))
		if resp.Proto != "HTTP/2.0" {
			t.Errorf("the protocol is %s", resp.Proto)
		}
		_ = resp.Body.Close()
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-served
	})
}

// What is sent must be what a browser reads as one event: no line breaks in
// the data, whatever the names are.
func TestHostileNames(t *testing.T) {
	names := []string{"a\nb", "c\r\nevent: x", "\u2028", "</script>", "\x00", "\xff"}
	synctest.Test(t, func(t *testing.T) {
		e := newEventServer(t, newTable(names...))
		defer e.stop()
		p := e.open("")
		defer p.close()
		p.expect(begins)
		block := p.next()
		_, data, _ := strings.Cut(block, "data: ")
		var update struct{ Endpoints []struct{ Name string } }
		if err := json.Unmarshal([]byte(data), &update); err != nil || len(update.Endpoints) != len(names) || strings.Contains(block, "\r") {
			t.Errorf("%q: %v", block, err)
		}
	})
}
