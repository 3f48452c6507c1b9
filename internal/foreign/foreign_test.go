package foreign

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// hostile answers each connection with what write sends, until that fails.
func hostile(t *testing.T, write func(w io.Writer) error) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					_ = write(c)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// repeat writes text until that fails.
func repeat(w io.Writer, text string) error {
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
}

// hang waits until the other side has gone.
func hang(w io.Writer) error {
	_, err := io.Copy(io.Discard, w.(net.Conn))
	return err
}

// TestLimits lets servers misbehave in each way that a limit is for, also towards a
// client of others that has the transport alone and reads bodies without an end.
func TestLimits(t *testing.T) {
	const body = 64 << 10
	kilobyte := strings.Repeat("x", 1<<10)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 100 * body >> 10 {
		_, _ = io.WriteString(z, kilobyte)
	}
	z.Close()
	followed := hostile(t, func(w io.Writer) error {
		t.Error("a redirect was followed")
		return nil
	})
	type answer struct {
		length, status int
		err            error
	}
	none := answer{err: errors.New("any")}
	for name, c := range map[string]struct {
		write      func(w io.Writer) error
		own, other answer // of our client, and of one with the transport alone
	}{
		"as long as allowed": {func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", body, strings.Repeat("x", body))
			return err
		}, answer{body, 200, nil}, answer{body, 200, nil}},
		"endless body": {func(w io.Writer) error {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\n\r\n")
			return repeat(w, kilobyte)
		}, answer{err: ErrTooLarge}, answer{err: ErrTooLarge}},
		"endless chunks of a byte": {func(w io.Writer) error {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			return repeat(w, "1\r\nx\r\n")
		}, none, none},
		"body that stops": {func(w io.Writer) error {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx")
			return hang(w)
		}, none, none},
		"no reply":     {hang, none, none},
		"endless head": {func(w io.Writer) error { return repeat(w, "HTTP/1.1 200 OK\r\nX: "+kilobyte) }, none, none},
		"informational replies": {func(w io.Writer) error {
			return repeat(w, "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n")
		}, none, none},
		"other protocol": {func(w io.Writer) error {
			_, _ = io.WriteString(w, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			return hang(w)
		}, answer{0, 101, nil}, none},
		"endless other protocol": {func(w io.Writer) error {
			_, _ = io.WriteString(w, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			return repeat(w, kilobyte)
		}, answer{0, 101, nil}, answer{err: ErrTooLarge}},
		"redirect": {func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "HTTP/1.1 307 Temporary Redirect\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", followed)
			return err
		}, answer{0, 307, nil}, none},
		"compression": {func(w io.Writer) error {
			_, _ = fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", bomb.Len())
			_, err := w.Write(bomb.Bytes())
			return err
		}, answer{bomb.Len(), 200, nil}, answer{bomb.Len(), 200, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := hostile(t, c.write)
			limits := Limits{Time: time.Second, Bytes: body}
			check := func(whose string, client *http.Client, read func(io.Reader) ([]byte, error), want answer) {
				t.Helper()
				var got answer
				resp, err := client.Get(url)
				if got.err = err; err == nil {
					defer resp.Body.Close()
					text, err := read(resp.Body)
					got = answer{len(text), resp.StatusCode, err}
				}
				switch {
				case want.err == nil && got != want:
					t.Errorf("%s: got %+v, want %+v", whose, got, want)
				case want.err != nil && (got.err == nil || errors.Is(want.err, ErrTooLarge) && !errors.Is(got.err, ErrTooLarge)):
					t.Errorf("%s: got %+v, want error %v", whose, got, want.err)
				}
			}
			check("ours", NewClient(limits), func(r io.Reader) ([]byte, error) { return ReadAll(r, body) }, c.own)
			check("another", &http.Client{Transport: NewTransport(limits)}, io.ReadAll, c.other)
		})
	}
}

// TestGunzip bounds what is read, also where nothing comes of it.
func TestGunzip(t *testing.T) {
	var empty bytes.Buffer
	gzip.NewWriter(&empty).Close()
	r, err := Gunzip(bytes.NewReader(bytes.Repeat(empty.Bytes(), 1000)), 500)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := ReadAll(r, 10); !errors.Is(err, ErrTooLarge) {
		t.Errorf("1000 parts without content: %q, %v", text, err)
	}
	var text bytes.Buffer
	z := gzip.NewWriter(&text)
	_, _ = io.WriteString(z, "a page")
	z.Close()
	if r, err = Gunzip(&text, int64(text.Len())); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadAll(r, 6); string(got) != "a page" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := ReadAll(strings.NewReader("a page"), 5); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a byte more than the limit: %v", err)
	}
}
