package simulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// gatewayTest is a gateway in front of replicas, and a client of it.
type gatewayTest struct {
	*Gateway
	t    *testing.T
	base string
}

func serveGateway(t *testing.T, o GatewayOptions, replicas int, engine Options) *gatewayTest {
	t.Helper()
	var all []*Replica
	for range replicas {
		r, err := NewReplica(engine, net.Listen)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Drop)
		all = append(all, r)
	}
	v := &gatewayTest{Gateway: NewGateway(o, all), t: t}
	s := httptest.NewServer(v.Handler())
	t.Cleanup(func() { s.CloseClientConnections(); s.Close(); v.Close() })
	v.base = s.URL
	return v
}

// ask sends a request to the end of its reply.
func (v *gatewayTest) ask(id int, prompt string, output int) (status int, err error) {
	body := fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"stream":true}`, prompt, output)
	req, err := http.NewRequest(http.MethodPost, v.base+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Traceparent", "00-"+traceOf(id)+"-b7ad6b7169203331-01")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

func traceOf(id int) string { return fmt.Sprintf("%032x", id+1) }

func (v *gatewayTest) do(method, path string) (int, string) {
	v.t.Helper()
	req, err := http.NewRequest(method, v.base+path, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// Past the limit requests wait at the gateway, and its page and its record of each request
// have the same times.
func TestGatewayQueues(t *testing.T) {
	v := serveGateway(t, GatewayOptions{Limit: 1, NetworkDelay: 5 * ms}, 1, Options{PrefillTokensPerSecond: 1e6, DecodeStep: 20 * ms})
	var clients sync.WaitGroup
	for i := range 3 {
		clients.Go(func() {
			if status, err := v.ask(i, "one two", 2); status != http.StatusOK || err != nil {
				t.Errorf("status %d, %v", status, err)
			}
		})
	}
	clients.Wait()
	var sum time.Duration
	var first, last time.Time // arrival, and the latest end of a wait
	for i := range 3 {
		r, ok := v.Request(traceOf(i))
		if !ok || r.Network != 5*ms || r.EngineQueue < 0 || r.Prefill <= 0 || r.Rest < 0 {
			t.Errorf("%d: %+v, %t", i, r, ok)
		}
		sum += r.Queue
		if first.IsZero() || r.arrival.Before(first) {
			first = r.arrival
		}
		if end := r.arrival.Add(r.Queue); end.After(last) {
			last = end
		}
	}
	if waited := last.Sub(first); waited < 80*ms { // for two requests of two tokens each before it
		t.Errorf("the last waited for %s", waited)
	}
	_, page := v.do(http.MethodGet, "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	h := families["inference_extension_flow_control_request_queue_duration_seconds"].GetMetric()[0].GetHistogram()
	if h.GetSampleCount() != 3 || h.GetSampleSum() != sum.Seconds() && (h.GetSampleSum()-sum.Seconds())*(h.GetSampleSum()-sum.Seconds()) > 1e-12 {
		t.Errorf("the page has %d requests that waited for %v s, want 3 and %v", h.GetSampleCount(), h.GetSampleSum(), sum.Seconds())
	}
	if n := families["inference_pool_ready_pods"].GetMetric()[0].GetGauge().GetValue(); n != 1 {
		t.Errorf("%v ready", n)
	}
}

// Requests that begin alike meet at one replica, and go on to the others when it is lost.
func TestGatewayRoutesByPrefix(t *testing.T) {
	v := serveGateway(t, GatewayOptions{Routing: PrefixAware, NoticeAfter: time.Nanosecond}, 3, Options{PrefillTokensPerSecond: 1e6, DecodeStep: ms})
	used := map[int]bool{}
	for i := range 12 {
		prompt := fmt.Sprintf("%d %s", i, strings.Repeat("word ", 200))
		var at [2]int
		for k := range at {
			if status, err := v.ask(2*i+k, prompt+fmt.Sprint(k), 1); status != http.StatusOK || err != nil {
				t.Fatalf("status %d, %v", status, err)
			}
			r, _ := v.Request(traceOf(2*i + k))
			at[k] = r.Replica
		}
		if used[at[0]] = true; at[0] != at[1] {
			t.Errorf("prompt %d went to replicas %v", i, at)
		}
	}
	if len(used) != 3 {
		t.Errorf("replicas %v were used", used)
	}
	if status, _ := v.do(http.MethodPost, "/simulator/replicas/1?up=false"); status != http.StatusNoContent {
		t.Fatalf("status %d", status)
	}
	for i := range 12 {
		if status, err := v.ask(100+i, fmt.Sprintf("%d %s", i, strings.Repeat("word ", 200)), 1); status != http.StatusOK || err != nil {
			t.Errorf("status %d, %v", status, err)
		}
	}
}

// A replica that is dropped resets its streams and refuses connections; requests fail
// until the gateway notices. It comes back on its port without its past.
func TestReplicaIsLost(t *testing.T) {
	v := serveGateway(t, GatewayOptions{NoticeAfter: time.Hour}, 1, Options{PrefillTokensPerSecond: 1e6, DecodeStep: ms})
	if status, err := v.ask(0, "x", 1); status != http.StatusOK || err != nil {
		t.Fatalf("status %d, %v", status, err)
	}
	url, _ := strings.CutPrefix(v.replicas[0].URL(), "http://")
	raw, err := net.Dial("tcp", url)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	fmt.Fprintf(raw, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 47\r\n\r\n%-47s", `{"prompt":"x","max_tokens":8000,"stream":true}`)
	if _, err := raw.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if status, _ := v.do(http.MethodPost, "/simulator/replicas/0?up=false"); status != http.StatusNoContent {
		t.Fatalf("status %d", status)
	}
	_ = raw.SetReadDeadline(time.Now().Add(30 * time.Second))
	var seen strings.Builder
	if _, err := io.Copy(&seen, raw); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the stream ended with %v, want a reset: %.300s", err, seen.String())
	}
	if _, err := net.Dial("tcp", url); err == nil {
		t.Error("a connection was accepted")
	}
	if status, err := v.ask(1, "x", 1); status != http.StatusServiceUnavailable || err != nil {
		t.Errorf("status %d, %v", status, err)
	}
	if _, list := v.do(http.MethodGet, "/simulator/replicas"); !strings.Contains(list, `"up":false`) {
		t.Error(list)
	}
	if status, _ := v.do(http.MethodPost, "/simulator/replicas/0?up=true"); status != http.StatusNoContent {
		t.Fatalf("status %d", status)
	}
	if status, err := v.ask(2, "x", 1); status != http.StatusOK || err != nil {
		t.Errorf("status %d, %v", status, err)
	}
	if n := v.replicas[0].Server().State()[0].FirstTokens; n != 1 {
		t.Errorf("%d requests, want the one after the start", n)
	}
	for path, want := range map[string]int{
		"/simulator/replicas/0?up=true": http.StatusConflict, "/simulator/replicas/0": http.StatusBadRequest, "/simulator/replicas/1?up=true": http.StatusNotFound,
	} {
		if status, _ := v.do(http.MethodPost, path); status != want {
			t.Errorf("%s: status %d, want %d", path, status, want)
		}
	}
}
