package config

import (
	"fmt"
	"os"

	promconfig "github.com/prometheus/common/config"
)

// The environment variables of the keys, as AWS names them.
const (
	envAccessKeyID     = "AWS_ACCESS_KEY_ID"
	envSecretAccessKey = "AWS_SECRET_ACCESS_KEY"
	envSessionToken    = "AWS_SESSION_TOKEN"
)

// SigV4 signs requests with AWS Signature Version 4. It excludes the
// credentials under `http`. In a value of type secret, `${NAME}` stands for an
// environment variable, as it does there.
//
// Without both keys, they and the session token are those of the environment
// variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, as
// they are when the configuration is loaded.
type SigV4 struct {
	// Region is the AWS region, such as `us-east-1`. Required.
	Region string `yaml:"region"`
	// Service is the AWS service that the signature names.
	Service string `yaml:"service"`
	// AccessKeyID names the key pair. Default: from the environment.
	AccessKeyID string `yaml:"access_key_id"`
	// SecretAccessKey is the key that signs. Default: from the environment.
	SecretAccessKey promconfig.Secret `yaml:"secret_access_key"`
	// SessionToken goes with temporary keys. Default: from the environment, if
	// the keys are.
	SessionToken promconfig.Secret `yaml:"session_token,omitempty"`
}

// Format writes the settings as printYAML does.
func (s SigV4) Format(f fmt.State, _ rune) { printYAML(f, s) }

func (s *SigV4) setDefaults(r *report, p path) {
	orDefault(r, p.key("service"), &s.Service, defaultSigV4().Service)
	if r.written(p.key("access_key_id")) || r.written(p.key("secret_access_key")) {
		return
	}
	s.AccessKeyID = os.Getenv(envAccessKeyID)
	s.SecretAccessKey = promconfig.Secret(os.Getenv(envSecretAccessKey))
	orDefault(r, p.key("session_token"), &s.SessionToken, promconfig.Secret(os.Getenv(envSessionToken)))
}

func (e *Endpoint) validateSigV4(r *report, p path) {
	if e.SigV4 == nil || r.failed[p] {
		return
	}
	if h := e.HTTP; h.Authorization != nil || h.BasicAuth != nil || h.OAuth2 != nil {
		r.errorf(p, "excludes authorization, basic_auth and oauth2 under http")
	}
	e.SigV4.validate(r, p)
}

func (s *SigV4) validate(r *report, p path) {
	// What is not plain would break the signature's scope, date/region/service.
	if !isPlain(s.Region) {
		r.errorf(p.key("region"), "want a region like us-east-1")
	}
	if !isPlain(s.Service) {
		r.errorf(p.key("service"), "want a service like bedrock")
	}
	id, secret := p.key("access_key_id"), p.key("secret_access_key")
	switch {
	case r.failed[id] || r.failed[secret]:
	case r.written(id) && !isPlain(s.AccessKeyID):
		r.errorf(id, "want letters and digits; leave both keys out for those of the environment")
	case r.written(id) && s.SecretAccessKey == "":
		r.errorf(secret, "missing beside access_key_id; leave both keys out for those of the environment")
	case s.AccessKeyID == "" && r.written(secret):
		r.errorf(id, "missing beside secret_access_key; leave both keys out for those of the environment")
	case !isPlain(s.AccessKeyID) || s.SecretAccessKey == "":
		r.errorf(p, "no keys: want access_key_id and secret_access_key, or %s and %s in the environment", envAccessKeyID, envSecretAccessKey)
	}
	if !isHeaderValue(string(s.SessionToken)) {
		r.errorf(p.key("session_token"), "a line break or another control character")
	}
}
