package config

import (
	"slices"
	"strings"
)

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
