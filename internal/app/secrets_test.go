package app

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
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
	surface, form := surfaces()[parts[1]], formsOfKey()[parts[2]]
	switch {
	case strings.HasSuffix(r.URL.Path, "/metrics"):
		w.Header().Set("Content-Type", "text/plain; key="+key)
		fmt.Fprintf(w, "vllm:num_requests_running{model_name=%s} 1\n%s broken\n", strconv.Quote(form(key)), form(key))
	case strings.HasSuffix(r.URL.Path, "/models"):
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%s,"owned_by":%[1]s},{"id":%s}]}`, quotedJSON(form(key)), quotedJSON("other "+form(key)))
	case surface != nil:
		surface(w, form(key))
	default:
		http.Error(w, "who is "+form(key), 404)
	}
}

// What no endpoint can make the exporter do: show its key, in any form, in the
// log, on a page or in a metric, or write control characters there.
func TestNoSurfaceShowsSecrets(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(server.Close)
	var file strings.Builder
	fmt.Fprintf(&file, `
global: {interval: 5s, timeout: 5s, limits: {in_flight: 500, in_flight_per_host: 500}}
modules:
  ask: {prompt: "Say yes.", fingerprint: true, log_answers: true, expect: {equals: "yes"}}
endpoints:
`)
	var names []string
	add := func(name, surface, form, more string) {
		names = append(names, name)
		fmt.Fprintf(&file, "  - {name: %q, url: %q, modules: [ask], http: {authorization: {credentials: %q}}, servers: {interval: 5s, urls: [%q]}%s}\n",
			name, server.URL+"/"+url.PathEscape(surface)+"/"+url.PathEscape(form), canary,
			server.URL+"/"+url.PathEscape(surface)+"/"+url.PathEscape(form)+"/metrics", more)
	}
	for form := range formsOfKey() {
		for surface := range surfaces() {
			add(surface+" "+form, surface, form, ", api: openai-chat, model: m")
		}
		add("detected "+form, "none", form, "")
		add("listed "+form, "none", form, ", api: openai-chat")
	}
	p := start(t, "--config.file="+writeFile(t, "exporter.yml", file.String()), "--web.listen-address=127.0.0.1:0", "--no-collector.gpu", "--log.level=debug")
	// Each endpoint was asked, and the page read of each whose model is known.
	pages := len(formsOfKey()) * len(surfaces())
	p.waitFor("all endpoints", func(got page) bool {
		asked := map[string]bool{}
		for _, name := range []string{"inference_probe_results_total", "inference_probe_skipped_total"} {
			for _, m := range got[name].GetMetric() {
				if m.GetCounter().GetValue() > 0 {
					asked[endpointOf(m)] = true
				}
			}
		}
		return len(asked) == len(names) && len(p.stderr.lines("cannot read the server's page")) >= pages
	})
	for _, path := range []string{"/metrics", "/", "/config", "/api/v1/endpoints", "/api/v1/self", "/api/v1/config"} {
		_, body := p.get(path)
		wantNoSecret(t, path, string(body))
	}
	for _, name := range names {
		_, body := p.get("/api/v1/endpoints/" + url.PathEscape(name))
		wantNoSecret(t, "the page of "+name, string(body))
	}
	p.stop()
	wantNoSecret(t, "the log", p.stderr.String())
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

// wantNoSecret fails where a text holds eight characters of the canary in a
// row, as they are or encoded, or a character that does something to a terminal.
func wantNoSecret(t *testing.T, where, text string) {
	t.Helper()
	lower := strings.ToLower(text)
	for name, form := range map[string]string{
		"as it is": canary, "JSON": quotedJSON(canary), "query": url.QueryEscape(canary), "hex": hex.EncodeToString([]byte(canary)),
		"base64": base64.StdEncoding.EncodeToString([]byte("user:" + canary))[8:], // after the name, which is no secret
	} {
		form = strings.ToLower(strings.Trim(form, `"=`))
		for i := 0; i+8 <= len(form); i++ {
			if at := strings.Index(lower, form[i:i+8]); at >= 0 {
				t.Errorf("%s holds %q of the key (%s): %q", where, form[i:i+8], name, text[max(0, at-80):min(len(text), at+80)])
				return
			}
		}
	}
	if i := strings.IndexAny(text, "\x1b\x00\u009b\u202e"); i >= 0 {
		t.Errorf("%s holds a control character: %q", where, text[max(0, i-60):min(len(text), i+60)])
	}
}
