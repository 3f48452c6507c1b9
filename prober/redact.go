package prober

import (
	"strings"
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
// "Bearer abcdef" holds the secret "abcdef".
func secretsIn(values []string) []string {
	var secrets []string
	for _, v := range values {
		for part := range strings.FieldsSeq(v) {
			if len(part) >= minSecret {
				secrets = append(secrets, part)
			}
		}
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

// redacted is an error whose text has no secrets. It hides the text of its
// cause, and not what the cause is.
type redacted struct {
	cause error
	text  string
}

func (r *redacted) Error() string { return r.text }
func (r *redacted) Unwrap() error { return r.cause }

// withoutSecrets returns err with its text redacted.
func withoutSecrets(err error, secrets []string) error {
	if err == nil || len(secrets) == 0 {
		return err
	}
	text := err.Error()
	if clean := redact(text, secrets); clean != text {
		return &redacted{cause: err, text: clean}
	}
	return err
}
