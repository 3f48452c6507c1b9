package stand

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestRenamer(t *testing.T) {
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, "# TYPE old counter\nold 1\nother 2\n")
	}))
	defer exporter.Close()
	front := NewRenamer(exporter.Listener.Addr().String(), "old", "new")
	defer front.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{
		"/metrics": "# TYPE new counter\nnew 1\nother 2\n",
		"/nothing": "status 404\n",
	} {
		response, err := client.Get(front.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if string(body) != want {
			t.Errorf("%s: %q, want %q", path, body, want)
		}
	}
}
