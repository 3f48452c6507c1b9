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
// where the file or the caller allows it, and marks the endpoint instead.
func (c *Config) skipWithoutSecrets(r *report) {
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
		if own.MissingSecret == "" {
			_, key, _ := strings.Cut(e.Path, "].")
			own.MissingSecret = key + ": " + e.Msg
		}
		return true
	}
	return false
}
