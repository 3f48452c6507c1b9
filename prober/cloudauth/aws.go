package cloudauth

import (
	"context"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// AWS says which credentials of AWS to get.
type AWS struct {
	// Region is that of the service that gives out roles.
	Region string
	// AccessKeyID, SecretAccessKey and SessionToken are keys; without the first the SDK
	// looks for credentials in its usual places.
	AccessKeyID, SecretAccessKey, SessionToken string
	// RoleARN is a role to take on with them; "" is none.
	RoleARN string
}

// AWS returns what gives credentials, and renews them before they end. Its errors are those
// of the context and *Error.
func (p *Pool) AWS(a AWS) aws.CredentialsProvider {
	if a.AccessKeyID != "" && a.RoleARN == "" {
		return credentials.NewStaticCredentialsProvider(a.AccessKeyID, a.SecretAccessKey, a.SessionToken)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.signers[a]
	if s == nil {
		s = newAWSSource(a)
		if p.signers == nil {
			p.signers = map[AWS]*awsSource{}
		}
		p.signers[a] = s
	}
	return s
}

// awsSource finds out with its first use where credentials come from.
type awsSource struct{ fetch source[aws.Credentials] }

func newAWSSource(a AWS) *awsSource {
	var found atomic.Pointer[aws.CredentialsProvider] // also written by what was given up
	return &awsSource{source[aws.Credentials]{get: func(ctx context.Context) (aws.Credentials, error) {
		provider := found.Load()
		if provider == nil {
			p, err := findAWS(ctx, a)
			if err != nil {
				return aws.Credentials{}, failure("the credentials of AWS", err)
			}
			provider = &p
			found.Store(provider)
		}
		c, err := (*provider).Retrieve(ctx)
		if err != nil {
			return aws.Credentials{}, failure("credentials of AWS", err)
		}
		return c, nil
	}}}
}

// Retrieve implements aws.CredentialsProvider.
func (s *awsSource) Retrieve(ctx context.Context) (aws.Credentials, error) { return s.fetch.wait(ctx) }
