package engine

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
)

// BenchmarkScrape500 is one round over 500 servers, each with a typical page of
// vLLM. The work of the servers, which only write a prepared page, is in it.
func BenchmarkScrape500(b *testing.B) {
	const servers = 500
	page := vllmPage(1, 1000)
	s := serve(b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		w.Write(page)
	})
	mappings, err := NewMappings(nil)
	if err != nil {
		b.Fatal(err)
	}
	cfg := &config.Endpoint{Name: "bench", URL: urlOf(b, s.URL)}
	cfg.Servers.Timeout = model.Duration(time.Minute)
	for i := range servers {
		cfg.Servers.URLs = append(cfg.Servers.URLs, urlsOf(b, fmt.Sprintf("%s/%d/metrics", s.URL, i))...)
	}
	e, err := New(cfg, Options{Mappings: mappings})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Close)
	b.ReportAllocs()
	for b.Loop() {
		for _, st := range e.Scrape(b.Context(), Known{}) {
			if st.State != Up {
				b.Fatalf("%s is %s: %v", st.Server, st.State, st.Err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*servers), "µs/page")
	b.ReportMetric(float64(len(page)), "page-bytes")
}
