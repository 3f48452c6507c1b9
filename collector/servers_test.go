package collector

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// Servers is a store that shows the families of servers alone.
type Servers struct{ *Probes }

// NewServers returns an empty one.
func NewServers() *Servers { return &Servers{NewProbes(time.Now)} }

func (s *Servers) write(e encoder) {
	page := s.page()
	writeSeries(e, s.served, page.servedNow)
	writeSeries(e, s.servers, page.serversNow)
}

// ServersID is the endpoint of servers.
type ServersID = EndpointInfo

// downStatus returns a server whose page did not come.
func downStatus(server string) page.Status {
	return page.Status{
		Server: server, URL: "http://" + server + "/metrics", At: epoch, Duration: 250 * time.Millisecond,
		State: page.Down, Reason: page.ReasonTimeout, Err: errors.New("timeout"),
		Failures: map[page.Reason]uint64{page.ReasonTimeout: 3, page.ReasonDNS: 1},
	}
}

// plainStatus returns a server that reports little: no prefix cache, no
// histogram with bounds, no progress.
func plainStatus(server string) page.Status {
	return page.Status{
		Server: server, URL: "http://" + server + "/metrics", At: epoch, Duration: time.Millisecond, State: page.Up,
		Snapshot: &page.Snapshot{
			Engine: "llamacpp", At: epoch, PrefixCacheRatio: -1,
			Values:     map[config.Quantity]float64{config.RequestsRunning: 0, config.PromptTokens: 12345678901},
			Histograms: map[config.Quantity]*page.Histogram{config.InterToken: {Count: 7, Sum: 1.5}},
			Missing:    []config.Quantity{config.GenerationTokens, config.TTFT},
		},
	}
}

// The page of the store must be, byte for byte, what client_golang makes of the
// same statuses; for protobuf, message for message. Each server has an endpoint
// of its own: with several the store keeps the samples of a server together,
// where client_golang sorts by finish or reason first. For the same reason
// those with fewer labels are those with fewer labels in every family.
func TestServersEqualClientGolang(t *testing.T) {
	ranks := vllmStatus("h:8000", 1)
	ranks.Snapshot.Ranks = fullRanks()
	tests := map[string][]servedReference{
		"nothing": nil,
		"ranks":   {{ServersID{Endpoint: "e", Model: "m"}, []page.Status{ranks}}},
		"up":      {{ServersID{Endpoint: "e", Model: "m"}, []page.Status{vllmStatus("h:8000", 3)}}},
		"down":    {{ServersID{Endpoint: "e"}, []page.Status{downStatus("h:8000")}}},
		"some": {
			{ServersID{Endpoint: "b", Model: "modèle", Labels: map[string]string{"team": `quote " slash \ line` + "\n", "a_zone": "z"}}, []page.Status{plainStatus("h:8000/a")}},
			{ServersID{Endpoint: "B", Model: "m"}, []page.Status{vllmStatus("h:8000", 1)}},
			{ServersID{Endpoint: "a", Model: "m"}, []page.Status{downStatus("[::1]:8000")}},
			{ServersID{Endpoint: "c", Model: "m"}, []page.Status{vllmStatus("h:8000", 0)}},
		},
	}
	for name, served := range tests {
		t.Run(name, func(t *testing.T) {
			store, reg := NewServers(), prometheus.NewRegistry()
			for _, s := range served {
				store.set(s.id, s.statuses)
			}
			reg.MustRegister(&serversReference{served})
			compare(t, store, reg)
		})
	}
}

// Several servers of one endpoint make a page with the same samples as
// client_golang's, if in another order.
func TestSeveralServers(t *testing.T) {
	served := servedReference{ServersID{Endpoint: "e", Model: "m"}, []page.Status{
		vllmStatus("b:8000", 2), vllmStatus("a:8000", 1), plainStatus("c:8000"), downStatus("d:8000"),
	}}
	store, reg := NewServers(), prometheus.NewRegistry()
	store.set(served.id, served.statuses)
	reg.MustRegister(&serversReference{[]servedReference{served}})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := writeFamilies(&want, expfmt.FmtText, families); err != nil {
		t.Fatal(err)
	}
	sorted := func(s string) []string { return slices.Sorted(strings.Lines(s)) }
	if d := cmp.Diff(sorted(want.String()), sorted(pageOf(t, store, expfmt.FmtText))); d != "" {
		t.Errorf("page (-client_golang +store):\n%s", clip(d))
	}
}

// serverHas checks samples by family and labels, as in `server_up{a="b"}`. An
// empty value is an absent sample.
func serverHas(t *testing.T, s *Servers, want map[string]string) {
	t.Helper()
	got := samples(t, s)
	for name, value := range want {
		if got[namePrefix+name] != value {
			t.Errorf("%s = %q, want %q", name, got[namePrefix+name], value)
		}
	}
}

// A server that is down says nothing but that, since when and why. Its series
// go on under the engine that it had.
func TestServerDown(t *testing.T) {
	s := NewServers()
	id := ServersID{Endpoint: "e", Model: "m"}
	s.set(id, []page.Status{downStatus("h:8000")})
	serverHas(t, s, map[string]string{
		`server_up{endpoint="e",model="m",server="h:8000"}`:                                            "0",
		`server_scrape_failures_total{endpoint="e",model="m",reason="timeout",server="h:8000"}`:        "3",
		`server_scrape_failures_total{endpoint="e",model="m",reason="format",server="h:8000"}`:         "0",
		`server_last_progress_timestamp_seconds{endpoint="e",model="m",server="h:8000"}`:               "",
		`server_up{endpoint="e",engine="vllm",model="m",server="h:8000"}`:                              "",
		`server_scrape_duration_seconds{endpoint="e",model="m",server="h:8000"}`:                       "0.25",
		`server_last_scrape_timestamp_seconds{endpoint="e",model="m",server="h:8000"}`:                 "1.7e+09",
		`server_requests_running{endpoint="e",model="m",server="h:8000"}`:                              "",
		`server_info{endpoint="e",model="m",server="h:8000",url="http://h:8000/metrics"}`:              "",
		`server_prefix_cache_hit_ratio{endpoint="e",engine="vllm",model="m",server="h:8000"}`:          "",
		`server_quantity_missing{endpoint="e",model="m",quantity="ttft",server="h:8000"}`:              "",
		`endpoint_servers{endpoint="e",model="m",state="down"}`:                                        "1",
		`endpoint_servers{endpoint="e",model="m",state="up"}`:                                          "0",
		`endpoint_servers{endpoint="e",model="m",state="unmapped"}`:                                    "0",
		`endpoint_servers{endpoint="e",model="m",state="unreadable"}`:                                  "0",
		`server_ttft_seconds_count{endpoint="e",engine="vllm",model="m",server="h:8000"}`:              "",
		`server_scrape_failures_total{endpoint="e",engine="",model="m",reason="dns",server="h:8000"}`:  "",
		`server_kv_cache_usage_ratio{endpoint="e",engine="vllm",model="m",server="h:8000"}`:            "",
		`server_requests_total{endpoint="e",engine="vllm",finish="stop",model="m",server="h:8000"}`:    "",
		`server_generation_tokens_total{endpoint="e",engine="vllm",model="m",server="h:8000"}`:         "",
		`server_last_progress_timestamp_seconds{endpoint="e",engine="vllm",model="m",server="h:8000"}`: "",
	})
	s.set(id, []page.Status{vllmStatus("h:8000", 0)})
	down := downStatus("h:8000")
	down.LastProgress = epoch.Add(-time.Minute)
	s.set(id, []page.Status{down})
	const labels = `{endpoint="e",engine="vllm",model="m",server="h:8000"}`
	want := map[string]string{
		"server_up" + labels: "0", "server_scrape_duration_seconds" + labels: "0.25",
		"server_last_scrape_timestamp_seconds" + labels:   "1.7e+09",
		"server_last_progress_timestamp_seconds" + labels: "1.69999994e+09",
	}
	serverHas(t, s, want)
	for name := range samples(t, s) {
		_, known := want[strings.TrimPrefix(name, namePrefix)]
		if !known && !strings.Contains(name, "server_scrape_failures_total") && !strings.Contains(name, "endpoint_servers") {
			t.Errorf("%s of a server that is down", name)
		}
	}
}

// A value that is missing from a snapshot, or is impossible, is no sample.
func TestServerAbsence(t *testing.T) {
	s := NewServers()
	st := plainStatus("h:1")
	st.At = time.Time{}
	st.Snapshot.PrefixCacheRatio = 0 // of a page without a prefix cache
	st.Snapshot.Values = map[config.Quantity]float64{
		config.RequestsRunning: math.NaN(), config.RequestsWaiting: math.Inf(1), config.KVCacheUsage: -1,
		config.PromptTokens: math.NaN(), config.GenerationTokens: math.Inf(1), config.Preemptions: -1, "kv_cache_evicted_tokens": 1 << 62,
	}
	st.Snapshot.Histograms = map[config.Quantity]*page.Histogram{
		config.TTFT: nil, config.TPOT: {Bounds: []float64{1}, Count: 1}, config.QueueTime: {Count: 1, Sum: math.NaN()},
	}
	st.Snapshot.Requests = map[string]float64{"stop": 2, "length": math.Inf(1), "made up": 1}
	st.Snapshot.Missing = []config.Quantity{"made up"}
	s.set(ServersID{Endpoint: "e"}, []page.Status{st})
	for name := range samples(t, s) {
		family, _, _ := strings.Cut(strings.TrimPrefix(name, namePrefix), "{")
		if !slices.Contains([]string{
			"endpoint_servers", "server_up", "server_info", "server_scrape_failures_total", "server_requests_total", "server_kv_cache_evicted_tokens_total",
		}, family) {
			t.Errorf("%s is on the page", name)
		}
	}
	serverHas(t, s, map[string]string{
		`server_requests_total{endpoint="e",engine="llamacpp",finish="stop",server="h:1"}`:          "2",
		`server_requests_total{endpoint="e",engine="llamacpp",finish="length",server="h:1"}`:        "",
		`server_kv_cache_evicted_tokens_total{endpoint="e",engine="llamacpp",server="h:1"}`:         strconv.FormatFloat(1<<62, 'g', -1, 64),
		`server_info{endpoint="e",engine="llamacpp",server="h:1",url="http://h:1/metrics"}`:         "1",
		`server_scrape_failures_total{endpoint="e",engine="llamacpp",reason="dns",server="h:1"}`:    "0",
		`server_scrape_failures_total{endpoint="e",engine="llamacpp",reason="tls",server="h:1"}`:    "0",
		`server_scrape_failures_total{endpoint="e",engine="llamacpp",reason="format",server="h:1"}`: "0",
	})
}

// A ratio of 0 is one; none is none.
func TestPrefixCacheRatio(t *testing.T) {
	s := NewServers()
	f := func(ratio float64, want string) {
		t.Helper()
		st := vllmStatus("h:1", 0)
		st.Snapshot.PrefixCacheRatio = ratio
		s.set(ServersID{Endpoint: "e"}, []page.Status{st})
		serverHas(t, s, map[string]string{`server_prefix_cache_hit_ratio{endpoint="e",engine="vllm",server="h:1"}`: want})
	}
	f(0, "0")
	f(0.25, "0.25")
	f(1, "1")
	f(-1, "")
	f(1.5, "")
	f(math.NaN(), "")
}

// set replaces what is known of the servers of an endpoint, which is opened where it is not
// there, or has other labels.
func (s *Servers) set(id ServersID, statuses []page.Status) {
	e := s.of(id.Endpoint)
	if e != nil && !maps.Equal(e.info.Labels, id.Labels) {
		e.Close()
		e = nil
	}
	if e == nil {
		e = s.OpenEndpoint(id)
	}
	e.SetServers(id.Model, statuses)
}

// of returns the endpoint of a name; nil is none.
func (s *Servers) of(name string) *Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.endpoints {
		if e.info.Endpoint == name {
			return e
		}
	}
	return nil
}

func TestServersComeAndGo(t *testing.T) {
	s := NewServers()
	id := ServersID{Endpoint: "e"}
	set := func(id ServersID, servers ...string) {
		var statuses []page.Status
		for _, name := range servers {
			statuses = append(statuses, plainStatus(name))
		}
		s.set(id, statuses)
	}
	f := func(want ...string) {
		t.Helper()
		var got []string
		for name := range samples(t, s) {
			if labels, ok := strings.CutPrefix(name, namePrefix+"server_up"); ok {
				got = append(got, labels)
			}
		}
		slices.Sort(got)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("servers (-want +got):\n%s", d)
		}
	}
	f()
	set(id)
	if page := pageOf(t, s, expfmt.FmtText); page != "" {
		t.Errorf("an endpoint without a server wrote %q", page)
	}
	set(id, "a:1", "b:1")
	f(`{endpoint="e",engine="llamacpp",server="a:1"}`, `{endpoint="e",engine="llamacpp",server="b:1"}`)
	set(id, "a:1", "c:1") // as many, but another one
	f(`{endpoint="e",engine="llamacpp",server="a:1"}`, `{endpoint="e",engine="llamacpp",server="c:1"}`)
	set(id, "c:1")
	f(`{endpoint="e",engine="llamacpp",server="c:1"}`)
	id.Model = strings.Repeat("x", 128) + "y"
	set(id, "c:1")
	f(`{endpoint="e",engine="llamacpp",model="` + strings.Repeat("x", 128) + `",server="c:1"}`)
	id = ServersID{Endpoint: "e", Model: "m", Labels: map[string]string{"team": "t", "finish": "no", "server": "no", "quantity": "no", "state": "no", "prefix_cache_unit": "no"}}
	set(id, "c:1")
	f(`{endpoint="e",engine="llamacpp",model="m",server="c:1",team="t"}`)
	set(ServersID{Endpoint: "d"}, "c:1")
	s.of("e").Close()
	f(`{endpoint="d",engine="llamacpp",server="c:1"}`)
	d := s.of("d")
	d.Close()
	d.ObserveProbe(success(), false) // must not bring it back
	if page := pageOf(t, s, expfmt.FmtText); page != "" {
		t.Errorf("an empty store wrote %q", page)
	}
}

// The labels are rendered when they change and not for each reading.
func TestBlocksAreKept(t *testing.T) {
	s := NewServers()
	id := ServersID{Endpoint: "e", Model: "m", Labels: map[string]string{"team": "t"}}
	s.set(id, []page.Status{vllmStatus("h:1", 0)})
	before := *s.of("e").servers.all["h:1"]
	s.set(ServersID{Endpoint: "e", Model: "m", Labels: map[string]string{"team": "t"}}, []page.Status{vllmStatus("h:1", 1)})
	after := s.of("e").servers.all["h:1"]
	if before.block != after.block || !slices.Equal(before.info, after.info) {
		t.Error("equal labels were rendered again")
	}
	moved := vllmStatus("h:1", 1)
	moved.URL = "http://elsewhere/metrics"
	s.set(id, []page.Status{moved})
	serverHas(t, s, map[string]string{
		`server_info{disaggregation_role="unified",endpoint="e",engine="vllm",model="m",prefix_cache_unit="tokens",server="h:1",team="t",url="http://elsewhere/metrics"}`: "1",
		`server_info{disaggregation_role="unified",endpoint="e",engine="vllm",model="m",prefix_cache_unit="tokens",server="h:1",team="t",url="http://h:1/metrics"}`:       "",
	})
}

// Settings of a server are shown while its page is read, and those that changed as they are now; a setting that cannot be
// compared is absent.
func TestSettingsAndReplicas(t *testing.T) {
	s := NewServers()
	id := ServersID{Endpoint: "e", Model: "m", Facts: new(workload.Facts)}
	status := func(settings map[config.Setting]string) page.Status {
		st := vllmStatus("h:1", 0)
		st.Snapshot.Settings = settings
		return st
	}
	const info, differ = `server_setting_info{endpoint="e",engine="vllm",model="m",server="h:1",setting="%s",value="%s"}`, `endpoint_replicas_differ{endpoint="e",model="m",setting="%s"}`
	s.set(id, []page.Status{status(map[config.Setting]string{"precision": "bfloat16", "gpu": "H100"})})
	workload.SetFact(id.Facts, &page.Compared{Differs: map[config.Setting]bool{"precision": true, "gpu": false}})
	serverHas(t, s, map[string]string{
		fmt.Sprintf(info, "precision", "bfloat16"): "1", fmt.Sprintf(info, "gpu", "H100"): "1",
		fmt.Sprintf(differ, "precision"): "1", fmt.Sprintf(differ, "gpu"): "0", fmt.Sprintf(differ, "version"): "",
	})
	s.set(id, []page.Status{status(map[config.Setting]string{"precision": "float16"})})
	serverHas(t, s, map[string]string{
		fmt.Sprintf(info, "precision", "bfloat16"): "", fmt.Sprintf(info, "precision", "float16"): "1", fmt.Sprintf(info, "gpu", "H100"): "",
	})
	s.set(id, []page.Status{{Server: "h:1", URL: "http://h:1/metrics", State: page.Down}})
	serverHas(t, s, map[string]string{fmt.Sprintf(info, "precision", "float16"): ""})
}

// A page of several stores is one page.
func TestStores(t *testing.T) {
	p, series := newStore()
	series.Observe(success())
	s := NewServers()
	s.set(ServersID{Endpoint: "e", Model: "m"}, []page.Status{vllmStatus("h:1", 0)})
	for _, format := range Formats() {
		var page bytes.Buffer
		if err := NewExposition(prometheus.NewRegistry(), p, s).Write(&page, format); err != nil {
			t.Fatal(err)
		}
		end := ""
		if format.FormatType() == expfmt.TypeOpenMetrics {
			end = "# EOF\n"
		}
		parts := strings.TrimSuffix(pageOf(t, p, format), end) + pageOf(t, s, format)
		if page.String() != parts {
			t.Errorf("%s: the page of both stores is not that of one after the other", format)
		}
		broken := errors.New("broken")
		if err := NewExposition(prometheus.NewRegistry(), p, s).Write(&brokenWriter{1, broken}, format); !errors.Is(err, broken) {
			t.Errorf("Write(%s) into a broken writer = %v, want %v", format, err, broken)
		}
	}
}

func TestServersConcurrentUse(t *testing.T) {
	s := NewServers()
	metrics := NewExposition(prometheus.NewRegistry(), s)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			id := ServersID{Endpoint: string(rune('a' + i))}
			for n := range 50 {
				id.Model = strconv.Itoa(n / 10)
				s.set(id, []page.Status{vllmStatus("h:1", n), downStatus("h:" + strconv.Itoa(n%3))})
				s.of(id.Endpoint).ObserveProbe(&result.Result{Outcome: result.Success}, false)
				if n%20 == 19 {
					s.of(id.Endpoint).Close()
				}
			}
		})
	}
	for _, format := range Formats() {
		wg.Go(func() {
			for range 10 {
				if err := metrics.Write(io.Discard, format); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// Numbers of things are whole, and times are not.
func TestCountersOfTimes(t *testing.T) {
	s := NewServers()
	s.set(ServersID{Endpoint: "e", Model: "m"}, []page.Status{{Server: "h:1", URL: "http://h:1/metrics", State: page.Up, Snapshot: &page.Snapshot{
		Engine: "vllm", At: epoch, Values: map[config.Quantity]float64{"kv_offload_load_seconds": 0.375, "generation_tokens": 12.6},
	}}})
	text := pageOf(t, s, Formats()[0])
	for _, want := range []string{
		`inference_server_kv_offload_load_seconds_total{endpoint="e",engine="vllm",model="m",server="h:1"} 0.375`,
		`inference_server_generation_tokens_total{endpoint="e",engine="vllm",model="m",server="h:1"} 13.0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
}

// A page that shows all that can be read, with as many buckets as are read, has a bounded number
// of series.
func TestSeriesOfOnePage(t *testing.T) {
	h := &page.Histogram{Count: 100}
	for i := range 100 {
		h.Bounds, h.Counts = append(h.Bounds, float64(i)), append(h.Counts, uint64(i))
	}
	all := &page.Snapshot{
		Engine: "vllm", At: epoch, Values: map[config.Quantity]float64{}, Histograms: map[config.Quantity]*page.Histogram{},
		Requests: map[string]float64{}, PrefixCacheUnit: "tokens", Missing: config.Quantities(config.ServerSoftware),
	}
	for _, q := range config.Quantities(config.ServerSoftware) {
		all.Values[q] = 1
	}
	for _, q := range distributions(config.ServerSoftware) {
		all.Histograms[q] = h
	}
	for _, finish := range config.Finishes() {
		all.Requests[finish] = 1
	}
	s := NewServers()
	s.set(ServersID{Endpoint: "e", Model: "m"}, []page.Status{{Server: "h:1", URL: "http://h:1/metrics", State: page.Up, Snapshot: all}})
	n := 0
	for line := range strings.Lines(pageOf(t, s, Formats()[0])) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	if of := len(distributions(config.ServerSoftware)) * 103; n < of || n > 1500 {
		t.Errorf("%d series, want at most 1,500, %d of them of histograms", n, of)
	}
}
