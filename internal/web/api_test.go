package web

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/status"
)

func TestAnswersOfTheAPI(t *testing.T) {
	s := newSiteWith(t, everything)
	defer s.Close()
	f := func(path string, status int, kind, want string) {
		t.Helper()
		resp := s.ask(http.MethodGet, path)
		body := readAll(t, resp.Body)
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != status || got != kind || body != want {
			t.Errorf("%s: status %d, %s:\n%s\nwant %d, %s:\n%s", path, resp.StatusCode, got, body, status, kind, want)
		}
	}
	const kind = "application/json"
	f("/api/v1/endpoints", http.StatusOK, kind,
		`{"version":2,"at":1000,"states":{"up":2},"endpoints":[{"name":"a","url":"","state":"up","since":1},{"name":"b","url":"","state":"up","since":2}]}`)
	f("/api/v1/endpoints/b", http.StatusOK, kind, `{"name":"b","url":"","state":"up","at":1000,"version":2,"series":null}`)
	f("/api/v1/endpoints/b/explain", http.StatusOK, kind, `{"at":1,"endpoint":"b","state":"up","findings":[]}`)
	f("/api/v1/endpoints/c/explain", http.StatusNotFound, kind, `{"error":"no endpoint with this name"}`)
	f("/api/v1/endpoints/c", http.StatusNotFound, kind, `{"error":"no endpoint with this name"}`)
	f("/api/v1/endpoints/", http.StatusNotFound, kind, `{"error":"no endpoint with this name"}`)
	f("/api/v1/gateways", http.StatusOK, kind, `{"at":0,"gateways":null}`)
	f("/api/v1/gpus", http.StatusOK, kind, `{"state":"ok","gpus":null}`)
	f("/api/v1/self", http.StatusOK, kind, `{"info":{"version":"1.2.3","config_ok":false,"endpoints":0},"metrics":[]}`)
	f("/api/v1/config", http.StatusOK, "text/yaml; charset=utf-8", "endpoints: []\n")
	f("/api/v1/nothing", http.StatusNotFound, kind, `{"error":"there is no such path in the API"}`)
	f("/api/", http.StatusNotFound, kind, `{"error":"there is no such path in the API"}`)
}

// jsonErrorOf returns the text of an error of the API.
func jsonErrorOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	var said struct{ Error string }
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s: %v", resp.Header.Get("Content-Type"), err)
	}
	return said.Error
}

// What is not given is not there, and the page says so.
func TestAbsentPages(t *testing.T) {
	s := newSiteWith(t)
	resp := s.ask(http.MethodGet, "/api/v1/gpus")
	if got := jsonErrorOf(t, resp); resp.StatusCode != http.StatusNotFound || got != "the GPUs are not read" {
		t.Errorf("status %d, %q", resp.StatusCode, got)
	}
}

func TestErrorsOfTheAPI(t *testing.T) {
	s := newSiteWith(t, everything, func(o *Options) {
		o.GPUs = func() *status.GPUPage { return &status.GPUPage{At: math.NaN()} }
		o.Config = func() ([]byte, error) { return nil, errors.New("no paper") }
	})
	defer s.Close()
	for _, path := range []string{"/api/v1/gpus", "/api/v1/config"} {
		resp := s.ask(http.MethodGet, path)
		if got := jsonErrorOf(t, resp); resp.StatusCode != http.StatusInternalServerError || got != "building the answer failed; see the log" {
			t.Errorf("%s: status %d, %q", path, resp.StatusCode, got)
		}
	}
	if got := s.log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "NaN") || !strings.Contains(got, "no paper") {
		t.Errorf("logged %q", got)
	}
}

// An endpoint may have any name; in a path it is escaped.
func TestNamesInPaths(t *testing.T) {
	names := []string{"a/b", "/", "//", "ä b", "..", ".", "../..", "%", "%2F", "a?b#c", "a+b&c=d;e", `\"<b>`, "日本", "-", " ", "\x7f"}
	s := newStatusSite(t, newTable(names...))
	defer s.Close()
	for _, name := range names {
		path := "/api/v1/endpoints/" + strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
		resp := s.ask(http.MethodGet, path)
		var got struct{ Name string }
		if err := json.Unmarshal([]byte(readAll(t, resp.Body)), &got); err != nil || got.Name != name {
			t.Errorf("%q: %s has status %d, name %q, %v", name, path, resp.StatusCode, got.Name, err)
		}
		page := strings.Replace(path, "/api/v1/endpoints/", "/endpoint/", 1)
		if resp := s.ask(http.MethodGet, page); resp.StatusCode != http.StatusOK {
			t.Errorf("%q: %s has status %d", name, page, resp.StatusCode)
		}
	}
	// Some proxies take %2F for a slash.
	if resp := s.ask(http.MethodGet, "/api/v1/endpoints/a/b"); resp.StatusCode != http.StatusOK {
		t.Errorf("a slash: status %d", resp.StatusCode)
	}
}

// Many who ask at the same time cost no more than one.
func TestPageIsKeptForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endpoints := newTable("a")
		s := newStatusSite(t, endpoints)
		defer s.Close()
		f := func(fleets int, want string) {
			t.Helper()
			body := readAll(t, s.ask(http.MethodGet, "/api/v1/endpoints").Body)
			if endpoints.fleets != fleets || !strings.Contains(body, want) {
				t.Errorf("asked %d times, want %d, with %s in %s", endpoints.fleets, fleets, want, body)
			}
		}
		f(1, `"version":1`)
		endpoints.change("b")
		time.Sleep(time.Second - 1)
		f(1, `"version":1`)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		f(2, `"version":2`)
	})
}

// Those who watch an endpoint get an event of a change at once. They must not get a
// page from before it, as no event would make them request it again.
func TestDetailIsKeptUntilItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := make([]string, maxDetails+1)
		for i := range names {
			names[i] = fmt.Sprintf("e%d", i)
		}
		endpoints := newTable(names...)
		s := newStatusSite(t, endpoints)
		defer s.Close()
		f := func(name string, details int, want string) {
			t.Helper()
			body := readAll(t, s.ask(http.MethodGet, "/api/v1/endpoints/"+name).Body)
			if endpoints.details != details || !strings.Contains(body, want) {
				t.Errorf("asked %d times, want %d, with %s in %s", endpoints.details, details, want, body)
			}
		}
		f("e0", 1, `"version":1`)
		f("e0", 1, `"name":"e0"`)
		endpoints.change("e0")
		f("e0", 2, fmt.Sprintf(`"version":%d`, maxDetails+2))
		f("e0", 2, `"name":"e0"`)
		time.Sleep(time.Second)
		synctest.Wait()
		f("e0", 3, `"name":"e0"`)
		for i, name := range names[1:] { // more than are kept
			f(name, 4+i, `"name":"`+name+`"`)
		}
		f("e0", 4+maxDetails, `"name":"e0"`)
		endpoints.remove("e0")
		if resp := s.ask(http.MethodGet, "/api/v1/endpoints/e0"); resp.StatusCode != http.StatusNotFound {
			t.Errorf("one that is gone: status %d", resp.StatusCode)
		}
	})
}

func TestErrorIsNotKept(t *testing.T) {
	var k keptPage
	if _, err := k.get(func() ([]byte, error) { return []byte("part"), errors.New("no paper") }); err == nil {
		t.Error("no error")
	}
	if page, err := k.get(func() ([]byte, error) { return []byte("whole"), nil }); string(page) != "whole" || err != nil {
		t.Errorf("%q, %v", page, err)
	}
}

func TestTurnsOfTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		s := newSiteWith(t, everything, func(o *Options) {
			o.GPUs = func() *status.GPUPage { <-finish; return nil }
		})
		for range maxAnswers {
			go s.ask(http.MethodGet, "/api/v1/gpus")
		}
		synctest.Wait()
		start := time.Now()
		resp := s.ask(http.MethodGet, "/api/v1/self")
		want := "8 such requests are running, and none ended within 5s"
		if got := jsonErrorOf(t, resp); resp.StatusCode != http.StatusServiceUnavailable || got != want || time.Since(start) != 5*time.Second {
			t.Errorf("status %d, %q after %s", resp.StatusCode, got, time.Since(start))
		}
		close(finish)
	})
}

func TestCompressionOfTheAPI(t *testing.T) {
	names := make([]string, 100)
	for i := range names {
		names[i] = strings.Repeat("x", i+1)
	}
	s := newStatusSite(t, newTable(names...))
	defer s.Close()
	for _, encoding := range []string{"gzip", "zstd"} {
		resp := s.ask(http.MethodGet, "/api/v1/endpoints", "Accept-Encoding", encoding)
		if got := resp.Header.Get("Content-Encoding"); got != encoding || resp.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("encoding %q, want %q, headers %v", got, encoding, resp.Header)
		}
	}
}

// What is compressed once for many is what the others get, and says so.
func TestKeptPagesAreCompressedOnce(t *testing.T) {
	s := newStatusSite(t, newTable("a"))
	defer s.Close()
	for _, path := range []string{"/api/v1/endpoints", "/api/v1/endpoints/a"} {
		plain := readAll(t, s.ask(http.MethodGet, path, "Accept-Encoding", "identity").Body)
		resp := s.ask(http.MethodGet, path, "Accept-Encoding", "gzip, zstd")
		if got := resp.Header.Get("Content-Encoding"); got != "gzip" || resp.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: encoding %q, vary %q", path, got, resp.Header.Get("Vary"))
		}
		r, err := gzip.NewReader(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, r); got != plain || plain == "" {
			t.Errorf("%s: %q, want %q", path, got, plain)
		}
	}
}
