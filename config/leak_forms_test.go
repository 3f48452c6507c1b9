package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// secretPlaces are the keys that hold a secret or name a file with one, each with
// the keys above it, under `http`.
func secretPlaces() [][]string {
	return [][]string{
		{"authorization", "credentials"},
		{"authorization", "credentials_file"},
		{"basic_auth", "password"},
		{"basic_auth", "password_file"},
		{"oauth2", "client_secret"},
		{"oauth2", "client_secret_file"},
		{"oauth2", "client_certificate_key"},
		{"oauth2", "client_certificate_key_file"},
		{"oauth2", "endpoint_params", "password"},
		{"oauth2", "tls_config", "key_file"},
		{"oauth2", "token_url"},
		{"oauth2", "claims", "sub"},
		{"tls_config", "key"},
		{"tls_config", "key_file"},
		{"http_headers", "X-Key", "secrets"},
		{"http_headers", "X-Key", "values"},
		{"http_headers", "X-Key", "files"},
		{"http_headers", "Api-Key", "values"},
		{"proxy_connect_header", "X-Key"},
		{"proxy_url"},
		{"bearer_token"},
		{"bearer_token_file"},
	}
}

// wrongForms writes keys, the last of them above a secret, in the ways that people
// get them wrong.
func wrongForms(keys []string, secret string) []string {
	nest := func(keys []string, inner string) string {
		for _, key := range slices.Backward(keys) {
			inner = "{" + key + ": " + inner + "}"
		}
		return inner
	}
	block := func(keys []string, gap, inner string) string { // lines of their own
		var b strings.Builder
		for i, key := range keys {
			fmt.Fprintf(&b, "\n%s%s:", strings.Repeat(" ", 6+i*2), key)
		}
		return b.String() + gap + inner
	}
	above, last := keys[:len(keys)-1], keys[len(keys)-1]
	var all []string
	for _, inner := range []string{
		"{" + last + ":" + secret + "}",
		"{" + last + "=" + secret + "}",
		"{" + last + " " + secret + "}",
		"{'" + last + ":" + secret + "'}",
		"{? " + secret + "}",
		"{" + secret + "}",
		"{" + secret + ": " + last + "}",
		"{" + secret + ": {" + last + ": x}}",
		"{" + last + ": a, " + last + ": " + secret + "}",
		"{" + secret + ": a, " + secret + ": b}",
		"{" + last + "z: " + secret + "}",
		"{" + last + "z: {" + secret + ": a}}",
		"{" + last + ": {" + secret + "}}",
		"{" + last + ": {" + secret + ": {" + secret + ": a}}}",
		"{" + last + ": [" + secret + "]}",
		"{" + last + ": [{" + secret + ": a}]}",
		"{" + last + ": &" + secret + "}",
		"{" + last + ": *" + secret + "}",
		"{" + last + ": !" + secret + " a}",
		"{" + last + ": !!int " + secret + "}",
		"{" + last + ": '${" + secret + "}'}",
		"{" + last + ": '${" + strings.ReplaceAll(secret, "-", "_") + "}'}",
		"{" + last + ": '" + secret + "${'}",
		"{" + last + ": '" + secret + "${UNSET_IN_TESTS}'}",
		"{" + last + ": \"" + secret + "\\r\\n\"}",
		"{" + last + ": \"" + secret + "\\0\"}",
		"{" + last + ": \"" + secret + "\\q\"}",
		"{" + last + ": \"" + secret + "}",
		"{" + last + ": " + secret + ": a}",
		"{" + last + ": |" + secret + "}",
		"{" + last + ": @" + secret + "}",
		"{" + last + ": %" + secret + "}",
		"{" + last + ": `" + secret + "`}",
		"{<<: {" + last + ":" + secret + "}}",
		"{<<: [" + secret + "]}",
		"{<<: " + secret + "}",
		"{[" + secret + "]: a}",
		"[" + last + ": " + secret + "]",
		"[" + secret + "]",
		secret,
		last + ":" + secret,
		"'" + last + ": " + secret + "'",
	} {
		all = append(all, nest(above, inner))
	}
	if strings.HasSuffix(last, "_file") {
		all = append(all, nest(keys, "/"+secret), nest(keys, "/etc/hostname/"+secret), nest(keys, strings.Repeat(secret, 300)), nest(keys, "'"+secret+" with\tspaces'"))
	}
	return append(all,
		nest(keys, secret), // as it should be, and what is shown of it
		block(keys, "", secret),
		block(keys, "\n  ", secret),
		block(keys, "\n      ", secret),
		block(keys, "\n            - ", secret),
		block(keys, "\n\t", secret),
		block(keys, " |\n", secret),
		block(keys, " \"", secret+"\n"),
		block(above, "\n      ", last+": "+secret),
		block(above, "\n              ", last+":"+secret),
		block(above, "\n", last+": "+secret),
		block(above, "\n", last+":"+secret),
		block(above, "\n    ", last+":"+secret),
		block(above, "\n    ", last+":"+secret+": a"),
	)
}

// TestNoFormLeaks writes each secret in each wrong form at each place that has
// secrets. Neither an error nor the printed configuration shows it.
func TestNoFormLeaks(t *testing.T) {
	secrets := []string{"sk-C4nary9xQ7", "canarysecretword"}
	if testing.Short() {
		secrets = secrets[1:]
	}
	for _, secret := range secrets {
		var texts []string
		add := func(keys []string, format string) {
			for _, form := range wrongForms(keys, secret) {
				texts = append(texts, fmt.Sprintf(format, form))
			}
		}
		for _, keys := range secretPlaces() {
			add(keys, "endpoints:\n  - url: http://h\n    http: %s\n")
			if len(keys) == 1 { // elsewhere the very same settings
				add(keys, "endpoints:\n  - url: http://h\n    servers: {http: %s}\n")
				add(keys, "discovery:\n  - static_configs: [{targets: [h]}]\n    allow: [h]\n    http: %s\n")
			}
			add(append([]string{"url: http://h, " + keys[0]}, keys[1:]...), "discovery:\n  - allow: [h]\n    http_sd_configs: [%s]\n")
		}
		for _, key := range []string{"secret_access_key", "session_token"} {
			add([]string{"region: a, access_key_id: A, " + key}, "endpoints:\n  - url: http://h\n    sigv4: %s\n")
			add([]string{key}, "endpoints:\n  - url: http://h\n    sigv4: %s\n")
		}
		add([]string{"headers", "X-Key"}, "endpoints: [{url: http://h}]\ntracing: %s\n")
		add([]string{"otlp_endpoint: http://otel, headers", "X-Key"}, "endpoints: [{url: http://h}]\ntracing: %s\n")
		add([]string{"otlp_endpoint: http://otel, headers", "X-Key"}, "endpoints: [{url: http://h}]\nmetrics: %s\n")
		for i, text := range texts {
			if !testing.Short() || i%3 == 0 { // a third of the forms of each place
				checkWrongForm(t, text, secret)
			}
		}
	}
}

// checkWrongForm parses a text that may have a secret in a wrong place.
func checkWrongForm(t *testing.T, text, secret string) {
	t.Helper()
	shown := ""
	c, err := Parse([]byte(text), "leak.yml")
	if err != nil {
		shown = err.Error()
	} else if page, err := c.Marshal(); err != nil {
		t.Error(err)
	} else {
		shown = string(page)
	}
	for _, s := range []string{secret + ": X-Key", secret + ": <secret>"} {
		if err == nil {
			shown = strings.ReplaceAll(shown, s, "") // the valid name of a header
		}
	}
	for _, s := range []string{secret, strings.ReplaceAll(secret, "-", "_")} {
		if i := strings.Index(shown, s); i >= 0 {
			t.Errorf("%s\nshows %s", text, shown[max(0, i-150):min(len(shown), i+60)])
			return
		}
	}
}

// TestOuterFormsDoNotLeak writes a secret at places that have none.
func TestOuterFormsDoNotLeak(t *testing.T) {
	const secret = "sk-C4nary9xQ7"
	i := 0
	for _, key := range []string{"authorization", "credentials", "password", "client_secret", "secret_access_key", "api_key", "headers", "Api-Key", "http"} {
		for _, form := range []string{
			key + ":" + secret, key + "=" + secret, key + ": " + secret, key + ": {" + secret + "}", key + ": {" + key + ":" + secret + "}",
			key + ": {" + key + ": " + secret + "}", secret, secret + ": " + key, key + ":" + secret + ": a, " + key + ":" + secret + ": b",
		} {
			for _, place := range []string{
				"{%s, endpoints: [{url: http://h}]}\n",
				"endpoints: [{url: http://h, %s}]\n",
				"endpoints: [{url: http://h, servers: {%s}}]\n",
				"endpoints: [{url: http://h, price: {%s}}]\n",
				"{global: {%s}, endpoints: [{url: http://h}]}\n",
				"{modules: {interactive: {%s}}, endpoints: [{url: http://h}]}\n",
				"{probe: {%s}, endpoints: [{url: http://h}]}\n",
				"discovery: [{static_configs: [{targets: [h]}], %s}]\n",
				"discovery: [{file_sd_configs: [{files: [a.yml], %s}]}]\n",
				"discovery: [{static_configs: [{targets: [h], %s}]}]\n",
				"discovery: [{static_configs: [{targets: [h]}], relabel_configs: [{%s}]}]\n",
				"endpoints:\n  - url: http://h\n    %s\n",
				"endpoints:\n  - url: http://h\n%s\n",
			} {
				if i++; !testing.Short() || i%3 == 0 { // each form at a third of the places
					checkWrongForm(t, fmt.Sprintf(place, form), secret)
				}
			}
		}
	}
}

// TestURLsDoNotLeak puts a secret into each URL of the file.
func TestURLsDoNotLeak(t *testing.T) {
	const secret = "sk-C4nary9xQ7"
	for _, u := range []string{
		"http://ann:" + secret + "@h", "http://" + secret + "@h", "ann:" + secret + "@h", "http://h/?api_key=" + secret,
		"http://h?" + secret, "http://h/#" + secret, "http://h:" + secret, "http://ann:" + secret + "%zz@h", "http://h/?a=b&sig=" + secret,
		"http://h/?a=%zz&token=" + secret,
	} {
		for _, place := range []string{
			"endpoints: [{url: '%s'}]\n",
			"endpoints: [{url: http://h, servers: {urls: ['%s']}}]\n",
			"endpoints: [{url: http://h, servers: {dns: ['%s']}}]\n",
			"endpoints: [{url: http://h, http: {proxy_url: '%s'}}]\n",
			"endpoints: [{url: http://h, http: {oauth2: {client_id: a, client_secret: b, token_url: '%s'}}}]\n",
			"{tracing: {otlp_endpoint: '%s'}, endpoints: [{url: http://h}]}\n",
			"discovery: [{http_sd_configs: [{url: '%s'}]}]\n",
			"discovery: [{http_sd_configs: [{url: 'http://h', proxy_url: '%s'}]}]\n",
			"discovery: [{allow: [h], http_sd_configs: [{url: 'http://h', oauth2: {client_id: a, client_secret: b, token_url: '%s'}}]}]\n",
		} {
			checkWrongForm(t, fmt.Sprintf(place, u), secret)
		}
	}
}
