package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// pipeListener is a network in memory, so that a bubble of synctest can hold
// client and server.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serving is a server at work and a client of it.
type serving struct {
	*Server
	t    *testing.T
	base string
	http *http.Client
	// header is added to each request.
	header http.Header
	stop   func()
}

// serve runs a server behind a pipe, or behind TCP on the loopback.
func serve(t *testing.T, o Options, tcp bool) *serving {
	t.Helper()
	transport := &http.Transport{DisableCompression: true}
	v := &serving{Server: New(o), t: t, base: "http://simulator", http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	var l net.Listener
	if tcp {
		var err error
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		v.base = "http://" + l.Addr().String()
	} else {
		pipe := newPipeListener()
		transport.DialContext = pipe.dial
		l = pipe
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- v.Serve(ctx, l) }()
	v.stop = func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
	}
	return v
}

const trace = "0af7651916cd43dd8448eb211c80319c"

// answer is what a client got.
type answer struct {
	status  int
	header  http.Header
	body    string
	err     error         // of the request or of its body
	took    time.Duration // to the end of the body
	reads   []string      // what each read returned
	readEnd []time.Time
}

// post sends a request and reads at most limit bytes of the reply, until ctx
// ends.
func (v *serving) post(ctx context.Context, path, body string, limit int) answer {
	v.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.base+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	maps.Copy(req.Header, v.header)
	req.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	begin := time.Now()
	res, err := v.http.Do(req)
	if err != nil {
		return answer{err: err, took: time.Since(begin)}
	}
	defer func() { _ = res.Body.Close() }()
	a := answer{status: res.StatusCode, header: res.Header}
	var all strings.Builder
	buf := make([]byte, 64<<10)
	for all.Len() < limit {
		n, err := res.Body.Read(buf)
		if n > 0 {
			all.Write(buf[:n])
			a.reads = append(a.reads, string(buf[:n]))
			a.readEnd = append(a.readEnd, time.Now())
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			a.err = err
			break
		}
	}
	a.body, a.took = all.String(), time.Since(begin)
	return a
}

func (v *serving) get(path string) (int, string) {
	v.t.Helper()
	res, err := v.http.Get(v.base + path)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// getJSON decodes the reply into v.
func (v *serving) getJSON(path string, into any) {
	v.t.Helper()
	status, body := v.get(path)
	if status != http.StatusOK {
		v.t.Fatalf("GET %s: status %d", path, status)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		v.t.Fatalf("GET %s: %v", path, err)
	}
}
