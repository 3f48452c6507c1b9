package cloudauth

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// The credentials, time and scope of the published test suite of Signature
// Version 4.
func suite() config.SigV4 {
	return config.SigV4{Region: "us-east-1", Service: "service", AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
}

// capture keeps the request that it is given.
type capture struct {
	req    *http.Request
	body   string
	closed bool
}

func (c *capture) RoundTrip(req *http.Request) (*http.Response, error) {
	c.req = req
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		c.body = string(body)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func (c *capture) CloseIdleConnections() { c.closed = true }

// send signs a request at the instant of the test suite.
func sendSigned(t *testing.T, o config.SigV4, req *http.Request) *capture {
	t.Helper()
	var c capture
	rt := new(Pool).Sign(&c, o).(*signer)
	rt.now = func() time.Time { return time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC) }
	res, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return &c
}

func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// TestSuite checks signatures of the published test suite: get-vanilla,
// post-vanilla, get-vanilla-query-order-key-case.
func TestSuite(t *testing.T) {
	f := func(method, url, signature string) {
		t.Helper()
		c := sendSigned(t, suite(), request(t, method, url, nil))
		want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + signature
		if got := c.req.Header.Get("Authorization"); got != want {
			t.Errorf("%s %s:\n got %s\nwant %s", method, url, got, want)
		}
	}
	f("GET", "https://example.amazonaws.com/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31")
	f("POST", "https://example.amazonaws.com/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b")
	f("GET", "https://example.amazonaws.com/?Param2=value2&Param1=value1", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500")
}

// TestBedrock signs what the prober sends. The body belongs to the signature,
// and the escapes of a model's name are escaped once more in it.
func TestBedrock(t *testing.T) {
	o := suite()
	o.Service, o.SessionToken = "bedrock", "session"
	post := func(path, body string) *capture {
		req := request(t, "POST", "https://bedrock-runtime.us-east-1.amazonaws.com"+path, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("User-Agent", "x")
		c := sendSigned(t, o, req)
		if len(req.Header) != 2 {
			t.Errorf("the request was changed: %v", req.Header)
		}
		return c
	}
	c := post("/model/a%3A0/converse-stream", `{"a":1}`)
	if c.body != `{"a":1}` || c.req.ContentLength != 7 {
		t.Errorf("body %q of length %d", c.body, c.req.ContentLength)
	}
	if c.req.URL.EscapedPath() != "/model/a%3A0/converse-stream" {
		t.Errorf("path %s", c.req.URL.EscapedPath())
	}
	authorization := c.req.Header.Get("Authorization")
	const want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/bedrock/aws4_request, " +
		"SignedHeaders=content-length;content-type;host;x-amz-date;x-amz-security-token, Signature="
	if !strings.HasPrefix(authorization, want) {
		t.Errorf("authorization %s, want %s...", authorization, want)
	}
	if got := c.req.Header.Get("X-Amz-Security-Token"); got != "session" {
		t.Errorf("session token %q", got)
	}
	if other := post("/model/a%3A0/converse-stream", `{"a":2}`).req.Header.Get("Authorization"); other == authorization {
		t.Error("two bodies have one signature")
	}
	if other := post("/model/a:0/converse-stream", `{"a":1}`).req.Header.Get("Authorization"); other == authorization {
		t.Error("two paths have one signature")
	}
	if again := post("/model/a%3A0/converse-stream", `{"a":1}`).req.Header.Get("Authorization"); again != authorization {
		t.Error("one request has two signatures")
	}
}

func TestUnreadableBody(t *testing.T) {
	broken := errors.New("broken")
	var c capture
	res, err := new(Pool).Sign(&c, suite()).RoundTrip(request(t, "POST", "https://example.amazonaws.com/", iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || c.req != nil {
		t.Errorf("%v, %v, sent %v", res, err, c.req)
	}
}

// TestOverHTTP sends a signed request through a real transport.
func TestOverHTTP(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.ContentLength != 2 || string(body) != "{}" || !strings.Contains(r.Header.Get("Authorization"), "/us-east-1/service/aws4_request") {
			t.Errorf("length %d, body %q, header %v", r.ContentLength, body, r.Header)
		}
	}))
	defer s.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := new(Pool).Sign(transport, suite()).RoundTrip(request(t, "POST", s.URL, strings.NewReader("{}")))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
}

func TestCloseIdleConnections(t *testing.T) {
	var c capture
	(&http.Client{Transport: new(Pool).Sign(&c, suite())}).CloseIdleConnections()
	if !c.closed {
		t.Error("the next round tripper was not asked")
	}
	new(Pool).Sign(http.NewFileTransport(http.Dir(t.TempDir())), suite()).(interface{ CloseIdleConnections() }).CloseIdleConnections()
}
