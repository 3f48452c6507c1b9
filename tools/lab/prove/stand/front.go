package stand

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
)

// newTLSFront starts a server that speaks TLS in front of one that does not, and
// reports to clients what is left of their quota.
func newTLSFront(behind string) *httptest.Server {
	target, err := url.Parse(behind)
	if err != nil {
		panic(err) // the address of a listener
	}
	quiet := log.New(io.Discard, "", 0) // answers and connections are cut on purpose
	front := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		FlushInterval: -1, // token by token
		ErrorLog:      quiet,
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("x-ratelimit-remaining-requests", "4999")
			r.Header.Set("x-ratelimit-remaining-tokens", "149984")
			return nil
		},
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	})
	front.Config.ErrorLog = quiet
	front.StartTLS()
	return front
}
