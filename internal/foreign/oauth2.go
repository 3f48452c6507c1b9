package foreign

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	promconfig "github.com/prometheus/common/config"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// tokenLimits bound a question to an OAuth2 token server, apart from the request that
// waits for the token.
var tokenLimits = Limits{Time: 30 * time.Second, Bytes: 1 << 20}

// tokens is a RoundTripper that adds OAuth2 tokens, as Prometheus' own client does, but
// within tokenLimits and without redirects, which would carry the client's secret along.
type tokens struct {
	settings *promconfig.OAuth2
	secret   promconfig.SecretReader
	client   *http.Client // asks the token server
	next     http.RoundTripper

	mu     sync.Mutex
	with   string             // the secret that source asks with
	source oauth2.TokenSource // nil before the first request
}

// newTokens returns such a RoundTripper in front of next.
func newTokens(o *promconfig.OAuth2, next http.RoundTripper) (*tokens, error) {
	t := &tokens{settings: o, next: next, secret: secretReader(o.ClientSecret, o.ClientSecretFile)}
	if o.GrantType == jwtBearer {
		t.secret = secretReader(o.ClientCertificateKey, o.ClientCertificateKeyFile)
	}
	if t.secret == nil {
		t.secret = promconfig.NewInlineSecret("")
	}
	var err error
	t.client, err = tokenLimits.Client(&promconfig.HTTPClientConfig{TLSConfig: o.TLSConfig, ProxyConfig: o.ProxyConfig}, "token")
	return t, err
}

// jwtBearer is the grant type of RFC 7523; the others are those of client credentials.
const jwtBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// RoundTrip sends a request with a token, and asks for a new one where none is valid.
func (t *tokens) RoundTrip(req *http.Request) (*http.Response, error) {
	secret, err := t.secret.Fetch(req.Context())
	if err != nil {
		return nil, fmt.Errorf("read oauth2 client secret: %w", err)
	}
	return (&oauth2.Transport{Source: t.current(secret, req.UserAgent()), Base: t.next}).RoundTrip(req)
}

// CloseIdleConnections closes those of the next RoundTripper.
func (t *tokens) CloseIdleConnections() { CloseIdle(t.next) }

// current returns the source of tokens for a secret, which keeps the latest.
func (t *tokens) current(secret, userAgent string) oauth2.TokenSource {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.source == nil || t.with != secret {
		client := *t.client
		if userAgent != "" {
			client.Transport = promconfig.NewUserAgentRoundTripper(userAgent, client.Transport)
		}
		t.with, t.source = secret, t.newSource(context.WithValue(context.Background(), oauth2.HTTPClient, &client), secret)
	}
	return t.source
}

func (t *tokens) newSource(ctx context.Context, secret string) oauth2.TokenSource {
	o := t.settings
	params := url.Values{}
	for name, value := range o.EndpointParams {
		params.Set(name, value)
	}
	if o.GrantType != jwtBearer {
		c := clientcredentials.Config{ClientID: o.ClientID, ClientSecret: secret, Scopes: o.Scopes, TokenURL: o.TokenURL, EndpointParams: params}
		return c.TokenSource(ctx)
	}
	c := promconfig.JwtGrantTypeConfig{
		PrivateKey: []byte(secret), PrivateKeyID: o.ClientCertificateKeyID, SigningAlgorithm: jwt.SigningMethodRS256,
		Iss: o.Iss, Subject: o.ClientID, Audience: o.Audience, PrivateClaims: o.Claims,
		Scopes: o.Scopes, TokenURL: o.TokenURL, EndpointParams: params,
	}
	if c.Iss == "" {
		c.Iss = o.ClientID
	}
	for _, known := range []*jwt.SigningMethodRSA{jwt.SigningMethodRS384, jwt.SigningMethodRS512} {
		if o.SignatureAlgorithm == known.Name {
			c.SigningAlgorithm = known
		}
	}
	return c.TokenSource(ctx)
}
