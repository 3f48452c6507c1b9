package config

import (
	"fmt"
	"os"
	"regexp"

	promconfig "github.com/prometheus/common/config"
	"golang.org/x/net/http/httpguts"
)

// The environment variables of the keys, as AWS names them.
const (
	envAccessKeyID     = "AWS_ACCESS_KEY_ID"
	envSecretAccessKey = "AWS_SECRET_ACCESS_KEY"
	envSessionToken    = "AWS_SESSION_TOKEN"
)

// SigV4 signs requests with AWS Signature Version 4. It excludes the
// credentials under `http`. In a value of type secret, `${NAME}` is replaced by an
// environment variable, as under `http`.
//
// Without both keys, they and the session token are those of the environment
// variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, as
// they are when the configuration is loaded. With `default_credentials` they are
// found when they are needed, and renewed before they expire.
type SigV4 struct {
	// Region is the AWS region, such as `us-east-1`.
	Region string `yaml:"region" form:"region" required:"a region like us-east-1"`
	// Service is the AWS service that the signature names.
	Service string `yaml:"service" default:"bedrock" form:"service"`
	// AccessKeyID names the key pair. Default: from the environment.
	AccessKeyID string `yaml:"access_key_id"`
	// SecretAccessKey is the key that signs. Default: from the environment.
	SecretAccessKey promconfig.Secret `yaml:"secret_access_key"`
	// SessionToken goes with temporary keys. Default: from the environment, if
	// the keys are.
	SessionToken promconfig.Secret `yaml:"session_token,omitempty"`
	// DefaultCredentials takes the credentials from where the AWS SDK finds them: the
	// environment, the shared files, the web identity or the agent of a pod, the
	// container, the instance. Not in every build: see `discovery[]`.
	DefaultCredentials bool `yaml:"default_credentials,omitempty" excludes:"access_key_id,secret_access_key,session_token"`
	// RoleARN is a role to take on with these credentials or keys, such as
	// `arn:aws:iam::123456789012:role/prober`. Default: none. Not in every build.
	RoleARN string `yaml:"role_arn,omitempty" form:"role"`
}

// Format writes the settings as printYAML does.
func (s SigV4) Format(f fmt.State, _ rune) { printYAML(f, s) }

func (s *SigV4) complete(r *report, p path) {
	if s.DefaultCredentials || r.written(p.key("access_key_id")) || r.written(p.key("secret_access_key")) {
		return
	}
	s.AccessKeyID = os.Getenv(envAccessKeyID)
	s.SecretAccessKey = promconfig.Secret(os.Getenv(envSecretAccessKey))
	orDefault(r, p.key("session_token"), &s.SessionToken, promconfig.Secret(os.Getenv(envSessionToken)))
}

// roleARN is how AWS names a role (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html).
var roleARN = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]{1,512}$`)

func (s *SigV4) check(r *report, p path) {
	id, secret := p.key("access_key_id"), p.key("secret_access_key")
	switch {
	case r.failed[id] || r.failed[secret] || r.failed[p.key("session_token")] || s.DefaultCredentials:
	case r.written(id) && !isPlain(s.AccessKeyID):
		r.errorf(id, "want letters and digits; leave both keys out for those of the environment")
	case r.written(id) && s.SecretAccessKey == "":
		r.errorf(secret, "missing; access_key_id requires it; leave both keys out for those of the environment")
	case s.AccessKeyID == "" && r.written(secret):
		r.errorf(id, "missing; secret_access_key requires it; leave both keys out for those of the environment")
	case !isPlain(s.AccessKeyID) || s.SecretAccessKey == "":
		r.missingSecretf(p, "no keys: want access_key_id and secret_access_key, or %s and %s in the environment, or default_credentials", envAccessKeyID, envSecretAccessKey)
	}
	if !httpguts.ValidHeaderFieldValue(string(s.SessionToken)) {
		r.errorf(p.key("session_token"), "a line break or another control character")
	}
	if s.DefaultCredentials {
		needClouds(r, p.key("default_credentials"))
	}
	if s.RoleARN != "" {
		needClouds(r, p.key("role_arn"))
	}
}

// The clouds that give tokens to what runs in them. AWS is not among them: it has
// signatures (SigV4).
const (
	CloudGoogle = "google"
	CloudAzure  = "azure"
)

// CloudIdentity gives each request a token of the cloud that the exporter runs in, in the
// header Authorization. Tokens are fetched when they are needed, shared by endpoints with
// the same settings, and renewed before they expire; that time is not part of any
// latency. It excludes the credentials under `http`, and `sigv4`. It is in the container
// image and in the releases; a build of your own has it with `-tags clouds`.
type CloudIdentity struct {
	// Provider is `google` (application default credentials: the file that
	// GOOGLE_APPLICATION_CREDENTIALS names, with workload identity federation too, or the
	// metadata server) or `azure` (the workload identity of a pod by AZURE_CLIENT_ID,
	// AZURE_TENANT_ID and AZURE_FEDERATED_TOKEN_FILE, or the managed identity of the
	// machine).
	Provider string `yaml:"provider" oneof:"google,azure" required:"google or azure"`
	// Scope is what the token is for. Default: `https://www.googleapis.com/auth/cloud-platform`
	// with google, `https://cognitiveservices.azure.com/.default` with azure.
	Scope string `yaml:"scope" text:"256"`
	// ClientID is the identity to use where a machine or pod has several, with azure.
	// Default: that of AZURE_CLIENT_ID in a pod; the machine's own.
	ClientID string `yaml:"client_id,omitempty" text:"256" requires:"provider: azure"`
	// CredentialsFile is used instead of GOOGLE_APPLICATION_CREDENTIALS, with google: the key
	// of a service account, or a configuration of workload identity federation.
	CredentialsFile string `yaml:"credentials_file,omitempty" requires:"provider: google"`
}

// Format writes the settings as printYAML does.
func (i CloudIdentity) Format(f fmt.State, _ rune) { printYAML(f, i) }

func (i *CloudIdentity) complete(r *report, p path) {
	switch i.Provider {
	case CloudGoogle:
		orDefault(r, p.key("scope"), &i.Scope, "https://www.googleapis.com/auth/cloud-platform")
	case CloudAzure:
		orDefault(r, p.key("scope"), &i.Scope, "https://cognitiveservices.azure.com/.default")
	}
}

// checkCredentials allows one kind of credentials.
func (e *Endpoint) checkCredentials(r *report, p path) {
	byHTTP := e.HTTP.Authorization != nil || e.HTTP.BasicAuth != nil || e.HTTP.OAuth2 != nil
	switch {
	case e.CloudIdentity != nil && (e.SigV4 != nil || byHTTP):
		r.errorf(p.key("cloud_identity"), "mutually exclusive with sigv4, and with authorization, basic_auth and oauth2 under http")
	case e.SigV4 != nil && byHTTP:
		r.errorf(p.key("sigv4"), "mutually exclusive with authorization, basic_auth and oauth2 under http")
	}
	if e.CloudIdentity != nil {
		needClouds(r, p.key("cloud_identity"))
	}
}

// needClouds reports a setting that this build cannot follow.
func needClouds(r *report, p path) {
	if !hasClouds {
		r.errorf(p, "this build gets no credentials from clouds; the container image and the releases do; build with -tags clouds")
	}
}
