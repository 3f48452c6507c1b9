package web

import (
	"bufio"
	"context"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/fleet"
)

// FuzzHandler checks that no request panics, that every answer has the headers,
// and that only those fail that may: what is not ready, not possible or closed.
func FuzzHandler(f *testing.F) {
	s := newSiteWith(f, everything, func(o *Options) {
		o.Reload = func(context.Context) error { return errors.New("no paper") }
		o.Probe = func(context.Context, fleet.ProbeRequest) (*fleet.ProbeAnswer, error) {
			return nil, &fleet.Refusal{Reason: "no"}
		}
	})
	s.Close() // streams would not end
	may := map[string]int{
		"/-/ready": http.StatusServiceUnavailable, "/-/reload": http.StatusInternalServerError,
		"/api/v1/events": http.StatusServiceUnavailable,
	}
	for _, path := range allPaths(f) {
		f.Add("GET", path, "", "")
		f.Add("POST", path, "since=1&endpoint=a", "Origin: http://h\r\nSec-Fetch-Site: cross-site\r\n")
	}
	f.Add("GET", "/endpoint/a%2Fb", "x=%", "Range: bytes=1-2\r\nAccept-Encoding: gzip\r\n")
	f.Add("HEAD", "/assets/../page.html", "", "If-None-Match: \"\r\nIf-Range: x\r\n")
	f.Add("CONNECT", "h:1", "", "Accept: */*;q=x\r\n")
	f.Add("OPTIONS", "*", "", "")
	f.Fuzz(func(t *testing.T, method, path, query, headers string) {
		request := method + " " + path + "?" + query + " HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n"
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(request)))
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r.WithContext(t.Context()))
		if w.Code >= 500 && w.Code != may[r.URL.Path] {
			t.Errorf("%q: status %d, %s", request, w.Code, w.Body)
		}
		if name := missingHeader(w.Header()); name != "" {
			t.Errorf("%q: status %d without the header %s", request, w.Code, name)
		}
	})
}

// FuzzSince checks that a version is a whole number, and that number.
func FuzzSince(f *testing.F) {
	for _, seed := range []string{"", "0", "18446744073709551615", "18446744073709551616", "-1", "+1", "1.5", " 1", "0x1", "1_000", "١"} {
		f.Add(seed, "")
		f.Add("7", seed)
	}
	f.Fuzz(func(t *testing.T, query, last string) {
		r := &http.Request{URL: &url.URL{RawQuery: url.Values{"since": {query}}.Encode()}, Header: http.Header{"Last-Event-Id": {last}}}
		got, err := sinceOf(r)
		text := last
		if text == "" {
			text = query
		}
		want, good := new(big.Int).SetString(text, 10)
		good = good && want.IsUint64() && strings.Trim(text, "0123456789") == ""
		switch {
		case text == "":
			if got != 0 || err != nil {
				t.Errorf("nothing is %d, %v", got, err)
			}
		case good != (err == nil):
			t.Errorf("%q is %d, %v", text, got, err)
		case good && got != want.Uint64():
			t.Errorf("%q is %d", text, got)
		}
	})
}
