package cloudauth

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"
)

// Token says which token to get.
type Token struct {
	// Azure asks Azure, otherwise Google Cloud.
	Azure bool
	// Scope is what the token is for.
	Scope string
	// ClientID is the identity of Azure to use; "" is that of the environment or the machine.
	ClientID string
	// CredentialsFile is read instead of the one that GOOGLE_APPLICATION_CREDENTIALS names;
	// "" is none.
	CredentialsFile string
}

// renewBefore is how long before its end a token is not used any more.
const renewBefore = time.Minute

// Bearer returns a RoundTripper that sets the header Authorization to a token. Its own
// errors are those of the context and *Error.
func (p *Pool) Bearer(next http.RoundTripper, t Token) http.RoundTripper {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.tokens[t]
	if s == nil {
		s = newTokenSource(t)
		if p.tokens == nil {
			p.tokens = map[Token]*tokenSource{}
		}
		p.tokens[t] = s
	}
	return &bearer{next, s}
}

type bearer struct {
	next   http.RoundTripper
	source *tokenSource
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := b.source.token(req.Context())
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as the interface wants it; nothing was sent
		}
		return nil, err
	}
	own := req.Clone(req.Context())
	own.Header.Set("Authorization", "Bearer "+token)
	return b.next.RoundTrip(own)
}

// CloseIdleConnections closes those of the next RoundTripper.
func (b *bearer) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// tokenSource keeps a token until it ends.
type tokenSource struct {
	fetch source[oauth2.Token]
	now   func() time.Time

	mu     sync.Mutex
	latest oauth2.Token
}

func newTokenSource(t Token) *tokenSource {
	get := googleToken(t)
	if t.Azure {
		get = azureToken(t)
	}
	return &tokenSource{fetch: source[oauth2.Token]{get: get}, now: time.Now}
}

func (s *tokenSource) token(ctx context.Context) (string, error) {
	s.mu.Lock()
	latest := s.latest
	s.mu.Unlock()
	if latest.AccessToken != "" && (latest.Expiry.IsZero() || s.now().Add(renewBefore).Before(latest.Expiry)) {
		return latest.AccessToken, nil
	}
	fresh, err := s.fetch.wait(ctx)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	s.latest = fresh
	s.mu.Unlock()
	return fresh.AccessToken, nil
}
