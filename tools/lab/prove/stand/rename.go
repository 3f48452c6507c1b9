package stand

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
)

// maxPage bounds a page of metrics in bytes.
const maxPage = 16 << 20

// NewRenamer starts a server that passes the page of an exporter on, with one
// metric renamed, as if the exporter's authors had done so.
func NewRenamer(exporter, from, to string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, err := fetch(r, "http://"+exporter+r.URL.Path)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(w, strings.ReplaceAll(page, from, to))
	}))
}

// fetch gets a page in the text format.
func fetch(r *http.Request, url string) (string, error) {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	page, err := io.ReadAll(io.LimitReader(response.Body, maxPage))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", response.StatusCode)
	}
	return string(page), err
}
