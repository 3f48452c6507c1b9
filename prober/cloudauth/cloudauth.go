// Package cloudauth gets the short-lived credentials that clouds give to what runs in
// them: AWS credentials to sign with, and tokens of Google Cloud and Azure.
package cloudauth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
)

// timeout limits one attempt to get credentials.
const timeout = 30 * time.Second

// Pool has one source for all that use the same settings, so that a thousand endpoints
// ask the cloud once. It is safe for concurrent use; the zero value is ready.
type Pool struct {
	mu      sync.Mutex
	tokens  map[config.CloudIdentity]*tokenSource
	signers map[config.SigV4]*source[aws.Credentials]
}

// Error is a failure to get credentials, so that nothing was sent with them. Its text does not repeat what a server answered.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// failure makes an *Error of why there are no credentials; nil of none.
func failure(what string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok { // its text quotes the reply
		err = fmt.Errorf("the token server answered %q", e.Response.Status)
	}
	return &Error{fmt.Errorf("get %s: %w", what, err)}
}

// source gets a value once for all that wait for it. What hangs is waited for by nobody
// whose context has ended, and is given up after a while.
type source[T any] struct {
	group     singleflight.Group
	abandoned foreign.Abandoned
	get       func(context.Context) (T, error)
}

func (s *source[T]) wait(ctx context.Context) (v T, err error) {
	done := s.group.DoChan("", func() (any, error) { return s.inTime(context.WithoutCancel(ctx)) })
	select {
	case r := <-done:
		v, _ = r.Val.(T)
		return v, r.Err
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), context.Canceled) {
			return v, context.Cause(ctx)
		}
		return v, &Error{fmt.Errorf("no credentials in time: %w", context.Cause(ctx))}
	}
}

// inTime gets the value, and gives up after a while.
func (s *source[T]) inTime(ctx context.Context) (v T, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := s.abandoned.Err(); err != nil {
		return v, &Error{err}
	}
	v, err = foreign.Await(ctx, &s.abandoned, func() (T, error) { return s.get(ctx) }, nil)
	if err != nil && ctx.Err() != nil {
		return v, &Error{fmt.Errorf("no credentials within %s: %w", timeout, context.Cause(ctx))}
	}
	return v, err
}

// once makes find a function that finds once, though what was given up may find too.
func once[T any](find func(context.Context) (T, error)) func(context.Context) (T, error) {
	var found atomic.Pointer[T]
	return func(ctx context.Context) (T, error) {
		if v := found.Load(); v != nil {
			return *v, nil
		}
		v, err := find(ctx)
		if err == nil {
			found.Store(&v)
		}
		return v, err
	}
}

// renewBefore is how long before its end a token is not used any more.
const renewBefore = time.Minute

// Bearer returns a RoundTripper that sets the header Authorization to a token of the identity. Its own
// errors are those of the context and *Error.
func (p *Pool) Bearer(next http.RoundTripper, t config.CloudIdentity) http.RoundTripper {
	return &bearer{next, pooled(p, &p.tokens, t, newTokenSource)}
}

// pooled returns the source of a key, which is made if there is none.
func pooled[K comparable, S any](p *Pool, all *map[K]*S, key K, make func(K) *S) *S {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *all == nil {
		*all = map[K]*S{}
	}
	if (*all)[key] == nil {
		(*all)[key] = make(key)
	}
	return (*all)[key]
}

type bearer struct {
	next   http.RoundTripper
	source *tokenSource
}

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
func (b *bearer) CloseIdleConnections() { foreign.CloseIdle(b.next) }

// tokenSource keeps a token until it ends.
type tokenSource struct {
	fetch  source[oauth2.Token]
	latest atomic.Pointer[oauth2.Token]
}

func newTokenSource(t config.CloudIdentity) *tokenSource {
	get := googleToken(t)
	if t.Provider == config.CloudAzure {
		get = azureToken(t)
	}
	return &tokenSource{fetch: source[oauth2.Token]{get: get}}
}

func (s *tokenSource) token(ctx context.Context) (string, error) {
	if t := s.latest.Load(); t != nil && t.AccessToken != "" && (t.Expiry.IsZero() || time.Until(t.Expiry) > renewBefore) {
		return t.AccessToken, nil
	}
	fresh, err := s.fetch.wait(ctx)
	if err != nil {
		return "", err
	}
	s.latest.Store(&fresh)
	return fresh.AccessToken, nil
}

// AWS returns what gives the credentials of a signature, without keys those that the SDK finds, and renews them before
// they end. Its errors are those of the context and *Error.
func (p *Pool) AWS(a config.SigV4) aws.CredentialsProvider {
	if a.AccessKeyID != "" && a.RoleARN == "" {
		return credentials.NewStaticCredentialsProvider(a.AccessKeyID, string(a.SecretAccessKey), string(a.SessionToken))
	}
	return aws.CredentialsProviderFunc(pooled(p, &p.signers, a, newAWSSource).wait)
}

// newAWSSource returns a source that finds out with its first use where credentials come from.
func newAWSSource(a config.SigV4) *source[aws.Credentials] {
	find := once(func(ctx context.Context) (aws.CredentialsProvider, error) { return findAWS(ctx, a) })
	return &source[aws.Credentials]{get: func(ctx context.Context) (aws.Credentials, error) {
		provider, err := find(ctx)
		if err != nil {
			return aws.Credentials{}, failure("the credentials of AWS", err)
		}
		c, err := provider.Retrieve(ctx)
		return c, failure("credentials of AWS", err)
	}}
}

// Sign returns a RoundTripper that signs each request with AWS Signature Version 4
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html) and hands it to next. Behind it nothing may
// change but headers that are not signed: Authorization, Expect, Transfer-Encoding, User-Agent and X-Amzn-Trace-Id.
func (p *Pool) Sign(next http.RoundTripper, a config.SigV4) http.RoundTripper {
	return &signer{region: a.Region, service: a.Service, keys: p.AWS(a), next: next, signer: v4.NewSigner(), now: time.Now}
}

type signer struct {
	region, service string
	keys            aws.CredentialsProvider
	next            http.RoundTripper
	signer          *v4.Signer
	now             func() time.Time
}

// RoundTrip implements http.RoundTripper. An error of its own means that the
// request's body could not be read or the request not be signed.
func (t *signer) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		_ = req.Body.Close() // it was read whole, or failed to be
		if err != nil {
			return nil, fmt.Errorf("read request to sign: %w", err)
		}
	}
	signed := req.Clone(req.Context())
	if req.Body != nil {
		signed.Body = io.NopCloser(bytes.NewReader(body))
	}
	keys, err := t.keys.Retrieve(req.Context())
	if err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	sum := sha256.Sum256(body)
	err = t.signer.SignHTTP(req.Context(), keys, signed, hex.EncodeToString(sum[:]), t.service, t.region, t.now())
	if err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	return t.next.RoundTrip(signed)
}

// CloseIdleConnections closes those of the next RoundTripper.
func (t *signer) CloseIdleConnections() { foreign.CloseIdle(t.next) }
