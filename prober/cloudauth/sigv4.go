package cloudauth

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Signature says whose signature of AWS requests it is and for what.
type Signature struct {
	// Region is the region of the service, such as "us-east-1", and Service
	// its signing name: "bedrock" for bedrock-runtime endpoints.
	Region, Service string
	// Credentials gives the keys of each request.
	Credentials aws.CredentialsProvider
}

// Sign returns a RoundTripper that signs each request with AWS Signature Version 4
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html) and hands it to next. A
// request must not be changed behind it, but for the headers that are not
// signed: Authorization, Expect, Transfer-Encoding, User-Agent and
// X-Amzn-Trace-Id.
func Sign(next http.RoundTripper, o Signature) http.RoundTripper {
	return &signer{
		next: next, region: o.Region, service: o.Service,
		credentials: o.Credentials, signer: v4.NewSigner(), now: time.Now,
	}
}

type signer struct {
	next            http.RoundTripper
	region, service string
	credentials     aws.CredentialsProvider
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
	keys, err := t.credentials.Retrieve(req.Context())
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
func (t *signer) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
