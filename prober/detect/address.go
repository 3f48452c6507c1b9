package detect

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Known returns the protocol of a URL that is already that of one, or is of a hosted API,
// without asking; "" is not known.
func Known(base *url.URL) string {
	given, _ := byPath(base)
	return cmp.Or(given, hosted(base))
}

// hosted returns the protocol of a hosted API by its host name; "" is none.
func hosted(base *url.URL) string {
	host, _ := api.LookupHost(base.Hostname())
	// Some with a protocol of their own speak OpenAI's too, under such paths.
	compatible := strings.Contains(base.Path, "/openai") || strings.Contains(base.Path, "/compatibility")
	if host.API != "" && compatible {
		return openaiChat
	}
	return host.API
}

// byPath returns the protocol whose own URL base already is, and the path of it under the server's root; "" is none. Of
// two that end alike it is the one with the longer path: /api/embed is not /embed behind a prefix.
func byPath(base *url.URL) (name, path string) {
	at := strings.TrimRight(base.EscapedPath(), "/")
	server := &url.URL{Scheme: base.Scheme, Host: base.Host}
	for _, p := range api.All() {
		own := p.URL(server, "").EscapedPath()
		if p.URL(base, "").EscapedPath() == at && len(own) > len(path) {
			name, path = p.Name, own
		}
	}
	return name, path
}

// modelsURL is where a server of the OpenAI protocols lists its models, given the path of base that is of a protocol.
func modelsURL(base *url.URL, path string) *url.URL {
	chat, _ := api.Lookup(openaiChat) // always there
	return chat.Models.URL(api.WithPath(base, strings.TrimSuffix(strings.TrimRight(base.EscapedPath(), "/"), path)))
}

// url returns where to ask for a path under the server's root, which is what
// is before the version in the URL of the models.
func (d *detection) url(path string) *url.URL {
	if path == modelsPath {
		return d.models
	}
	root := strings.TrimSuffix(d.models.EscapedPath(), "/models")
	if i := strings.LastIndexByte(root, '/'); i >= 0 && api.IsVersion(root[i+1:]) {
		root = root[:i]
	}
	return api.WithPath(d.models, root+path)
}
