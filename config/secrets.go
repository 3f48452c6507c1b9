package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
)

// Secrets returns the secrets in a part of the configuration, such as an *Endpoint, so that they can be found in texts
// of others: values of type secret, contents of files that hold one, as they are now, the password of a proxy, and
// values of headers, and of queries of URLs, that carry credentials. A file that cannot be read holds none.
func Secrets(part any) []string {
	var found []string
	add := func(texts ...string) {
		for _, s := range texts {
			if s = strings.TrimSpace(s); s != "" {
				found = append(found, s)
			}
		}
	}
	leaves(reflect.ValueOf(part), "", nil, func(v reflect.Value, _ path, keys []string) {
		name, key := lastTwo(keys)
		switch x := v.Interface().(type) {
		case promconfig.Secret:
			add(string(x))
		case url.URL:
			password, _ := x.User.Password()
			add(password)
		case string:
			switch {
			case key == "values" && carriesCredentials(name), name == "endpoint_params" && carriesCredentials(key):
				add(x)
			case isSecretFile(keys):
				if text, err := foreign.ReadFile(x, maxSecretBytes); err == nil {
					add(string(text))
				}
			case key == "url" || key == "token_url":
				_, text, _ := strings.Cut(x, "?")
				query, _ := url.ParseQuery(text) // what of it can be read
				for name, values := range query {
					if carriesCredentials(name) {
						add(values...)
					}
				}
			}
		}
	})
	slices.Sort(found)
	return slices.Compact(found)
}

// leaves calls f for each plain value that is set in a part of the configuration and for each URL,
// with its path under p and the keys, names of mappings included, that lead to it.
func leaves(v reflect.Value, p path, keys []string, f func(v reflect.Value, p path, keys []string)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			leaves(v.Elem(), p, keys, f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			leaves(v.Index(i), p.index(i), keys, f)
		}
	case reflect.Map:
		for _, name := range sortedKeys(v) {
			leaves(v.MapIndex(name), p.key(name.String()), append(keys, name.String()), f)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[url.URL]() {
			f(v, p, keys)
			return
		}
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				continue // most are, and the path of each is a string of its own
			}
			field := v.Type().Field(i)
			switch key, option, _ := strings.Cut(field.Tag.Get("yaml"), ","); {
			case !field.IsExported() || key == "-":
			case field.Anonymous || option == "inline":
				leaves(v.Field(i), p, keys, f)
			default:
				leaves(v.Field(i), p.key(key), append(keys, key), f)
			}
		}
	default:
		f(v, p, keys)
	}
}

// lastTwo returns the last of some keys and the one before it; "" is none.
func lastTwo(keys []string) (before, last string) {
	if n := len(keys); n > 0 {
		last = keys[n-1]
		if n > 1 {
			before = keys[n-2]
		}
	}
	return before, last
}

// isSecretFile reports whether keys lead to the name of a file with a secret that is sent.
func isSecretFile(keys []string) bool {
	switch name, key := lastTwo(keys); key {
	case "credentials_file", "password_file", "client_secret_file", "client_certificate_key_file", "bearer_token_file":
		return true
	case "files":
		header, _ := lastTwo(keys[:len(keys)-1])
		return header == "http_headers" && name != ""
	}
	return false
}

// IsPublicHeader reports whether the value of a header is written in the open: by its key `values`, under
// a name that does not carry credentials.
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

// carriesCredentials reports whether the values of a header are secrets by its name, as of Authorization.
func carriesCredentials(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{
		"auth", "key", "token", "secret", "password", "passwd", "cookie", "credential", "session", "signature", "jwt",
	}, func(word string) bool { return strings.Contains(name, word) })
}

// envReference is what stands for an environment variable or for a literal ${.
var envReference = regexp.MustCompile(`\$\$\{|\$\{[^}]*\}?`)

// errUnset is an environment variable without a value.
var errUnset = errors.New("not set, or empty")

// expandEnv replaces each ${NAME} in s by the environment variable NAME, which must be set and not empty,
// and each $${ by a literal ${; any other dollar sign stays. Errors name the variable, where its name is
// of the usual form, and never repeat s.
func expandEnv(s string) (string, error) {
	var err error
	expanded := envReference.ReplaceAllStringFunc(s, func(reference string) string {
		if reference == "$${" {
			return "${"
		}
		name, ended := strings.CutSuffix(reference[len("${"):], "}")
		value := os.Getenv(name)
		switch {
		case err != nil:
		case !ended || !model.LegacyValidation.IsValidLabelName(name): // variables have names of the same form
			err = errors.New("want ${NAME} with the name of an environment variable; write $${ for a literal ${")
		case value == "" && variableLike.MatchString(name):
			err = fmt.Errorf("environment variable %s is %w", name, errUnset)
		case value == "": // the name may be the secret itself
			err = fmt.Errorf("an environment variable that is %w", errUnset)
		}
		return value
	})
	return expanded, err
}

// Bounds of files, in bytes.
const (
	maxFileBytes    = 16 << 20 // the configuration
	maxSecretBytes  = 1 << 20  // a secret or certificates
	maxRecordsBytes = 64 << 20 // prompts or arrivals: traces have lines of several kB
)

// isFileKey reports whether a key names one or several files.
func isFileKey(key string) bool { return key == "files" || strings.HasSuffix(key, "_file") }

// files makes the file names of one key absolute and checks that each file can
// be read, so that a missing secret shows at start and not in the first probe.
func (d *decoder) files(key string, p path, v reflect.Value) {
	limit := maxSecretBytes
	if key == "prompts_file" || key == "profile_file" || key == "trace_file" {
		limit = maxRecordsBytes
	}
	if v.Kind() == reflect.String {
		v.SetString(d.file(p, v.String(), limit))
		return
	}
	for i := range v.Len() {
		v.Index(i).SetString(d.file(p.index(i), v.Index(i).String(), limit))
	}
}

func (d *decoder) file(p path, name string, limit int) string {
	if name == "" {
		return ""
	}
	name = promconfig.JoinDir(d.dir, name)
	if err := foreign.CheckFile(name, int64(limit)); err != nil {
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err
		}
		if d.secret { // the name may be the secret itself
			d.missingSecretf(p, "cannot read the file (a relative name counts from %s): %v", d.dir, err)
		} else {
			d.errorf(p, "cannot read %s: %v", name, err)
		}
	}
	return name
}

// Files returns the names of the files of secrets and certificates that a client with these settings reads.
func (h *HTTPClient) Files() []string {
	var names []string
	h.eachFile("", func(_ path, name string) { names = append(names, name) })
	return names
}

// eachFile calls f for each file that the settings name, with its path under p.
func (h *HTTPClient) eachFile(p path, f func(p path, name string)) {
	leaves(reflect.ValueOf(h.HTTPClientConfig), p, nil, func(v reflect.Value, p path, keys []string) {
		if _, key := lastTwo(keys); isFileKey(key) && v.String() != "" {
			f(p, v.String())
		}
	})
}

// UseFiles returns why the certificates and keys in the files cannot be used.
func (h *HTTPClient) UseFiles() error {
	_, err := promconfig.NewTLSConfig(&h.TLSConfig)
	if err == nil && h.OAuth2 != nil {
		_, err = promconfig.NewTLSConfig(&h.OAuth2.TLSConfig)
	}
	return err
}

// MissingSecrets is what a missing secret means; "" is what Global.MissingSecrets says.
type MissingSecrets string

const (
	// SkipEndpoint is for who uses one endpoint alone: a missing secret is no mistake but the MissingSecret of its endpoint.
	SkipEndpoint MissingSecrets = "skip_endpoint"
	// IgnoreSecrets is for who makes no requests: no missing secret is a mistake, and what depends on one is not checked.
	IgnoreSecrets MissingSecrets = "ignore"
)

// skipWithoutSecrets takes back the mistakes that are a missing secret, where the file or the
// caller allows it, and marks the endpoint that it is of.
func (c *Config) skipWithoutSecrets(r *report) {
	meaning := cmp.Or(r.missingSecrets, c.Global.MissingSecrets)
	r.errs = slices.DeleteFunc(r.errs, func(e *Error) bool {
		return r.missing[e] && (meaning == IgnoreSecrets || meaning == SkipEndpoint && c.skipOwner(e))
	})
}

// skipOwner marks the endpoint whose secret is missing; false if endpoints share it.
func (c *Config) skipOwner(e *Error) bool {
	for i, own := range c.Endpoints {
		if path(e.Path).isUnder(path("endpoints").index(i)) {
			_, key, _ := strings.Cut(e.Path, "].")
			if own.MissingSecret != "" {
				own.MissingSecret += missingSeparator
			}
			own.MissingSecret += key + ": " + e.Msg
			return true
		}
	}
	return false
}

// missingSeparator is between the secrets of an endpoint that are missing.
const missingSeparator = "; and "

// Supply marks the secrets under one of keys, such as http.authorization, as no longer missing: the caller
// has set others. The case of letters does not matter, as in the names of headers.
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
