package app

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

func TestIsAddress(t *testing.T) {
	for target, want := range map[string]bool{
		"localhost:8000": true, "127.0.0.1:8000": true, "[::1]:8000": true, "vllm.internal:443/v1": true,
		"llama-prod": false, "localhost": false, ":8000": false, "host:http": false, "host:0": false, "host:70000": false,
		"me:hunter2@host:80": false, "me@host:80": false, "host:80?a": false, "": false,
	} {
		if got := isAddress(target); got != want {
			t.Errorf("%q: got %t", target, got)
		}
	}
}

// TestSchemeIsFound checks which scheme is used with servers that answer plain HTTP where they
// speak TLS, as those of Go and nginx do, that hang up, and that are not there.
func TestSchemeIsFound(t *testing.T) {
	f := func(what, hostPort, want string) {
		t.Helper()
		if got := schemeAt(t.Context(), hostPort); got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
	address := func(url string) string { return url[strings.Index(url, "://")+3:] }
	f("plain", address(testlab.Serve(t, http.NotFoundHandler())), "http")
	f("plain that answers 400", address(testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
	}))), "http")
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	f("TLS", address(secure.URL), "https")

	gone := httptest.NewServer(nil)
	gone.Close()
	f("nothing", address(gone.URL), "http")

	// A server of TLS that answers plain HTTP with nothing but the end.
	l, err := tls.Listen("tcp", "127.0.0.1:0", secure.TLS)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func(conn *tls.Conn) {
				_ = conn.Handshake()
				conn.Close()
			}(conn.(*tls.Conn))
		}
	}()
	f("TLS alone", l.Addr().String(), "https")
}

// TestTargetWithoutScheme checks that commands take HOST:PORT and say what they ask.
func TestTargetWithoutScheme(t *testing.T) {
	t.Parallel()
	url := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	hostPort := strings.TrimPrefix(url, "http://")
	says := "inference_exporter: " + hostPort + " has no scheme: asking " + url + "\n"
	file := writeFile(t, "exporter.yml", "modules: {mine: {input_tokens: 16, output_tokens: 2}}\nendpoints: [{name: llama-prod, url: 'http://127.0.0.1:9'}]\n")
	f := func(args ...string) {
		t.Helper()
		if got := runToEnd(t, args...); got.code != cli.ExitOK || got.stderr != says || !strings.Contains(got.stdout, url) {
			t.Errorf("%q: exit code %d, stderr %q:\n%s", args, got.code, got.stderr, got.stdout)
		}
	}
	f("probe", hostPort)
	f("detect", hostPort)
	f("probe", hostPort, "--config.file="+file, "--module=mine")
	refused(t, cli.ExitUsage, []string{`inference_exporter: no endpoint named "[^"]+" in \S+, and it is not a URL; did you mean "llama-prod"\?`},
		"probe", "lama-prod", "--config.file="+file)

	secure := httptest.NewUnstartedServer(simulator.New(testlab.Quick()).Handler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	got := runToEnd(t, "probe", strings.TrimPrefix(secure.URL, "https://"), "--insecure")
	if got.code != cli.ExitOK || !strings.Contains(got.stderr, "asking "+secure.URL+"\n") {
		t.Errorf("TLS: exit code %d, stderr %q", got.code, got.stderr)
	}
}
