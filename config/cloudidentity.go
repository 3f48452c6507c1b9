package config

import "fmt"

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
	// machine). Required.
	Provider string `yaml:"provider"`
	// Scope is what the token is for. Default: `https://www.googleapis.com/auth/cloud-platform`
	// with google, `https://cognitiveservices.azure.com/.default` with azure.
	Scope string `yaml:"scope"`
	// ClientID is the identity to use where a machine or pod has several, with azure.
	// Default: that of AZURE_CLIENT_ID in a pod; the machine's own.
	ClientID string `yaml:"client_id,omitempty"`
	// CredentialsFile is used instead of GOOGLE_APPLICATION_CREDENTIALS, with google: the key
	// of a service account, or a configuration of workload identity federation.
	CredentialsFile string `yaml:"credentials_file,omitempty"`
}

// Format writes the settings as printYAML does.
func (i CloudIdentity) Format(f fmt.State, _ rune) { printYAML(f, i) }

func (i *CloudIdentity) setDefaults(r *report, p path) {
	switch i.Provider {
	case CloudGoogle:
		orDefault(r, p.key("scope"), &i.Scope, "https://www.googleapis.com/auth/cloud-platform")
	case CloudAzure:
		orDefault(r, p.key("scope"), &i.Scope, "https://cognitiveservices.azure.com/.default")
	}
}

func (e *Endpoint) validateCloudIdentity(r *report, p path) {
	i := e.CloudIdentity
	if i == nil || r.failed[p] {
		return
	}
	if h := e.HTTP; h.Authorization != nil || h.BasicAuth != nil || h.OAuth2 != nil || e.SigV4 != nil {
		r.errorf(p, "excludes sigv4, and authorization, basic_auth and oauth2 under http")
	}
	validateOneOf(r, p.key("provider"), i.Provider, CloudGoogle, CloudAzure)
	if r.written(p.key("scope")) {
		validateText(r, p.key("scope"), "scope", i.Scope, maxKeyBytes)
	}
	if at := p.key("client_id"); r.written(at) {
		validateText(r, at, "client id", i.ClientID, maxKeyBytes)
		if i.Provider == CloudGoogle {
			r.errorf(at, "is for azure")
		}
	}
	if at := p.key("credentials_file"); r.written(at) && i.Provider == CloudAzure {
		r.errorf(at, "is for google")
	}
	needClouds(r, p)
}

// needClouds reports a setting that this build cannot follow.
func needClouds(r *report, p path) {
	if !hasClouds {
		r.errorf(p, "this build gets no credentials from clouds; the container image and the releases do; build with -tags clouds")
	}
}
