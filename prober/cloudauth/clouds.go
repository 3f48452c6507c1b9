//go:build clouds

package cloudauth

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"cloud.google.com/go/compute/metadata"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
)

// findAWS looks for credentials where the SDK does. Its clients send their requests by ours,
// which trusts what AWS_CA_BUNDLE or the profile names, too.
func findAWS(ctx context.Context, a config.SigV4) (aws.CredentialsProvider, error) {
	if bundle := os.Getenv("AWS_CA_BUNDLE"); bundle != "" { // the SDK reads it however long that takes
		if err := foreign.CheckFile(bundle, maxFileBytes); err != nil {
			return nil, fmt.Errorf("AWS_CA_BUNDLE: %w", err)
		}
	}
	transport := foreign.NewTransport(limits)
	options := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithRegion(a.Region), awsconfig.WithLogger(logging.Nop{}),
		awsconfig.WithAPIOptions([]func(*middleware.Stack) error{sentBy(foreign.NewClientOver(transport, limits))}),
	}
	if a.AccessKeyID != "" {
		options = append(options, awsconfig.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(a.AccessKeyID, string(a.SecretAccessKey), string(a.SessionToken))))
	}
	found, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, err
	}
	if c, ok := found.HTTPClient.(*awshttp.BuildableClient); ok { // with a bundle
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.GetTransport().TLSClientConfig.RootCAs}
	}
	if a.RoleARN == "" {
		return found.Credentials, nil
	}
	role := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(found), a.RoleARN, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = "inference_exporter"
	})
	return aws.NewCredentialsCache(role), nil
}

// sentBy makes the clients of the SDK send their requests by c, whatever client they have:
// where there is a bundle, the SDK takes none but its own, whose replies have no limit.
func sentBy(c *http.Client) func(*middleware.Stack) error {
	sender := smithyhttp.NewClientHandler(c)
	return func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("SentBy",
			func(ctx context.Context, in middleware.DeserializeInput, _ middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
				reply, metadata, err := sender.Handle(ctx, in.Request)
				return middleware.DeserializeOutput{RawResponse: reply}, metadata, err
			}), middleware.After)
	}
}

const maxFileBytes = 1 << 20

// googleToken gets tokens by application default credentials
// (https://cloud.google.com/docs/authentication/application-default-credentials): a file or
// the metadata server. The SDK's own look for the server has no limit of bytes.
func googleToken(t config.CloudIdentity) func(context.Context) (oauth2.Token, error) {
	return func(ctx context.Context) (oauth2.Token, error) {
		name, err := googleFile(t)
		if err != nil {
			return oauth2.Token{}, failure("the credentials of Google Cloud", err)
		}
		get := metadataToken
		if name != "" {
			get = func(ctx context.Context, scope string) (*oauth2.Token, error) { return fileToken(ctx, name, scope) }
		}
		token, err := get(ctx, t.Scope)
		if err != nil {
			return oauth2.Token{}, failure("a token of Google Cloud", err)
		}
		return *token, nil
	}
}

// googleFile returns the name of the file with the credentials; "" is none.
func googleFile(t config.CloudIdentity) (string, error) {
	if name := cmp.Or(t.CredentialsFile, os.Getenv("GOOGLE_APPLICATION_CREDENTIALS")); name != "" {
		return name, nil
	}
	dir := os.Getenv("APPDATA")
	if runtime.GOOS != "windows" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", nil // there is none of a user either
		}
		dir = filepath.Join(home, ".config")
	}
	name := filepath.Join(dir, "gcloud", "application_default_credentials.json")
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return name, nil
}

func fileToken(ctx context.Context, name, scope string) (*oauth2.Token, error) {
	text, err := foreign.ReadFile(name, maxFileBytes)
	if err != nil {
		return nil, err
	}
	var file struct{ Type google.CredentialsType }
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, errors.New("the file is not JSON")
	}
	switch file.Type {
	case google.ServiceAccount, google.ExternalAccount, google.ExternalAccountAuthorizedUser, google.AuthorizedUser, google.ImpersonatedServiceAccount:
	default:
		return nil, fmt.Errorf("the file is of type %.64q, want a service account's key or a federation", file.Type)
	}
	found, err := google.CredentialsFromJSONWithType(context.WithValue(ctx, oauth2.HTTPClient, foreign.NewClient(limits)), text, file.Type, scope)
	if err != nil {
		return nil, err
	}
	return found.TokenSource.Token()
}

// metadataToken gets a token of the machine
// (https://cloud.google.com/compute/docs/access/authenticate-workloads#applications).
func metadataToken(ctx context.Context, scope string) (*oauth2.Token, error) {
	client := metadata.NewClient(foreign.NewClient(foreign.Limits{Time: metadataTime, Bytes: limits.Bytes}))
	text, err := client.GetWithContext(ctx, "instance/service-accounts/default/token?"+url.Values{"scopes": {scope}}.Encode())
	if err != nil {
		return nil, fmt.Errorf("no file with credentials, and of the metadata server: %w", metadataCause(err))
	}
	var token oauth2.Token
	if err := json.Unmarshal([]byte(text), &token); err != nil || token.AccessToken == "" || token.ExpiresIn <= 0 {
		return nil, errors.New("the metadata server answered without a token")
	}
	token.Expiry = time.Now().Add(time.Duration(token.ExpiresIn) * time.Second)
	return &token, nil
}

// metadataTime limits one question to the metadata server, which is near where there is one.
const metadataTime = 5 * time.Second

// metadataCause leaves out of an error what the server answered.
func metadataCause(err error) error {
	if e, ok := errors.AsType[*metadata.Error](err); ok {
		return fmt.Errorf("it answered with status %d", e.Code)
	}
	if _, ok := errors.AsType[metadata.NotDefinedError](err); ok {
		return errors.New("the machine has no service account")
	}
	return err
}

// envFederatedToken names the file with the token of a pod's service account, which
// Azure's webhook for workload identity sets.
const envFederatedToken = "AZURE_FEDERATED_TOKEN_FILE"

// azureToken gets tokens by workload identity or managed identity. Other ways of the SDK,
// which start programs, are not tried.
func azureToken(t config.CloudIdentity) func(context.Context) (oauth2.Token, error) {
	find := once(func(context.Context) (azcore.TokenCredential, error) { return azureCredential(t) })
	return func(ctx context.Context) (oauth2.Token, error) {
		credential, err := find(ctx)
		if err != nil {
			return oauth2.Token{}, failure("the credentials of Azure", err)
		}
		token, err := credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{t.Scope}})
		return oauth2.Token{AccessToken: token.Token, Expiry: token.ExpiresOn}, failure("a token of Azure", azureCause(err))
	}
}

func azureCredential(t config.CloudIdentity) (azcore.TokenCredential, error) {
	options := azcore.ClientOptions{Transport: foreign.NewClient(limits), Retry: policy.RetryOptions{MaxRetries: 1}}
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

// limits bound one question to a service of a cloud. Replies have some kB.
var limits = foreign.Limits{Time: timeout, Bytes: 1 << 20}
