package cloudauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/inference-exporter/inference_exporter/internal/files"
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

// maxFileBytes bounds a file with credentials.
const maxFileBytes = 1 << 20

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

// googleToken gets tokens by application default credentials
// (https://cloud.google.com/docs/authentication/application-default-credentials).
func googleToken(t Token) func(context.Context) (oauth2.Token, error) {
	return func(ctx context.Context) (oauth2.Token, error) {
		ctx = context.WithValue(ctx, oauth2.HTTPClient, client())
		found, err := googleCredentials(ctx, t)
		if err != nil {
			return oauth2.Token{}, failure("the credentials of Google Cloud", err)
		}
		token, err := found.TokenSource.Token()
		if err != nil {
			return oauth2.Token{}, failure("a token of Google Cloud", err)
		}
		return *token, nil
	}
}

func googleCredentials(ctx context.Context, t Token) (*google.Credentials, error) {
	if t.CredentialsFile == "" {
		return google.FindDefaultCredentials(ctx, t.Scope)
	}
	text, err := files.Read(t.CredentialsFile, maxFileBytes)
	if err != nil {
		return nil, err
	}
	var file struct{ Type google.CredentialsType }
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, errors.New("the file is not JSON")
	}
	switch file.Type {
	case google.ServiceAccount, google.ExternalAccount, google.AuthorizedUser, google.ImpersonatedServiceAccount:
		return google.CredentialsFromJSONWithType(ctx, text, file.Type, t.Scope)
	}
	return nil, fmt.Errorf("the file is of type %.64q, want a service account's key or a federation", file.Type)
}

// envFederatedToken names the file with the token of a pod's service account, which
// Azure's webhook for workload identity sets.
const envFederatedToken = "AZURE_FEDERATED_TOKEN_FILE"

// azureToken gets tokens by workload identity or managed identity. Other ways of the SDK,
// which start programs, are not tried.
func azureToken(t Token) func(context.Context) (oauth2.Token, error) {
	var credential azcore.TokenCredential // written by one fetch at a time
	return func(ctx context.Context) (oauth2.Token, error) {
		if credential == nil {
			var err error
			if credential, err = azureCredential(t); err != nil {
				return oauth2.Token{}, failure("the credentials of Azure", err)
			}
		}
		token, err := credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{t.Scope}})
		if err != nil {
			return oauth2.Token{}, failure("a token of Azure", azureCause(err))
		}
		return oauth2.Token{AccessToken: token.Token, Expiry: token.ExpiresOn}, nil
	}
}

func azureCredential(t Token) (azcore.TokenCredential, error) {
	options := azcore.ClientOptions{Transport: client(), Retry: policy.RetryOptions{MaxRetries: 1}}
	if os.Getenv(envFederatedToken) != "" {
		return azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: options, ClientID: t.ClientID})
	}
	managed := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: options}
	if t.ClientID != "" {
		managed.ID = azidentity.ClientID(t.ClientID)
	}
	return azidentity.NewManagedIdentityCredential(managed)
}

// azureCause leaves out of an error what the service answered.
func azureCause(err error) error {
	if e, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok && e.RawResponse != nil {
		return fmt.Errorf("the token server answered with status %d", e.RawResponse.StatusCode)
	}
	if e, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return fmt.Errorf("the token server answered with status %d", e.StatusCode)
	}
	return err
}
