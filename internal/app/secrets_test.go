package app

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
	dto "github.com/prometheus/client_model/go"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/store"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// canary is the key of the endpoints below. No eight characters of it may be
// shown anywhere.
const canary = `sk-C4nary"7f3Kq\9zL<m2x+WvT/4=0123abcdEFGH`

// formsOfKey are how servers and libraries write a key that they quote.
func formsOfKey() map[string]func(string) string {
	return map[string]func(string) string{
		"plain":     func(k string) string { return k },
		"quoted":    strconv.Quote,
		"upper":     strings.ToUpper,
		"base64":    func(k string) string { return base64.StdEncoding.EncodeToString([]byte("user:" + k)) },
		"hex":       func(k string) string { return hex.EncodeToString([]byte(k)) },
		"query":     url.QueryEscape,
		"bytes":     func(k string) string { return fmt.Sprint([]byte(k)) },
		"hex list":  func(k string) string { return strings.ReplaceAll(fmt.Sprintf("% x", k), " ", ":") },
		"twice":     func(k string) string { return url.QueryEscape(url.QueryEscape(k)) },
		"long":      func(k string) string { return k + "\n" + strings.Repeat("x", 10_000) },
		"split":     func(k string) string { return k[:15] + "\u200b" + k[15:30] + "\n" + k[30:] },
		"cut":       func(k string) string { return k[:len(k)-3] },
		"far along": func(k string) string { return strings.Repeat("x", 243) + " " + k },
		"control":   func(k string) string { return "\x1b[31m\u009b\u202e" + k + "\x00" },
	}
}

// surfaces are where a server can put a text that is shown.
func surfaces() map[string]func(w http.ResponseWriter, text string) {
	chunk := func(w io.Writer, format string, args ...any) { fmt.Fprintf(w, "data: "+format+"\n\n", args...) }
	stream := func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") }
	const done = `{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`
	return map[string]func(http.ResponseWriter, string){
		"status text": func(w http.ResponseWriter, text string) { http.Error(w, "no: "+text+" is wrong", 500) },
		"message": func(w http.ResponseWriter, text string) {
			w.WriteHeader(401)
			fmt.Fprintf(w, `{"error":{"message":%s}}`, quotedJSON("wrong key "+text+": see the docs"))
		},
		"type": func(w http.ResponseWriter, text string) {
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"error":{"message":"no","type":%s}}`, quotedJSON(text))
		},
		"param": func(w http.ResponseWriter, text string) {
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"error":{"message":%s,"param":%s}}`, quotedJSON("unsupported parameter: '"+text+"'"), quotedJSON(text))
		},
		"redirect": func(w http.ResponseWriter, text string) {
			w.Header().Set("Location", "http://"+url.PathEscape(text)+".example/?k="+url.QueryEscape(text))
			w.WriteHeader(302)
		},
		"content type":     func(w http.ResponseWriter, text string) { w.Header().Set("Content-Type", "text/"+text) },
		"content encoding": func(w http.ResponseWriter, text string) { stream(w); w.Header().Set("Content-Encoding", text) },
		"no events":        func(w http.ResponseWriter, text string) { stream(w); io.WriteString(w, text+" is no event") },
		"no JSON":          func(w http.ResponseWriter, text string) { stream(w); chunk(w, "%s", text) },
		"event": func(w http.ResponseWriter, text string) {
			stream(w)
			chunk(w, `{"error":{"message":%s,"code":500}}`, quotedJSON("failed for "+text))
		},
		"names": func(w http.ResponseWriter, text string) {
			stream(w)
			chunk(w, `{"model":%s,"system_fingerprint":%[1]s}`, quotedJSON(text))
			chunk(w, done)
			chunk(w, "[DONE]")
		},
		"answer": func(w http.ResponseWriter, text string) {
			stream(w)
			chunk(w, `{"choices":[{"index":0,"delta":{"content":%s}}]}`, quotedJSON("the key is "+text))
			chunk(w, done)
			chunk(w, "[DONE]")
		},
	}
}

func quotedJSON(text string) string {
	b, _ := json.Marshal(text) // never fails
	return string(b)
}

// echo is a server whose paths are /SURFACE/FORM/... : it repeats the key that
// it is sent there. Without a surface it lists a model of that name, and shows a
// page of metrics with the key in it.
func echo(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	_, _ = io.Copy(io.Discard, r.Body)
	parts := strings.Split(r.URL.Path, "/")
	surface, form := surfaces()[parts[1]], formsOfKey()[parts[min(2, len(parts)-1)]]
	if form == nil { // of an endpoint that was discovered
		form = formsOfKey()["plain"]
	}
	switch {
	case pagesOfOthers()[parts[1]] != "":
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprint(w, strings.ReplaceAll(pagesOfOthers()[parts[1]], "POISON", strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\x00", "").Replace(form(key))))
	case strings.HasSuffix(r.URL.Path, "/metrics"):
		w.Header().Set("Content-Type", "text/plain; key="+key)
		fmt.Fprintf(w, "vllm:num_requests_running{model_name=%s} 1\n%s broken\n", strconv.Quote(form(key)), form(key))
	case strings.HasSuffix(r.URL.Path, "/models"):
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%s,"owned_by":%[1]s},{"id":%s}]}`, quotedJSON(form(key)), quotedJSON("other "+form(key)))
	case surface != nil:
		surface(w, form(key))
	case strings.HasPrefix(r.URL.Path, "/targets/"):
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Connection", "close") // which outlives the source
		io.WriteString(w, targetsOf(r.Host, key))
	default:
		http.Error(w, "who is "+form(key), 404)
	}
}

// pagesOfOthers are the pages of a gateway and of an exporter of GPUs, with a text of theirs
// wherever one is shown.
func pagesOfOthers() map[string]string {
	return map[string]string{
		"gateway": `litellm_deployment_state{model_id="POISON"} 2` + "\n" +
			`litellm_deployment_total_requests_total{model_id="POISON"} 5` + "\n",
		"gpus": `DCGM_FI_DEV_FB_USED{UUID="POISON",gpu="1",GPU_I_ID="3",GPU_I_PROFILE="POISON",Hostname="POISON",modelName="POISON",` +
			`pci_bus_id="POISON",DCGM_FI_DRIVER_VERSION="POISON"} 40` + "\n",
	}
}

// targetsOf is a list of targets at a host, each of which has the key in one form.
func targetsOf(host, key string) string {
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	var all []group
	for _, name := range slices.Sorted(maps.Keys(formsOfKey())) {
		text := formsOfKey()[name](key)
		all = append(all,
			group{[]string{host}, map[string]string{"__endpoint__": "found " + name, "__model__": "m", "team": text}},
			group{[]string{host}, map[string]string{"__endpoint__": "of " + text, "__model__": text}},
			group{[]string{host}, map[string]string{"__path__": "/" + text}},
			group{[]string{host}, map[string]string{"__url__": "http://" + host + "/" + text}},
			group{[]string{host}, map[string]string{"__modules__": text, "__engine__": text}},
			group{[]string{text}, map[string]string{text: text}})
	}
	b, _ := json.Marshal(all) // never fails
	return string(b)
}

// poisonedCard returns a sysfs of a card of AMD whose files have the key in a form.
func poisonedCard(t *testing.T, form func(string) string) string {
	sys := testlab.Sysfs(t, "../../gpu/testdata/amd/mi300x.txt")
	for _, name := range []string{"devices/mi300x/product_name", "devices/mi300x/unique_id", "module/amdgpu/version"} {
		testlab.WriteFile(t, filepath.Join(sys, name), []byte(form(canary)))
	}
	return sys
}

// namedAfterKey returns a server whose certificate names itself after the key.
func namedAfterKey(t *testing.T) *httptest.Server {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	name := pkix.Name{CommonName: canary + "\x1b\u202e", Organization: []string{canary}}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: name, Issuer: name, DNSNames: []string{canary + "\x1b[31m\n"}, NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// receiver keeps the pushes and spans that it gets.
type receiver struct {
	mu       sync.Mutex
	all      map[string][]byte // by path
	requests map[string]int    // by path
}

// count returns how many requests came to a path.
func (r *receiver) count(path string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests[path]
}

func (r *receiver) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	body := io.Reader(req.Body)
	if unzipped, err := gzip.NewReader(req.Body); err == nil {
		body = unzipped
	}
	text, _ := io.ReadAll(body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[req.URL.Path] = append(r.all[req.URL.Path], text...)
	r.requests[req.URL.Path]++
}

// What no endpoint, page, file, source of targets, kubelet or certificate can make the
// exporter do: show a key, in any form, in the log, on a page, in a metric, a file or what
// it sends, or write control characters there. With -short each surface has some of the forms,
// and each form is on some of the surfaces.
func TestNoSurfaceShowsSecrets(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(server.Close)
	collected := &receiver{all: map[string][]byte{}, requests: map[string]int{}}
	receiver := testlab.Serve(t, collected)
	interval, every := 20, 1
	if testing.Short() {
		interval, every = 10, 5
	}
	file, names, broken := poisonedConfig(server.URL, receiver, namedAfterKey(t).URL, interval, every)
	configured := writeFile(t, "exporter.yml", file)
	state := t.TempDir()
	seedIncidents(t, state, file)
	kubelet := poisonedKubelet(t, formsOfKey()["control"])
	p := start(t, append([]string{
		"--config.file=" + configured, "--web.listen-address=127.0.0.1:0", "--log.level=debug", "--state.path=" + state,
		"--gpu.sysfs=" + poisonedCard(t, formsOfKey()["control"]),
	}, kubelet...)...)
	// Each endpoint was asked, and each page read that can be: not that of GPUs with the longest labels.
	p.waitFor("all endpoints", func(got metricsPage) bool {
		asked := map[string]bool{}
		for _, name := range []string{"inference_probe_results_total", "inference_probe_skipped_total"} {
			for _, m := range got[name].GetMetric() {
				if m.GetCounter().GetValue() > 0 {
					asked[endpointOf(m)] = true
				}
			}
		}
		return len(asked) >= len(names)+len(formsOfKey()) && len(p.stderr.lines("cannot read the server's page")) >= broken &&
			got.Sum("inference_gpu_page_up") == float64(len(formsOfKey())-1) && got.Sum("inference_gpu_up", "source", "amdgpu") == 1 &&
			got.Sum("inference_gateway_up") == float64(len(formsOfKey())) && got.Has("inference_gateway_backend_ready") && (kubelet == nil || got.Sum("inference_gpu_pods_up") == 1)
	})
	// The second push from here on has all of that.
	pushes := collected.count("/v1/metrics")
	p.waitFor("pushes and spans", func(metricsPage) bool {
		return collected.count("/v1/metrics") >= pushes+2 && collected.count("/v1/traces") > 0
	})
	for path, header := range map[string][]string{
		"/metrics": nil, "/": nil, "/config": nil, "/api/v1/endpoints": nil, "/api/v1/gpus": nil, "/api/v1/gateways": nil,
		"/api/v1/self": nil, "/api/v1/config": nil, "/metrics#": {"Accept", "application/openmetrics-text; version=1.0.0"},
		"/metrics##": {"Accept", "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"},
	} {
		_, body := p.get(strings.TrimRight(path, "#"), header...)
		if strings.HasSuffix(path, "##") {
			wantNoKey(t, path, string(body))
			continue
		}
		wantNoSecret(t, path, string(body))
	}
	recorded := 0
	for _, name := range names {
		_, body := p.get("/api/v1/endpoints/" + url.PathEscape(name))
		wantNoSecret(t, "the page of "+name, string(body))
		_, page := p.get("/api/v1/endpoints/" + url.PathEscape(name) + "/incidents/latest?format=html")
		wantNoSecret(t, "the page of the incident of "+name, string(page))
		_, body = p.get("/api/v1/endpoints/" + url.PathEscape(name) + "/incidents/latest")
		wantNoSecret(t, "the incident of "+name, string(body))
		if strings.Contains(string(body), `"probe":{`) && strings.Contains(string(body), `"evidence":{`) {
			recorded++
		}
	}
	if recorded < len(names)/2 {
		t.Errorf("%d of %d endpoints have a recording with a probe and evidence", recorded, len(names))
	}
	for _, name := range []string{"message plain", "names control", "detected bytes", "certificate"} {
		_, body := p.probePage("target", name, "debug", "true")
		wantNoSecret(t, "a probe of "+name, body)
		_, text := p.get("/api/v1/endpoints/" + url.PathEscape(name) + "/explain")
		wantNoSecret(t, "the causes of "+name, string(text))
		_, text = p.get("/endpoint/" + url.PathEscape(name))
		wantNoSecret(t, "the status page of "+name, string(text))
		for _, command := range []string{"probe", "explain"} {
			got := runToEnd(t, command, "--config.file="+configured, name)
			wantNoSecret(t, command+" "+name, got.stdout+got.stderr)
		}
	}
	key := writeFile(t, "key", canary)
	for form := range formsOfKey() {
		got := runToEnd(t, "detect", "--key-file="+key, server.URL+"/none/"+url.PathEscape(form))
		wantNoSecret(t, "detect "+form, got.stdout+got.stderr)
	}
	p.stop()
	wantNoSecret(t, "the log", p.stderr.String())
	for path, text := range collected.all {
		wantNoKey(t, path, string(text))
	}
	wantNoSecretInFiles(t, state)
}

// seedIncidents writes a state in which each endpoint of a configuration has an incident that pages.
func seedIncidents(t *testing.T, directory, file string) {
	t.Helper()
	cfg, err := config.Parse([]byte(file), "exporter.yml")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now().Add(-5 * time.Minute)
	failing := &health.Incident{State: health.Degraded, Begin: began, Row: began, Latest: time.Now(), Probes: 10, Bad: 10, Down: began, Spells: 1}
	store.Open(store.Options{Dir: directory, Logger: slog.New(slog.DiscardHandler), Parts: []store.Part{{
		Name: "endpoints", Revision: func() uint64 { return 1 },
		Save: func(put func(any) error) error {
			for _, e := range cfg.Endpoints {
				if err := put(map[string]any{
					"endpoint": e.Name, "target": xxhash.Sum64String(e.URL.String() + "\x00" + e.API + "\x00" + e.Model), // as the fleet identifies it
					"state": health.Saved{Last: time.Now(), Failing: failing, Down: true, Streak: 10, Paging: &health.Paging{Kind: health.KindDown, Start: began}},
				}); err != nil {
					return err
				}
			}
			return nil
		},
	}}}).Close(t.Context())
}

// poisonedConfig returns a configuration of a server that repeats the key that it is sent and is
// read at an interval in seconds, the names of the endpoints in it, and how many of them have a
// surface: one in every of these.
func poisonedConfig(server, receiver, tls string, interval, every int) (text string, names []string, broken int) {
	var file strings.Builder
	fmt.Fprintf(&file, `
global: {interval: %[4]ds, timeout: 5s, limits: {in_flight: 500, in_flight_per_host: 500}}
metrics: {otlp_endpoint: %[1]q, interval: %[5]ds, headers: {X-Key: %[3]q}}
tracing: {otlp_endpoint: %[1]q, headers: {X-Key: %[3]q}}
modules:
  ask: {prompt: "Say yes.", fingerprint: true, log_answers: true, expect: {equals: "yes"}}
discovery:
  - {api: openai-chat, modules: [ask], http: {authorization: {credentials: %[3]q}}, allow: [127.0.0.1], http_sd_configs: [{url: "%[2]s/targets/plain", authorization: {credentials: %[3]q}}]}
`, receiver, server, canary, interval, interval/2)
	pages := func(section, kind string) {
		file.WriteString(section)
		for form := range formsOfKey() {
			fmt.Fprintf(&file, "%s{urls: [%q], interval: %ds, http: {authorization: {credentials: %q}}}\n",
				strings.Repeat(" ", 4)+strconv.Quote(kind+" "+form)+": ", server+"/"+kind+"/"+url.PathEscape(form)+"/metrics", interval, canary)
		}
	}
	pages("gpus:\n  pages:\n", "gpus")
	pages("gateways:\n", "gateway")
	file.WriteString("endpoints:\n")
	add := func(name, surface, form, more string) {
		names = append(names, name)
		fmt.Fprintf(&file, "  - {name: %q, url: %q, modules: [ask], http: {authorization: {credentials: %q}}, servers: {interval: %ds, urls: [%q]}%s}\n",
			name, server+"/"+url.PathEscape(surface)+"/"+url.PathEscape(form), canary, interval,
			server+"/"+url.PathEscape(surface)+"/"+url.PathEscape(form)+"/metrics", more)
	}
	for i, form := range slices.Sorted(maps.Keys(formsOfKey())) {
		for j, surface := range slices.Sorted(maps.Keys(surfaces())) {
			if (i+j+3)%every == 0 { // with the two that are asked for by name above
				add(surface+" "+form, surface, form, ", api: openai-chat, model: m")
				broken++
			}
		}
		add("detected "+form, "none", form, ", gateway: "+strconv.Quote("gateway "+form))
		add("listed "+form, "none", form, ", api: openai-chat")
	}
	fmt.Fprintf(&file, "  - {name: certificate, url: %q, modules: [ask], api: openai-chat, model: m, http: {authorization: {credentials: %q}}}\n", tls, canary)
	return file.String(), append(names, "certificate"), broken
}

// wantNoSecretInFiles looks at the files of a state.
func wantNoSecretInFiles(t *testing.T, directory string) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(directory, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil || filepath.Ext(name) != ".zst" {
			return err
		}
		unpacked, err := zstd.NewReader(bytes.NewReader(text))
		if err != nil {
			return err
		}
		defer unpacked.Close()
		plain, err := io.ReadAll(unpacked)
		found += len(plain)
		wantNoSecret(t, name, string(plain))
		return err
	})
	if err != nil || found == 0 {
		t.Errorf("%d bytes in files of the state: %v", found, err)
	}
}

// endpointOf returns the endpoint that a series is of.
func endpointOf(m *dto.Metric) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == "endpoint" {
			return l.GetValue()
		}
	}
	return ""
}

// wantNoSecret fails where a text holds the canary, or a character that does something
// to a terminal.
func wantNoSecret(t *testing.T, where, text string) {
	t.Helper()
	wantNoKey(t, where, text)
	if i := strings.IndexAny(text, "\x1b\x00\u009b\u202e"); i >= 0 {
		t.Errorf("%s holds a control character: %q", where, text[max(0, i-60):min(len(text), i+60)])
	}
}

// wantNoKey fails where a text or protobuf holds eight characters of the canary in a row,
// as they are or encoded.
func wantNoKey(t *testing.T, where, text string) {
	t.Helper()
	lower := strings.ToLower(text)
	for name, form := range map[string]string{
		"as it is": canary, "JSON": quotedJSON(canary), "query": url.QueryEscape(canary), "hex": hex.EncodeToString([]byte(canary)),
		"bytes": fmt.Sprint([]byte(canary)), "hex list": formsOfKey()["hex list"](canary), "twice": formsOfKey()["twice"](canary),
		"base64": base64.StdEncoding.EncodeToString([]byte("user:" + canary))[8:], // after the name, which is no secret
	} {
		form = strings.ToLower(strings.Trim(form, `"=[]`))
		for i := 0; i+8 <= len(form); i++ {
			if at := strings.Index(lower, form[i:i+8]); at >= 0 {
				t.Errorf("%s holds %q of the key (%s): %q", where, form[i:i+8], name, lower[max(0, at-80):min(len(lower), at+80)])
				return
			}
		}
	}
}
