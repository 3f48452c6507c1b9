package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// keepAsking has n users ask one request after the other each, until ctx ends.
func keepAsking(ctx context.Context, url string, n int) *sync.WaitGroup {
	all := new(sync.WaitGroup)
	for i := range n {
		all.Go(func() {
			for ctx.Err() == nil {
				body := fmt.Sprintf(`{"prompt":"%d %s","max_tokens":10,"stream":true}`, i, strings.Repeat("word ", 50))
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", strings.NewReader(body))
				if err != nil {
					return
				}
				if resp, err := foreign.NewClient(foreign.Limits{}).Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body) // of a replica that is lost it ends early
					_ = resp.Body.Close()
				}
			}
		})
	}
	return all
}

// A replica that is lost under load fails requests until the gateway notices; then the
// others answer all of them, with longer queues, until it is back.
func TestDrill(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		var replicas []*simulator.Replica
		var pages []string
		for range 3 {
			r, err := simulator.NewReplica(simulator.Options{Slots: 2, PrefillTokensPerSecond: 1e5, DecodeStep: 4 * time.Millisecond}, testlab.Listener(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(r.Drop)
			replicas, pages = append(replicas, r), append(pages, r.URL()+"/metrics")
		}
		// Two gateways, of which the first notices nothing and the second everything at once: in
		// between is when the gateway notices, however long probes take.
		var front atomic.Pointer[simulator.Gateway]
		noticing := func(after time.Duration) *simulator.Gateway {
			g := simulator.NewGateway(simulator.GatewayOptions{NoticeAfter: after}, replicas)
			t.Cleanup(g.Close)
			return g
		}
		front.Store(noticing(time.Hour))
		url := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { front.Load().Handler().ServeHTTP(w, r) }))
		ctx, stop := context.WithCancel(testlab.Context(t))
		load := keepAsking(ctx, url, 12)
		t.Cleanup(func() { stop(); load.Wait() })

		l := newLab(t)
		l.Scraping = schedule.New(schedule.Options{})
		if err := l.Apply(planOf(parse(t, fmt.Sprintf("modules: {m: {input_tokens: 50, output_tokens: 4}}\nendpoints: [{name: e, url: %q, modules: [m], servers: {urls: [%s]}}]",
			url, strings.Join(pages, ", "))))); err != nil {
			t.Fatal(err)
		}
		read := func() { l.endpoint("e").scrape.read(testlab.Context(t), schedule.Run{}) }
		failed := func(p metricsPage) float64 {
			return p.Probes("e") - p.Sum("inference_probe_results_total", "outcome", "success")
		}
		servers := func(up, down float64) {
			t.Helper()
			if p := l.page(); p.Sum("inference_endpoint_servers", "state", "up") != up || p.Sum("inference_endpoint_servers", "state", "down") != down {
				t.Errorf("%v servers up, %v down, want %v and %v", p.Sum("inference_endpoint_servers", "state", "up"), p.Sum("inference_endpoint_servers", "state", "down"), up, down)
			}
		}
		l.times(1, "e")
		read()
		if p := l.times(20, "e"); failed(p) > 0 {
			t.Fatalf("%v probes failed before the drill", failed(p))
		}
		read()
		servers(3, 0)
		sum, count := queueOf(l)
		before := sum / count

		replicas[1].Drop()
		l.until(500, "e", "failed probe", func(p metricsPage) bool { return failed(p) > 0 })
		read()
		servers(2, 1)
		front.Store(noticing(time.Nanosecond))
		lost := failed(l.page())
		read()
		sum, count = queueOf(l)
		if p := l.times(20, "e"); failed(p) != lost {
			t.Errorf("%v probes failed after the gateway noticed", failed(p)-lost)
		}
		read()
		sumAfter, countAfter := queueOf(l)
		after := (sumAfter - sum) / (countAfter - count)
		t.Logf("queue of the servers that are left: %.4f s, before %.4f s; %v probes failed", after, before, lost)
		if after <= before {
			t.Errorf("the queue is %.4f s, before %.4f s", after, before)
		}
		if err := replicas[1].Start(); err != nil {
			t.Fatal(err)
		}
		if p := l.times(10, "e"); failed(p) != lost {
			t.Errorf("%v probes failed after the replica came back", failed(p)-lost)
		}
		read()
		servers(3, 0)
	})
}

// queueOf is the time that requests have spent in the queues of the servers, in seconds, and how
// many these were, since the readings began.
func queueOf(l *lab) (sum, count float64) {
	for _, s := range l.page()["inference_server_"+string(config.QueueTime)+"_seconds"].GetMetric() {
		sum += s.GetHistogram().GetSampleSum()
		count += float64(s.GetHistogram().GetSampleCount())
	}
	return sum, count
}
