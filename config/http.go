package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	promconfig "github.com/prometheus/common/config"
	"golang.org/x/net/http/httpguts"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// HTTPClient says how to connect to an endpoint and how to authenticate, with
// the keys of Prometheus' own HTTP client and these differences:
//
//   - HTTP/2 is off unless `enable_http2` is true: a probe has a connection
//     of its own.
//   - Redirects are never followed: `follow_redirects` may only be false.
//   - `bearer_token` and `bearer_token_file` are refused, as
//     `authorization` says the same; so are the keys that end in `_ref`,
//     which need a secret manager.
//   - Every file that is named must be a regular one that can be read when the
//     configuration is loaded. A relative name counts from the configuration's
//     directory.
//   - In a value of type secret, `${NAME}` is replaced by the environment variable
//     NAME, which must be set. A literal `${` is written `$${`.
//   - A mistake is reported with its line and without the value or key there, as a
//     misplaced value may be a secret: neither values nor unknown keys nor names
//     of files.
type HTTPClient struct {
	// Not to be printed on its own, which would show the secrets.
	promconfig.HTTPClientConfig
}

// hasCredentials reports whether requests carry credentials; those of a proxy go to the proxy alone.
func (h *HTTPClient) hasCredentials() bool {
	if h.HTTPHeaders != nil {
		for name, header := range h.HTTPHeaders.Headers {
			if len(header.Secrets)+len(header.Files) > 0 || carriesCredentials(name) {
				return true
			}
		}
	}
	tls := h.TLSConfig
	return h.Authorization != nil || h.BasicAuth != nil || h.OAuth2 != nil || tls.Cert != "" || tls.CertFile != ""
}

// MarshalYAML renders the settings with secrets hidden.
func (h HTTPClient) MarshalYAML() (any, error) { return printable(h.HTTPClientConfig), nil }

// printable returns the settings with the secrets hidden that their types do not hide: values of headers
// that carry credentials, and what a request for a token is sent along.
func printable(c promconfig.HTTPClientConfig) promconfig.HTTPClientConfig {
	c.ProxyURL = printableProxy(c.ProxyURL)
	if c.OAuth2 != nil {
		o := *c.OAuth2
		o.ProxyURL = printableProxy(o.ProxyURL)
		o.TokenURL = hideQuery(o.TokenURL)
		o.EndpointParams = maps.Clone(o.EndpointParams)
		for name := range o.EndpointParams {
			o.EndpointParams[name] = safetext.Placeholder
		}
		c.OAuth2 = &o
	}
	if c.HTTPHeaders != nil {
		all := maps.Clone(c.HTTPHeaders.Headers)
		for name, h := range all {
			if carriesCredentials(name) && len(h.Values) > 0 {
				h.Values = slices.Repeat([]string{safetext.Placeholder}, len(h.Values))
				all[name] = h
			}
		}
		c.HTTPHeaders = &promconfig.Headers{Headers: all}
	}
	return c
}

// printableProxy returns the URL of a proxy without its user; a password hides itself.
func printableProxy(u promconfig.URL) promconfig.URL {
	if u.URL == nil || u.User == nil {
		return u
	}
	if _, ok := u.User.Password(); ok {
		return u
	}
	own := *u.URL
	own.User = url.User("xxxxx")
	return promconfig.URL{URL: &own}
}

// MarshalJSON writes the settings as a text: the JSON of the embedded type would show the password of a proxy.
func (h HTTPClient) MarshalJSON() ([]byte, error) { return json.Marshal(fmt.Sprint(h)) }

// Format writes the settings as printYAML does.
func (h HTTPClient) Format(f fmt.State, _ rune) { printYAML(f, h) }

// WithoutCredentials returns how to connect without showing who asks.
func (h HTTPClient) WithoutCredentials() HTTPClient {
	tls := h.TLSConfig
	return HTTPClient{promconfig.HTTPClientConfig{
		TLSConfig: promconfig.TLSConfig{
			CA: tls.CA, CAFile: tls.CAFile, ServerName: tls.ServerName, InsecureSkipVerify: tls.InsecureSkipVerify,
			MinVersion: tls.MinVersion, MaxVersion: tls.MaxVersion,
		},
		EnableHTTP2: h.EnableHTTP2,
		ProxyConfig: h.ProxyConfig,
	}}
}

// isRefused reports whether a key of the embedded type is not ours.
func isRefused(key string) bool {
	return key == "bearer_token" || key == "bearer_token_file" || strings.HasSuffix(key, "_ref")
}

func (d *decoder) http(n *yaml.Node, p path, out *HTTPClient) {
	before := len(d.errs)
	d.inSecret(func() { d.structure(n, p, reflect.ValueOf(&out.HTTPClientConfig).Elem()) })
	if len(d.errs) == before {
		if out.FollowRedirects {
			d.errorf(p.key("follow_redirects"), "redirects are never followed; leave the key out")
		}
		d.validateClient(p, &out.HTTPClientConfig)
	}
}

// validateClient checks what belongs together, once each value is right.
func (d *decoder) validateClient(p path, c *promconfig.HTTPClientConfig) {
	d.mistake(p, c.Validate())
	d.validateTLS(p.key("tls_config"), &c.TLSConfig)
	if c.Authorization != nil {
		d.checkHeader(p.key("authorization").key("credentials"), string(c.Authorization.Credentials))
	}
	if o, at := c.OAuth2, p.key("oauth2"); o != nil {
		d.mistake(at, o.Validate())
		d.validateProxy(at.key("proxy_url"), o.ProxyURL)
		d.validateOpenURL(at.key("token_url"), o.TokenURL, "client_id and client_secret")
		d.validateTLS(at.key("tls_config"), &o.TLSConfig)
	}
	d.validateHeaders(p.key("http_headers"), c.HTTPHeaders)
}

func (d *decoder) validateTLS(p path, c *promconfig.TLSConfig) {
	if _, err := promconfig.NewTLSConfig(c); err != nil {
		d.errorf(p, "%s", safetext.Line(err.Error(), maxQuoted))
	}
}

func (d *decoder) validateHeaders(p path, headers *promconfig.Headers) {
	if headers == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(headers.Headers)) {
		at, h := p.key(name), headers.Headers[name]
		if !httpguts.ValidHeaderFieldName(name) {
			d.errorf(at, "not a valid name of a header")
		}
		if len(h.Values)+len(h.Secrets)+len(h.Files) == 0 {
			d.errorf(at, "want values, secrets or files")
		}
		for i, v := range h.Values {
			d.checkHeader(at.key("values").index(i), v)
		}
		for i, v := range h.Secrets {
			d.checkHeader(at.key("secrets").index(i), string(v))
		}
	}
}

func (d *decoder) secretText(n *yaml.Node, p path, out *promconfig.Secret) {
	s, ok := d.text(n, p)
	if !ok {
		return
	}
	switch s, err := expandEnv(s); {
	case errors.Is(err, errUnset):
		d.missingSecretf(p, "%v", err)
	case err != nil:
		d.errorf(p, "%v", err)
	default:
		*out = promconfig.Secret(s)
	}
}

func (d *decoder) proxyURL(n *yaml.Node, p path, out *promconfig.URL) {
	s, ok := d.text(n, p)
	if !ok {
		return
	}
	u, err := url.Parse(s)
	if err != nil {
		u = new(url.URL) // which is no proxy's either
	}
	d.validateProxy(p, promconfig.URL{URL: u})
	out.URL = u
}

func (d *decoder) validateProxy(p path, u promconfig.URL) {
	switch schemes := []string{"http", "https", "socks5", "socks5h"}; {
	case u.URL == nil:
	case !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		d.errorf(p, "want a proxy's URL like http://host:3128")
	case !isPort(u.URL):
		d.errorf(p, "a port that is not 1 to 65535")
	}
}

func (d *decoder) tlsVersion(n *yaml.Node, p path, out *promconfig.TLSVersion) {
	var ok bool
	if *out, ok = promconfig.TLSVersions[n.Value]; !ok {
		d.errorf(p, "want TLS10, TLS11, TLS12 or TLS13")
	}
}

// SigV4 signs requests with AWS Signature Version 4. It excludes the credentials under `http`. In a value of type
// secret, `${NAME}` is replaced by an environment variable, as under `http`.
//
// Without both keys, they and the session token are those of the environment variables AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, as they are when the configuration is loaded. With `default_credentials`
// they are found when they are needed, and renewed before they expire.
type SigV4 struct {
	// Region is the AWS region, such as `us-east-1`.
	Region string `yaml:"region" form:"region" required:"a region like us-east-1"`
	// Service is the AWS service that the signature names.
	Service string `yaml:"service" default:"bedrock" form:"service"`
	// AccessKeyID names the key pair. Default: from the environment.
	AccessKeyID string `yaml:"access_key_id" requires:"secret_access_key"`
	// SecretAccessKey is the key that signs. Default: from the environment.
	SecretAccessKey promconfig.Secret `yaml:"secret_access_key" requires:"access_key_id"`
	// SessionToken goes with temporary keys. Default: from the environment, if the keys are.
	SessionToken promconfig.Secret `yaml:"session_token,omitempty"`
	// DefaultCredentials takes the credentials from where the AWS SDK finds them: the environment, the shared files,
	// the web identity or the agent of a pod, the container, the instance. Not in every build: see `discovery[]`.
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
	s.AccessKeyID = os.Getenv("AWS_ACCESS_KEY_ID")
	s.SecretAccessKey = promconfig.Secret(os.Getenv("AWS_SECRET_ACCESS_KEY"))
	orDefault(r, p.key("session_token"), &s.SessionToken, promconfig.Secret(os.Getenv("AWS_SESSION_TOKEN")))
}

// roleARN is how AWS names a role (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html).
var roleARN = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]{1,512}$`)

func (s *SigV4) check(r *report, p path) {
	id, secret := p.key("access_key_id"), p.key("secret_access_key")
	switch {
	case r.failed[id] || r.failed[secret] || r.failed[p.key("session_token")] || s.DefaultCredentials:
	case r.written(id) && !isPlain(s.AccessKeyID):
		r.errorf(id, "want letters and digits; leave both keys out for those of the environment")
	case r.written(id) || r.written(secret):
	case !isPlain(s.AccessKeyID) || s.SecretAccessKey == "":
		r.missingSecretf(p, "no keys: want access_key_id and secret_access_key, "+
			"or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or default_credentials")
	}
	r.checkHeader(p.key("session_token"), string(s.SessionToken))
	needClouds(r, p.key("default_credentials"), s.DefaultCredentials)
	needClouds(r, p.key("role_arn"), s.RoleARN != "")
}

// The clouds that give tokens to what runs in them; AWS has signatures instead (SigV4).
const (
	CloudGoogle = "google"
	CloudAzure  = "azure"
)

// CloudIdentity gives each request a token of the cloud that the exporter runs in, in the header Authorization. Tokens
// are fetched when they are needed, shared by endpoints with the same settings, and renewed before they expire; that
// time is not part of any latency. It excludes the credentials under `http`, and `sigv4`. It is in the container image
// and in the releases; a build of your own has it with `-tags clouds`.
type CloudIdentity struct {
	// Provider is `google` (application default credentials: the file that GOOGLE_APPLICATION_CREDENTIALS names, with
	// workload identity federation too, or the metadata server) or `azure` (the workload identity of a pod by
	// AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_FEDERATED_TOKEN_FILE, or the managed identity of the machine).
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

func (i *CloudIdentity) complete(r *report, p path) {
	orDefault(r, p.key("scope"), &i.Scope, map[string]string{
		CloudGoogle: "https://www.googleapis.com/auth/cloud-platform", CloudAzure: "https://cognitiveservices.azure.com/.default",
	}[i.Provider])
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
	needClouds(r, p.key("cloud_identity"), e.CloudIdentity != nil)
}

// needClouds reports a setting that is used and that this build cannot follow.
func needClouds(r *report, p path, used bool) {
	if used && !hasClouds {
		r.errorf(p, "this build gets no credentials from clouds; the container image and the releases do; build with -tags clouds")
	}
}
