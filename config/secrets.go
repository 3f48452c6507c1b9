package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
)

// Secrets returns the secrets in a part of the configuration, such as an
// *Endpoint: values of type secret, the contents of the files that hold one, as
// they are now, the password of a proxy, and the values of headers, and of the
// queries of URLs, that carry credentials. It is for finding them in texts of others, so that nothing else
// repeats them. A file that cannot be read holds none.
func Secrets(part any) []string {
	var c secretCollector
	c.walk(reflect.ValueOf(part), "")
	slices.Sort(c.found)
	return slices.Compact(c.found)
}

// IsPublicHeader reports whether a value that is sent in a header of the
// endpoint's settings is written in the configuration in the open: by its key
// `values`, under a name that does not carry credentials.
func (e *Endpoint) IsPublicHeader(name, value string) bool {
	if e.HTTP.HTTPHeaders == nil || carriesCredentials(name) {
		return false
	}
	for own, h := range e.HTTP.HTTPHeaders.Headers {
		if strings.EqualFold(own, name) && slices.Contains(h.Values, value) {
			return true
		}
	}
	return false
}

// carriesCredentials reports whether the values of a header are secrets by its
// name: Authorization, Api-Key, Cookie and the like.
func carriesCredentials(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{
		"auth", "key", "token", "secret", "password", "passwd", "cookie", "credential", "session", "signature", "jwt",
	}, func(word string) bool { return strings.Contains(name, word) })
}

// secretCollector walks through a configuration.
type secretCollector struct{ found []string }

func (c *secretCollector) add(s string) {
	if s = strings.TrimSpace(s); s != "" {
		c.found = append(c.found, s)
	}
}

// walk visits a value that is held by a field of the given name.
func (c *secretCollector) walk(v reflect.Value, field string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			c.walk(v.Elem(), field)
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.walk(v.Index(i), field)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			c.walk(v.MapIndex(key), field)
		}
	case reflect.Struct:
		c.structure(v)
	case reflect.String:
		switch _, secret := v.Interface().(promconfig.Secret); {
		case secret:
			c.add(v.String())
		case isSecretFile(field):
			c.file(v.String())
		case field == "URL" || field == "TokenURL":
			c.query(v.String())
		}
	}
}

func (c *secretCollector) structure(v reflect.Value) {
	switch t := v.Interface().(type) {
	case promconfig.Headers:
		for name, h := range t.Headers {
			if carriesCredentials(name) {
				for _, value := range h.Values {
					c.add(value)
				}
			}
			c.walk(reflect.ValueOf(h.Secrets), "")
			c.walk(reflect.ValueOf(h.Files), "HeaderFile")
		}
		return
	case promconfig.OAuth2:
		for name, value := range t.EndpointParams {
			if carriesCredentials(name) {
				c.add(value)
			}
		}
	case url.URL:
		if password, ok := t.User.Password(); ok {
			c.add(password)
		}
		return
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() {
			c.walk(v.Field(i), f.Name)
		}
	}
}

// query adds what the query of a URL has under the name of a credential.
func (c *secretCollector) query(s string) {
	u, err := url.Parse(s)
	if err != nil {
		return
	}
	for name, values := range u.Query() {
		if carriesCredentials(name) {
			for _, value := range values {
				c.add(value)
			}
		}
	}
}

// isSecretFile reports whether a field names a file with a secret that is sent.
func isSecretFile(field string) bool {
	switch field {
	case "CredentialsFile", "PasswordFile", "ClientSecretFile", "ClientCertificateKeyFile", "BearerTokenFile", "HeaderFile":
		return true
	}
	return false
}

// file adds what a file of one secret holds.
func (c *secretCollector) file(name string) {
	if text, err := foreign.ReadFile(name, maxSecretBytes); err == nil {
		c.add(string(text))
	}
}

// errUnset is an environment variable without a value.
var errUnset = errors.New("not set, or empty")

// expandEnv replaces each ${NAME} in s by the environment variable NAME, which
// must be set and not empty, and each $${ by a literal ${. Any other dollar
// sign is left as it is. Errors name the variable, where its name is of the usual
// form, and never repeat s.
func expandEnv(s string) (string, error) {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), nil
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		name, rest, ok := strings.Cut(s[i+2:], "}")
		if !ok || !model.LegacyValidation.IsValidLabelName(name) { // variables have names of the same form
			return "", errors.New("want ${NAME} with the name of an environment variable; write $${ for a literal ${")
		}
		value := os.Getenv(name)
		switch {
		case value == "" && variableLike.MatchString(name):
			return "", fmt.Errorf("environment variable %s is %w", name, errUnset)
		case value == "": // the name may be the secret itself
			return "", fmt.Errorf("an environment variable that is %w", errUnset)
		}
		b.WriteString(s[:i] + value)
		s = rest
	}
}

// maxSecretBytes bounds a file with a secret or certificates.
const maxSecretBytes = 1 << 20

// isFileKey reports whether a key names one or several files.
func isFileKey(key string) bool { return key == "files" || strings.HasSuffix(key, "_file") }

// files makes the file names of one key absolute and checks that each file can
// be read, so that a missing secret shows at start and not in the first probe.
func (d *decoder) files(key string, p path, v reflect.Value) {
	limit := maxSecretBytes
	switch key {
	case "prompts_file":
		limit = maxPromptsBytes
	case "profile_file":
		limit = maxProfileBytes
	}
	if v.Kind() == reflect.String {
		d.file(p, v, limit)
		return
	}
	for i := range v.Len() {
		d.file(p.index(i), v.Index(i), limit)
	}
}

func (d *decoder) file(p path, v reflect.Value, limit int) {
	if v.String() == "" {
		return
	}
	name := promconfig.JoinDir(d.dir, v.String())
	v.SetString(name)
	if err := foreign.CheckFile(name, int64(limit)); err != nil {
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err
		}
		if d.secret { // the name may be the secret itself
			d.missingSecretf(p, "cannot read the file (a relative name counts from %s): %v", d.dir, err)
			return
		}
		d.errorf(p, "cannot read %s: %v", name, err)
	}
}

// Files returns the names of the files that a client with these settings reads
// for its requests: of secrets and certificates.
func (h *HTTPClient) Files() []string {
	var names []string
	settings := h.HTTPClientConfig
	eachFile("", reflect.ValueOf(&settings).Elem(), func(_ string, _ path, v reflect.Value) {
		if list, ok := v.Interface().([]string); ok {
			names = append(names, list...)
		} else if v.String() != "" {
			names = append(names, v.String())
		}
	})
	return names
}

// UseFiles returns why the certificates and keys in the files cannot be used; nil where
// they can.
func (h *HTTPClient) UseFiles() error {
	_, err := promconfig.NewTLSConfig(&h.TLSConfig)
	if err == nil && h.OAuth2 != nil {
		_, err = promconfig.NewTLSConfig(&h.OAuth2.TLSConfig)
	}
	return err
}

// eachFile calls f for each key of an HTTP client's settings that names files, with
// its path and its value.
func eachFile(p path, v reflect.Value, f func(key string, p path, v reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachFile(p, v.Elem(), f)
		}
	case reflect.Map:
		for _, name := range v.MapKeys() {
			if v.Type().Elem() == reflect.TypeFor[promconfig.Header]() {
				header := reflect.New(v.Type().Elem()).Elem() // unlike that of the map, it can be set
				header.Set(v.MapIndex(name))
				eachFile(p.key(name.String()), header, f)
			}
		}
	case reflect.Struct:
		for _, field := range reflect.VisibleFields(v.Type()) {
			key, option, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			switch value := v.FieldByIndex(field.Index); {
			case !field.IsExported() || field.Type == reflect.TypeFor[promconfig.URL]():
			case isFileKey(key):
				f(key, p.key(key), value)
			case option == "inline" || v.Type() == reflect.TypeFor[promconfig.Headers]():
				eachFile(p, value, f)
			case key != "" && key != "-":
				eachFile(p.key(key), value, f)
			}
		}
	}
}

// The values of Global.MissingSecrets.
const (
	missingRefuse = "refuse"
	missingSkip   = "skip_endpoint"
)

// skipWithoutSecrets takes back the mistakes that are a missing secret of an endpoint,
// where the file or the caller allows it, and marks the endpoint instead; and all that
// are a missing secret where the caller needs none.
func (c *Config) skipWithoutSecrets(r *report) {
	if r.noSecrets {
		r.errs = slices.DeleteFunc(r.errs, func(e *Error) bool { return r.missingSecrets[e] })
		return
	}
	if c.Global.MissingSecrets != missingSkip && !r.skipSecrets {
		return
	}
	r.errs = slices.DeleteFunc(r.errs, func(e *Error) bool { return r.missingSecrets[e] && c.skipOwner(e) })
}

// skipOwner marks the endpoint whose secret is missing; false if it is of something
// that endpoints share.
func (c *Config) skipOwner(e *Error) bool {
	for i, own := range c.Endpoints {
		if !path(e.Path).isUnder(path("endpoints").index(i)) {
			continue
		}
		_, key, _ := strings.Cut(e.Path, "].")
		if own.MissingSecret != "" {
			own.MissingSecret += missingSeparator
		}
		own.MissingSecret += key + ": " + e.Msg
		return true
	}
	return false
}

// missingSeparator is between the secrets of an endpoint that are missing.
const missingSeparator = "; and "

// Supply marks the secrets under one of keys, such as http.authorization, as no longer
// missing: the caller has set others in their place. The case of letters does not matter,
// as in the names of headers.
func (e *Endpoint) Supply(keys ...string) {
	if e.MissingSecret == "" {
		return
	}
	missing := slices.DeleteFunc(strings.Split(e.MissingSecret, missingSeparator), func(one string) bool {
		at, _, _ := strings.Cut(strings.ToLower(one), ": ")
		return slices.ContainsFunc(keys, func(key string) bool { return path(at).isUnder(path(strings.ToLower(key))) })
	})
	e.MissingSecret = strings.Join(missing, missingSeparator)
}
