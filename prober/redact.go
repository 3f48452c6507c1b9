package prober

import (
	"encoding/base64"
	"net/url"
	"os"
	"strings"
	"unicode"

	promconfig "github.com/prometheus/common/config"

	"github.com/inference-exporter/inference_exporter/config"
)

// secretPlaceholder stands for a secret in a text, as in the configuration.
const secretPlaceholder = "<secret>"

const (
	// minSecret is the shortest header value that is taken for a secret;
	// shorter ones would blank out ordinary words.
	minSecret = 6
	// minSecretPart is how much of a secret at the very end of a text, where
	// it was cut off, is still taken for it.
	minSecretPart = 4
)

// plainHeader tells whether the probe sets the header itself. Every other one
// comes from the endpoint's http settings and may be a secret.
func plainHeader(name string) bool {
	switch strings.ToLower(name) {
	case "host", "user-agent", "accept", "accept-encoding", "content-type", "content-length",
		"connection", "transfer-encoding", "traceparent", ":authority", ":method", ":path", ":scheme":
		return true
	}
	return false
}

// secretsIn returns the parts of a header's value that must not be repeated:
// "Bearer abcdef" holds the secret "abcdef", and "Basic ..." a password.
func secretsIn(values []string) []string {
	var secrets []string
	for _, v := range values {
		scheme, rest, ok := strings.Cut(v, " ")
		if !ok { // no scheme before it
			rest = scheme
		}
		for part := range strings.FieldsSeq(rest) {
			secrets = appendSecret(secrets, part)
		}
		if plain, err := base64.StdEncoding.DecodeString(rest); ok && scheme == "Basic" && err == nil {
			_, password, _ := strings.Cut(string(plain), ":")
			secrets = appendSecret(secrets, password)
		}
	}
	return secrets
}

// appendSecret adds a secret, and how a form would write it, if it is long
// enough to be told from ordinary words.
func appendSecret(secrets []string, s string) []string {
	if len(s) < minSecret {
		return secrets
	}
	if escaped := url.QueryEscape(s); escaped != s {
		secrets = append(secrets, escaped)
	}
	return append(secrets, s)
}

// secretsOf returns the secrets of an endpoint's configuration. Those in files
// are known once they are sent, except the one of OAuth2, which goes to
// another server.
func secretsOf(cfg *config.Endpoint) []string {
	var secrets []string
	add := func(s promconfig.Secret) { secrets = appendSecret(secrets, string(s)) }
	h := &cfg.HTTP
	if h.Authorization != nil {
		add(h.Authorization.Credentials)
	}
	if h.BasicAuth != nil {
		add(h.BasicAuth.Password)
	}
	if o := h.OAuth2; o != nil {
		add(o.ClientSecret)
		if text, err := os.ReadFile(o.ClientSecretFile); err == nil {
			add(promconfig.Secret(strings.TrimSpace(string(text))))
		}
	}
	if h.HTTPHeaders != nil {
		for _, header := range h.HTTPHeaders.Headers {
			for _, s := range header.Secrets {
				add(s)
			}
		}
	}
	if cfg.SigV4 != nil {
		add(cfg.SigV4.SecretAccessKey)
		add(cfg.SigV4.SessionToken)
	}
	return secrets
}

// redact blanks out the secrets in a text, since servers quote the request in
// their errors.
func redact(text string, secrets []string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, secretPlaceholder)
		for n := min(len(s)-1, len(text)); n >= minSecretPart; n-- {
			if strings.HasSuffix(text, s[:n]) {
				text = text[:len(text)-n] + secretPlaceholder
				break
			}
		}
	}
	return text
}

// maxReason bounds the text of a failure in bytes: what a server sends as its
// first line, net/http quotes whole.
const maxReason = 768

// oneLine makes a text one line of printable characters, and bounds it.
func oneLine(text string) string {
	var b strings.Builder
	for _, r := range text {
		if b.Len() >= maxReason {
			b.WriteString("...")
			break
		}
		if !unicode.IsPrint(r) {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

// redacted is an error whose text is one bounded line without secrets. It
// hides the text of its cause, and not what the cause is.
type redacted struct {
	cause error
	text  string
}

func (r *redacted) Error() string { return r.text }
func (r *redacted) Unwrap() error { return r.cause }

// presentable returns err with a text that can be shown to anyone.
func presentable(err error, secrets []string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := oneLine(redact(text, secrets)); clean != text {
		return &redacted{cause: err, text: clean}
	}
	return err
}
