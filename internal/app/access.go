package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	promconfig "github.com/prometheus/common/config"
	"golang.org/x/net/http/httpguts"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/detect"
)

const maxKeyBytes = 64 << 10

// access are the flags that say how to authenticate and connect to an endpoint, instead of its configuration.
type access struct {
	headers                 *[]string
	keyEnv, keyFile, caFile *string
	insecure                *bool
}

func newAccess(c *kingpin.CmdClause) access {
	return access{
		headers: c.Flag("header", "Header to send, as 'Name: value'. Other users of this machine can see a key on the command line: prefer --key-env or --key-file. Repeatable.").
			Short('H').PlaceHolder("HEADER").Strings(),
		keyEnv: c.Flag("key-env", "Environment variable with the key, which is sent in the header of the protocol or of the host: x-api-key for Anthropic, "+
			"x-goog-api-key for Gemini, api-key at Azure, else Authorization: Bearer.").PlaceHolder("NAME").String(),
		keyFile:  c.Flag("key-file", "File with the key, which is sent as that of --key-env.").String(),
		caFile:   c.Flag("ca-file", "File with the certificates of the authorities to trust instead of the system's.").PlaceHolder("FILE").String(),
		insecure: c.Flag("insecure", "Do not verify the certificate of the server.").Bool(),
	}
}

// apply sets in an endpoint what the flags say. Errors hold no value of a header.
func (a access) apply(e *config.Endpoint) error {
	key, err := a.key()
	if err != nil {
		return err
	}
	if key != "" {
		setKey(e, key)
	}
	for _, header := range *a.headers {
		name, value, ok := strings.Cut(header, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return errors.New("--header: want 'Name: value', without line breaks")
		}
		if kind, credentials, _ := strings.Cut(value, " "); strings.EqualFold(name, "Authorization") {
			authorize(e, kind, strings.TrimSpace(credentials))
			continue
		}
		setHeader(e, name, promconfig.Header{Values: []string{value}})
	}
	if err := e.HTTP.Validate(); err != nil {
		return fmt.Errorf("--header: %w", err)
	}
	if *a.insecure {
		e.HTTP.TLSConfig.InsecureSkipVerify = true
	}
	if *a.caFile != "" {
		e.HTTP.TLSConfig.CA, e.HTTP.TLSConfig.CAFile = "", *a.caFile
		if _, err := promconfig.NewTLSConfig(&e.HTTP.TLSConfig); err != nil {
			return fmt.Errorf("--ca-file: %w", err)
		}
	}
	return nil
}

// warn writes what is unsafe about the flags. A command calls it once, however many endpoints they apply to.
func (a access) warn(stderr io.Writer) {
	if *a.insecure {
		fmt.Fprintln(stderr, "inference_exporter: --insecure: the certificate of the server is not verified, and keys may be sent to another")
	}
}

// stanza returns what the flags say as lines of the endpoint in a configuration file. It holds no key: the file names
// where the exporter reads it, and of a header of --header the value is left to the user.
func (a access) stanza(e *config.Endpoint) string {
	var b strings.Builder
	line := func(depth int, text string) { b.WriteString(strings.Repeat("  ", depth) + text + "\n") }
	if *a.keyEnv != "" || *a.keyFile != "" || *a.caFile != "" || *a.insecure {
		line(2, "http:")
	}
	header, inHeader := keyHeader(e)
	switch {
	case *a.keyEnv == "" && *a.keyFile == "":
	case inHeader && *a.keyEnv != "":
		line(3, "http_headers: {"+header+`: {secrets: ["${`+*a.keyEnv+`}"]}}`)
	case inHeader:
		line(3, "http_headers: {"+header+": {files: ["+quoteYAML(*a.keyFile)+"]}}")
	case *a.keyEnv != "":
		line(3, `authorization: {credentials: "${`+*a.keyEnv+`}"}`)
	default:
		line(3, "authorization: {credentials_file: "+quoteYAML(*a.keyFile)+"}")
	}
	switch {
	case *a.insecure:
		line(3, "tls_config: {insecure_skip_verify: true}")
	case *a.caFile != "":
		line(3, "tls_config: {ca_file: "+quoteYAML(*a.caFile)+"}")
	}
	for _, header := range *a.headers {
		name, _, _ := strings.Cut(header, ":")
		line(2, "# header "+strings.TrimSpace(name)+": to be added, under http.http_headers or http.authorization")
	}
	return b.String()
}

// quoteYAML returns a text as a quoted scalar, which is one of JSON too.
func quoteYAML(s string) string {
	text, _ := json.Marshal(s) // of a string it cannot fail
	return string(text)
}

// key returns the key that the flags name; "" is none.
func (a access) key() (string, error) {
	var from, key string
	switch {
	case *a.keyEnv != "" && *a.keyFile != "":
		return "", errors.New("--key-env and --key-file are mutually exclusive")
	case *a.keyEnv != "":
		from, key = "--key-env="+*a.keyEnv, os.Getenv(*a.keyEnv)
	case *a.keyFile != "":
		text, err := foreign.ReadFile(*a.keyFile, maxKeyBytes)
		if err != nil {
			return "", fmt.Errorf("--key-file: %w", err)
		}
		from, key = "--key-file="+*a.keyFile, string(text)
	default:
		return "", nil
	}
	key = strings.TrimSpace(key)
	if key == "" {
		return "", fmt.Errorf("%s: not set, or empty", from)
	}
	if !httpguts.ValidHeaderFieldValue(key) {
		return "", fmt.Errorf("%s: the key has a line break or another control character", from)
	}
	return key, nil
}

// keyHeader returns the header in which an endpoint takes a key, by its protocol and its host; false is Authorization.
func keyHeader(e *config.Endpoint) (name string, ok bool) {
	host, _ := api.LookupHost(e.URL.Hostname())
	protocol := cmp.Or(e.API, detect.Known(e.URL.URL))
	switch {
	case host.Provider == "gcp.vertex_ai": // a token of Google Cloud, whatever the protocol
		return "", false
	case protocol == "anthropic":
		return "x-api-key", true
	case protocol == "gemini":
		return "x-goog-api-key", true
	case host.Provider == "azure.ai.openai":
		return "api-key", true
	}
	return "", false
}

func setKey(e *config.Endpoint, key string) {
	name, ok := keyHeader(e)
	if !ok {
		authorize(e, "Bearer", key)
		return
	}
	setHeader(e, name, promconfig.Header{Secrets: []promconfig.Secret{promconfig.Secret(key)}})
}

func authorize(e *config.Endpoint, kind, credentials string) {
	e.HTTP.BasicAuth, e.HTTP.OAuth2 = nil, nil
	e.HTTP.Authorization = &promconfig.Authorization{Type: kind, Credentials: promconfig.Secret(credentials)}
	e.Supply("http.authorization", "http.basic_auth", "http.oauth2")
}

func setHeader(e *config.Endpoint, name string, h promconfig.Header) {
	all := map[string]promconfig.Header{}
	if e.HTTP.HTTPHeaders != nil {
		maps.Copy(all, e.HTTP.HTTPHeaders.Headers)
		maps.DeleteFunc(all, func(own string, _ promconfig.Header) bool { return strings.EqualFold(own, name) })
	}
	all[name] = h
	e.HTTP.HTTPHeaders = &promconfig.Headers{Headers: all}
	e.Supply("http.http_headers." + name)
}

// isAddress reports whether a target is HOST:PORT, with a path or without: a URL that lacks its scheme.
func isAddress(target string) bool {
	hostPort, _, _ := strings.Cut(target, "/")
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil || host == "" || strings.ContainsAny(host, "@?# ") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// withScheme returns a target that is an address as the URL of what answers there, and says which; others as they are.
func withScheme(ctx context.Context, target string, stderr io.Writer) string {
	if fleet.IsURL(target) || !isAddress(target) {
		return target
	}
	hostPort, _, _ := strings.Cut(target, "/")
	url := schemeAt(ctx, hostPort) + "://" + target
	fmt.Fprintf(stderr, "inference_exporter: %s has no scheme: asking %s\n", target, url)
	return url
}

// schemeLimits are those of one attempt to find out the scheme.
func schemeLimits() foreign.Limits { return foreign.Limits{Time: 3 * time.Second, Bytes: 1} }

// schemeAt returns https if a server speaks TLS and no plain HTTP, else http, as where nothing answers. It sends no key.
func schemeAt(ctx context.Context, hostPort string) string {
	if !speaksHTTP(ctx, hostPort) && speaksTLS(ctx, hostPort) {
		return "https"
	}
	return "http"
}

// speaksHTTP reports whether a server answers plain HTTP, but for the status 400 of servers that want TLS.
func speaksHTTP(ctx context.Context, hostPort string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+hostPort+"/", nil)
	if err != nil {
		return false
	}
	req.Header.Set("User-Agent", fleet.UserAgent())
	transport := foreign.NewTransport(schemeLimits())
	transport.Proxy = nil // as probes go
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode != http.StatusBadRequest
}

// speaksTLS reports whether a server completes a TLS handshake. Nothing is sent on the connection: any certificate does.
func speaksTLS(ctx context.Context, hostPort string) bool {
	conn, err := schemeLimits().Dial(ctx, "tcp", hostPort)
	if err != nil {
		return false
	}
	defer conn.Close()
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) == nil
}

// moduleNames returns the names of the modules, for completion: those of --config.file too.
func (c *request) moduleNames() []string {
	cfg, err := config.Load(*c.file, config.IgnoreSecrets)
	if err != nil {
		cfg = config.None()
	}
	return slices.Sorted(maps.Keys(cfg.Modules))
}

// endpointNames returns the names of the endpoints in --config.file, for completion.
func (c *request) endpointNames() []string {
	var names []string
	if cfg, err := config.Load(*c.file, config.IgnoreSecrets); err == nil {
		names = namesOf(cfg)
	}
	return names
}
