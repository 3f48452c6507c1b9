package config

import (
	"net/url"
	"reflect"
	"slices"
	"strings"

	promconfig "github.com/prometheus/common/config"

	"github.com/inference-exporter/inference_exporter/internal/files"
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
	if text, err := files.Read(name, maxSecretBytes); err == nil {
		c.add(string(text))
	}
}
