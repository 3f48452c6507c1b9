package cluster

import (
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// gate is the API server for one exporter: it counts what is asked of it, and can cut connections and refuse new ones.
type gate struct {
	*httptest.Server
	ca     string      // a file with its certificate
	closed atomic.Bool // refuses requests
	bytes  atomic.Int64

	mu       sync.Mutex
	requests map[string]int // by verb and resource, such as "watch pods"
}

// startGate starts one until the end of the test.
func startGate(t *testing.T) *gate {
	t.Helper()
	transport, err := rest.TransportFor(&rest.Config{Host: stand.Admin.Host, TLSClientConfig: stand.Admin.TLSClientConfig})
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(stand.Admin.Host)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{requests: map[string]int{}, ca: filepath.Join(t.TempDir(), "ca.crt")}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server) },
		ModifyResponse: func(resp *http.Response) error {
			resp.Body = &countedBody{resp.Body, &g.bytes}
			return nil
		},
	}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.closed.Load() {
			panic(http.ErrAbortHandler)
		}
		verb := "list "
		if r.URL.Query().Has("watch") {
			verb = "watch "
		}
		g.mu.Lock()
		g.requests[verb+path.Base(r.URL.Path)]++
		g.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	g.EnableHTTP2, g.Config.ErrorLog = true, proxy.ErrorLog
	g.StartTLS()
	t.Cleanup(func() {
		g.CloseClientConnections() // watches do not end by themselves
		g.Close()
	})
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw})
	if err := os.WriteFile(g.ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return g
}

// config is a configuration of discovery that asks the gate in place of the API server.
func (g *gate) config(text string) string {
	return strings.NewReplacer(stand.Admin.Host, g.URL, stand.CA, g.ca).Replace(text)
}

// asked returns how often what was asked.
func (g *gate) asked() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.requests)
}

type countedBody struct {
	io.ReadCloser
	n *atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}
