package app

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"

	"github.com/alecthomas/kingpin/v2"
	promconfig "github.com/prometheus/common/config"
	"golang.org/x/net/http/httpguts"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/files"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// maxKeyBytes is the size of the largest file that --key-file takes.
const maxKeyBytes = 64 << 10

// access are the flags that say how to authenticate and connect to an endpoint,
// instead of its configuration.
type access struct {
	headers         *[]string
	keyEnv, keyFile *string
	insecure        *bool
}

func newAccess(c *kingpin.CmdClause) access {
	return access{
		headers: c.Flag("header", "Header to send, as 'Name: value'. Other users of this machine can see a key on the command line: prefer --key-env or --key-file. Repeatable.").
			Short('H').PlaceHolder("HEADER").Strings(),
		keyEnv: c.Flag("key-env", "Environment variable with the key, which is sent in the header that the host takes it in: x-api-key to Anthropic, "+
			"api-key to Azure, x-goog-api-key to Gemini, else Authorization: Bearer.").PlaceHolder("NAME").String(),
		keyFile:  c.Flag("key-file", "File with the key, which is sent as that of --key-env.").String(),
		insecure: c.Flag("insecure", "Do not verify the certificate of the server.").Bool(),
	}
}

// apply sets in an endpoint what the flags say. Errors hold no value of a header.
func (a access) apply(e *config.Endpoint, stderr io.Writer) error {
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
		fmt.Fprintln(stderr, "inference_exporter: --insecure: the certificate of the server is not verified, and keys may be sent to another")
	}
	return nil
}

// key returns the key that the flags name; "" is none.
func (a access) key() (string, error) {
	var from, key string
	switch {
	case *a.keyEnv != "" && *a.keyFile != "":
		return "", errors.New("--key-env and --key-file exclude each other")
	case *a.keyEnv != "":
		from, key = "--key-env="+*a.keyEnv, os.Getenv(*a.keyEnv)
	case *a.keyFile != "":
		text, err := files.Read(*a.keyFile, maxKeyBytes)
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

// setKey sets the key of an endpoint, in the header that its host takes one in.
func setKey(e *config.Endpoint, key string) {
	host, _ := api.LookupHost(e.URL.Hostname())
	name, ok := map[string]string{
		"anthropic":       "x-api-key",
		"azure.ai.openai": "api-key",
		"gcp.gemini":      "x-goog-api-key",
	}[host.Provider]
	if !ok {
		authorize(e, "Bearer", key)
		return
	}
	setHeader(e, name, promconfig.Header{Secrets: []promconfig.Secret{promconfig.Secret(key)}})
}

// authorize sets the Authorization of an endpoint, instead of what it has.
func authorize(e *config.Endpoint, kind, credentials string) {
	e.HTTP.BasicAuth, e.HTTP.OAuth2 = nil, nil
	e.HTTP.Authorization = &promconfig.Authorization{Type: kind, Credentials: promconfig.Secret(credentials)}
}

// setHeader sets a header of an endpoint, instead of one of that name.
func setHeader(e *config.Endpoint, name string, h promconfig.Header) {
	all := map[string]promconfig.Header{}
	if e.HTTP.HTTPHeaders != nil {
		maps.Copy(all, e.HTTP.HTTPHeaders.Headers)
		maps.DeleteFunc(all, func(own string, _ promconfig.Header) bool { return strings.EqualFold(own, name) })
	}
	all[name] = h
	e.HTTP.HTTPHeaders = &promconfig.Headers{Headers: all}
}
