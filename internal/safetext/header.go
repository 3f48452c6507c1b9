package safetext

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// InHeader returns the parts of a header's value that must not be repeated:
// "Bearer abcdef" holds the secret "abcdef", "Basic ..." a password, and
// "a=1; b=2" are cookies.
func InHeader(value string) []string {
	scheme, rest, ok := strings.Cut(value, " ")
	if !ok { // no scheme before it
		rest = scheme
	}
	var secrets []string
	for part := range strings.FieldsSeq(rest) {
		secrets = append(secrets, strings.TrimRight(part, ";,"))
	}
	if plain, err := base64.StdEncoding.DecodeString(rest); ok && scheme == "Basic" && err == nil {
		_, password, _ := strings.Cut(string(plain), ":")
		secrets = append(secrets, password)
	}
	if cookies, err := http.ParseCookie(value); err == nil {
		for _, c := range cookies {
			secrets = append(secrets, c.Value)
		}
	}
	return secrets
}
