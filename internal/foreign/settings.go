package foreign

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	promconfig "github.com/prometheus/common/config"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// RoundTripper returns a RoundTripper with the settings h, over connections that dial opens. Every request ends with
// its context, the reading of its reply included: a server cannot switch to another protocol, and neither a token
// server that hangs nor net/http's HTTP/2 blocks the caller. Errors are those of the settings.
func RoundTripper(h *promconfig.HTTPClientConfig, name string, dial promconfig.DialContextFunc, opts ...promconfig.HTTPClientOption) (http.RoundTripper, error) {
	anonymous := *h
	anonymous.Authorization, anonymous.BasicAuth, anonymous.OAuth2, anonymous.HTTPHeaders = nil, nil, nil, nil
	rt, err := promconfig.NewRoundTripperFromConfig(anonymous, name, append(opts, promconfig.WithDialContextFunc(dial))...)
	if err != nil {
		return nil, err
	}
	if t, ok := rt.(*http.Transport); ok {
		t.DialContext = dial // without the log of events that Prometheus keeps of each connection
	}
	if rt, err = authenticated(h, rt); err != nil {
		return nil, err
	}
	if h.OAuth2 != nil || h.EnableHTTP2 {
		rt = &waiter{before: before{rt}}
	}
	return noUpgrade{before{rt}}, nil
}

// RoundTripper returns such a RoundTripper with a connection for each request, which ends
// with the limits, as it does where the head of a reply is too long: ErrHeadTooLong.
func (l Limits) RoundTripper(h *promconfig.HTTPClientConfig, name string) (http.RoundTripper, error) {
	rt, err := RoundTripper(h, name, l.Dial, promconfig.WithHTTP2Disabled(), promconfig.WithKeepAlivesDisabled())
	return headBound{before{rt}}, err
}

// Client returns a client with the settings h within the limits. It follows redirects where they say so.
func (l Limits) Client(h *promconfig.HTTPClientConfig, name string) (*http.Client, error) {
	rt, err := l.RoundTripper(h, name)
	c := &http.Client{Transport: rt, Timeout: l.Time}
	if !h.FollowRedirects {
		c.CheckRedirect = noRedirect
	}
	return c, err
}

type headKey struct{}

// headBound bounds the heads of replies on connections of Limits.Dial.
type headBound struct{ before }

func (t headBound) RoundTrip(req *http.Request) (*http.Response, error) {
	head := new(HeadLimit)
	ctx := httptrace.WithClientTrace(context.WithValue(req.Context(), headKey{}, head), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { head.Begin() },
	})
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	head.End()
	return resp, err
}

// authenticated returns rt with the credentials and headers of the settings.
func authenticated(h *promconfig.HTTPClientConfig, rt http.RoundTripper) (http.RoundTripper, error) {
	if a := h.Authorization; a != nil {
		rt = promconfig.NewAuthorizationCredentialsRoundTripper(a.Type, secretReader(a.Credentials, a.CredentialsFile), rt)
	}
	if b := h.BasicAuth; b != nil {
		rt = promconfig.NewBasicAuthRoundTripper(secretReader(promconfig.Secret(b.Username), b.UsernameFile), secretReader(b.Password, b.PasswordFile), rt)
	}
	if h.OAuth2 != nil {
		var err error
		if rt, err = newTokens(h.OAuth2, rt); err != nil {
			return nil, err
		}
	}
	if h.HTTPHeaders != nil {
		rt = promconfig.NewHeadersRoundTripper(h.HTTPHeaders, rt)
	}
	return rt, nil
}

// secretReader returns what reads a secret; nil where there is none.
func secretReader(text promconfig.Secret, file string) promconfig.SecretReader {
	switch {
	case text != "":
		return promconfig.NewInlineSecret(string(text))
	case file != "":
		return promconfig.NewFileSecret(file)
	}
	return nil
}

// noUpgrade drops the connection of a reply that switches protocols: net/http
// hands it out as a body that heeds neither the context nor a limit.
type noUpgrade struct{ before }

func (t noUpgrade) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		resp.Body = http.NoBody
	}
	return resp, err
}

type before struct{ next http.RoundTripper }

func (b before) CloseIdleConnections() { CloseIdle(b.next) }

// CloseIdle closes the connections that no request uses.
func CloseIdle(rt http.RoundTripper) {
	if c, ok := rt.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// tokenLimits bound a question to an OAuth2 token server, apart from the request that waits for it.
var tokenLimits = Limits{Time: 30 * time.Second, Bytes: 1 << 20}

// tokens is a RoundTripper that adds OAuth2 tokens, as Prometheus' own client does, but
// within tokenLimits and without redirects, which would carry the client's secret along.
type tokens struct {
	settings *promconfig.OAuth2
	secret   promconfig.SecretReader
	client   *http.Client // asks the token server
	before

	mu     sync.Mutex
	with   string             // the secret that source asks with
	source oauth2.TokenSource // nil before the first request
}

func newTokens(o *promconfig.OAuth2, next http.RoundTripper) (*tokens, error) {
	t := &tokens{settings: o, before: before{next}, secret: secretReader(o.ClientSecret, o.ClientSecretFile)}
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

func (t *tokens) RoundTrip(req *http.Request) (*http.Response, error) {
	secret, err := t.secret.Fetch(req.Context())
	if err != nil {
		return nil, fmt.Errorf("read oauth2 client secret: %w", err)
	}
	return (&oauth2.Transport{Source: t.current(secret, req.UserAgent()), Base: t.next}).RoundTrip(req)
}

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
		Iss: cmp.Or(o.Iss, o.ClientID), Subject: o.ClientID, Audience: o.Audience, PrivateClaims: o.Claims,
		Scopes: o.Scopes, TokenURL: o.TokenURL, EndpointParams: params,
	}
	if known, ok := jwt.GetSigningMethod(o.SignatureAlgorithm).(*jwt.SigningMethodRSA); ok {
		c.SigningAlgorithm = known
	}
	return c.TokenSource(ctx)
}
