package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
)

// isAddress reports whether a target is HOST:PORT, with a path or without: a URL that lacks
// its scheme.
func isAddress(target string) bool {
	hostPort, _, _ := strings.Cut(target, "/")
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil || host == "" || strings.ContainsAny(host, "@?# ") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// withScheme returns a target that is an address as the URL of what answers there, and says
// which; any other target as it is.
func withScheme(ctx context.Context, target string, stderr io.Writer) string {
	if fleet.IsURL(target) || !isAddress(target) {
		return target
	}
	hostPort, _, _ := strings.Cut(target, "/")
	url := schemeAt(ctx, hostPort) + "://" + target
	fmt.Fprintf(stderr, "inference_exporter: %s has no scheme: asking %s\n", target, url)
	return url
}

// schemeTimeout is how long one attempt to find out the scheme may take.
const schemeTimeout = 3 * time.Second

// schemeAt returns https if a server speaks TLS and no plain HTTP, else http: also where
// nothing answers, which the probe then reports. It sends no key.
func schemeAt(ctx context.Context, hostPort string) string {
	if !speaksHTTP(ctx, hostPort) && speaksTLS(ctx, hostPort) {
		return "https"
	}
	return "http"
}

// speaksHTTP reports whether a server answers plain HTTP. Status 400 does not count: servers
// answer it to plain HTTP where they want TLS.
func speaksHTTP(ctx context.Context, hostPort string) bool {
	ctx, cancel := context.WithTimeout(ctx, schemeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+hostPort+"/", nil)
	if err != nil {
		return false
	}
	req.Header.Set("User-Agent", fleet.UserAgent())
	transport := foreign.NewTransport(foreign.Limits{Time: schemeTimeout, Bytes: 1})
	transport.Proxy = nil // as probes go
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode != http.StatusBadRequest
}

// speaksTLS reports whether a server completes a TLS handshake. Its certificate is left to the
// probe to verify: nothing is sent on this connection.
func speaksTLS(ctx context.Context, hostPort string) bool {
	ctx, cancel := context.WithTimeout(ctx, schemeTimeout)
	defer cancel()
	conn, err := foreign.Limits{Time: schemeTimeout, Bytes: 1}.Dial(ctx, "tcp", hostPort)
	if err != nil {
		return false
	}
	defer conn.Close()
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) == nil
}
