//go:build clouds

package cloudauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/inference-exporter/inference_exporter/internal/files"
)

func findAWS(ctx context.Context, a AWS) (aws.CredentialsProvider, error) {
	options := []func(*awsconfig.LoadOptions) error{awsconfig.WithRegion(a.Region), awsconfig.WithHTTPClient(client())}
	if a.AccessKeyID != "" {
		options = append(options, awsconfig.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(a.AccessKeyID, a.SecretAccessKey, a.SessionToken)))
	}
	found, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, err
	}
	if a.RoleARN == "" {
		return found.Credentials, nil
	}
	role := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(found), a.RoleARN, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = "inference_exporter"
	})
	return aws.NewCredentialsCache(role), nil
}

// maxFileBytes bounds a file with credentials.
const maxFileBytes = 1 << 20

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

// client asks the clouds. It follows no redirect, which no token service sends.
func client() *http.Client {
	return &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
