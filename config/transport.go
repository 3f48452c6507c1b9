package config

import (
	"context"
	"net"
	"net/http"
	"time"

	promconfig "github.com/prometheus/common/config"
)

// tokenTimeout limits a connection to an OAuth2 token server.
const tokenTimeout = 30 * time.Second

// RoundTripper returns what sends requests with these settings, over connections
// that dial opens. Every request ends with its context, the reading of its reply
// included: a server cannot switch to another protocol, and neither a token server
// that hangs nor net/http's HTTP/2 holds anybody. Errors are those of the settings.
func (h *HTTPClient) RoundTripper(name string, dial promconfig.DialContextFunc, opts ...promconfig.HTTPClientOption) (http.RoundTripper, error) {
	if h.OAuth2 != nil {
		dial = limitTokenConnections(dial)
	}
	rt, err := promconfig.NewRoundTripperFromConfig(h.HTTPClientConfig, name, append(opts, promconfig.WithDialContextFunc(dial))...)
	if err != nil {
		return nil, err
	}
	if h.OAuth2 != nil || h.EnableHTTP2 {
		rt = &waiter{next: rt}
	}
	return noUpgrade{rt}, nil
}

// noUpgrade drops the connection of a reply that switches protocols: net/http
// hands it out as a body that heeds neither the context nor a limit.
type noUpgrade struct{ next http.RoundTripper }

// RoundTrip returns a reply with status 101 without a body.
func (t noUpgrade) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		resp.Body = http.NoBody
	}
	return resp, err
}

// CloseIdleConnections closes the connections that no request uses.
func (t noUpgrade) CloseIdleConnections() { closeIdle(t.next) }

func closeIdle(rt http.RoundTripper) {
	if c, ok := rt.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// requestKey marks the context of a request to the endpoint, which that of a
// request for a token is not derived from.
type requestKey struct{}

// limitTokenConnections returns a dial function whose connections end after a
// while where they are for a token, since nothing else limits such a request.
func limitTokenConnections(dial promconfig.DialContextFunc) promconfig.DialContextFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(requestKey{}) != nil {
			return dial(ctx, network, address)
		}
		ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
		defer cancel()
		c, err := dial(ctx, network, address)
		if err == nil {
			err = c.SetDeadline(time.Now().Add(tokenTimeout))
		}
		return c, err
	}
}
