//go:build clouds

package cloudauth

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
)

// cloud is a service that gives out credentials in the form that its cloud documents.
type cloud struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // method, path and what tells who asks
}

func newCloud(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *cloud {
	t.Helper()
	c := &cloud{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.asked = append(c.asked, r.Method+" "+r.URL.Path)
		c.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

// noCloud clears what the environment of the tests says of clouds.
func noCloud(t *testing.T) {
	t.Helper()
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		for _, prefix := range []string{"AWS_", "AZURE_", "GOOGLE_", "GCE_", "IDENTITY_", "MSI_"} {
			if strings.HasPrefix(name, prefix) {
				t.Setenv(name, "")
				_ = os.Unsetenv(name)
			}
		}
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true") // nothing but loopback
}

// TestAWS gets credentials from each place where those of instances, pods and roles are.
func TestAWS(t *testing.T) {
	end := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	container := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "pod-token" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, `{"AccessKeyId": "AKIDPOD", "SecretAccessKey": "s", "Token": "t", "Expiration": %q}`, end)
	}
	// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
	instance := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
			fmt.Fprint(w, "session")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "session":
			http.Error(w, "no", http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, "/security-credentials/"):
			fmt.Fprint(w, "prober")
		case strings.HasSuffix(r.URL.Path, "/security-credentials/prober"):
			fmt.Fprintf(w, `{"Code": "Success", "AccessKeyId": "AKIDINSTANCE", "SecretAccessKey": "s", "Token": "t", "Expiration": %q}`, end)
		default:
			http.NotFound(w, r)
		}
	}
	// https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html
	role := func(w http.ResponseWriter, r *http.Request) {
		form, _ := io.ReadAll(r.Body)
		action, id := "AssumeRole", "AKIDROLE"
		if strings.Contains(string(form), "WebIdentityToken=pod-jwt") {
			action, id = "AssumeRoleWithWebIdentity", "AKIDWEB"
		}
		fmt.Fprintf(w, `<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult><Credentials>
<AccessKeyId>%[2]s</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>%[3]s</Expiration>
</Credentials></%[1]sResult></%[1]sResponse>`, action, id, end)
	}
	jwt := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(jwt, []byte("pod-jwt"), 0o600); err != nil {
		t.Fatal(err)
	}
	const arn = "arn:aws:iam::123456789012:role/prober"
	f := func(name string, answer http.HandlerFunc, env func(url string) map[string]string, a config.SigV4, want string) {
		t.Run(name, func(t *testing.T) {
			noCloud(t)
			c := newCloud(t, answer)
			for name, value := range env(c.URL) {
				t.Setenv(name, value)
			}
			a.Region = "eu-central-1"
			var pool Pool
			for range 2 { // the second time from the cache
				got, err := pool.AWS(a).Retrieve(t.Context())
				if err != nil || got.AccessKeyID != want || got.SecretAccessKey != "s" || got.SessionToken != "t" {
					t.Fatalf("got key %q, session %q, %v; want key %q", got.AccessKeyID, got.SessionToken, err, want)
				}
			}
			if n := len(c.asked); n > 3 {
				t.Errorf("asked %d times: %v", n, c.asked)
			}
		})
	}
	f("keys", nil, func(string) map[string]string { return nil }, config.SigV4{AccessKeyID: "AKIDOWN", SecretAccessKey: "s", SessionToken: "t"}, "AKIDOWN")
	f("environment", nil, func(string) map[string]string {
		return map[string]string{"AWS_ACCESS_KEY_ID": "AKIDENV", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}
	}, config.SigV4{}, "AKIDENV")
	f("pod", container, func(url string) map[string]string {
		return map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": url + "/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "pod-token"}
	}, config.SigV4{}, "AKIDPOD")
	f("instance", instance, func(url string) map[string]string {
		return map[string]string{"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": url}
	}, config.SigV4{}, "AKIDINSTANCE")
	f("web identity", role, func(url string) map[string]string {
		return map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": jwt, "AWS_ROLE_ARN": arn, "AWS_ENDPOINT_URL_STS": url}
	}, config.SigV4{}, "AKIDWEB")
	f("role", role, func(url string) map[string]string { return map[string]string{"AWS_ENDPOINT_URL_STS": url} },
		config.SigV4{AccessKeyID: "AKIDOWN", SecretAccessKey: "own", RoleARN: arn}, "AKIDROLE")
}

// send sends a request through a pool and returns what arrived in Authorization.
func send(t *testing.T, ctx context.Context, p *Pool, token config.CloudIdentity) (string, error) {
	t.Helper()
	var got string
	rt := p.Bearer(roundTripper(func(r *http.Request) { got = r.Header.Get("Authorization") }), token)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://endpoint/", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := rt.RoundTrip(req)
	if err == nil {
		_ = res.Body.Close()
	}
	if req.Header.Get("Authorization") != "" {
		t.Error("the request of the caller was changed")
	}
	return got, err
}

type roundTripper func(*http.Request)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestGoogle gets tokens from the metadata server and by workload identity federation.
func TestGoogle(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.HasPrefix(r.URL.Path, "/computeMetadata/v1/instance/service-accounts/"):
			fmt.Fprint(w, `{"access_token": "from-metadata", "expires_in": 3599, "token_type": "Bearer"}`)
		case r.URL.Path == "/sts" && strings.Contains(string(body), "subject_token=pod-jwt"):
			fmt.Fprint(w, `{"access_token": "federated", "expires_in": 3599, "token_type": "Bearer", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}`)
		default:
			fmt.Fprint(w, "project-or-domain")
		}
	}
	t.Run("metadata", func(t *testing.T) {
		noCloud(t)
		c := newCloud(t, answer)
		t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(c.URL, "http://"))
		if got, err := send(t, t.Context(), new(Pool), config.CloudIdentity{Scope: "s"}); err != nil || got != "Bearer from-metadata" {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("federation", func(t *testing.T) {
		noCloud(t)
		c := newCloud(t, answer)
		dir := t.TempDir()
		jwt, file := filepath.Join(dir, "jwt"), filepath.Join(dir, "credentials.json")
		settings, err := json.Marshal(map[string]any{
			"type": "external_account", "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/k",
			"subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": c.URL + "/sts",
			"credential_source": map[string]string{"file": jwt},
		})
		if err := errors.Join(err, os.WriteFile(jwt, []byte("pod-jwt"), 0o600), os.WriteFile(file, settings, 0o600)); err != nil {
			t.Fatal(err)
		}
		var pool Pool
		for range 2 {
			if got, err := send(t, t.Context(), &pool, config.CloudIdentity{Scope: "s", CredentialsFile: file}); err != nil || got != "Bearer federated" {
				t.Fatalf("got %q, %v", got, err)
			}
		}
		if len(c.asked) != 1 {
			t.Errorf("asked %v for one token", c.asked)
		}
	})
}

// TestAzure gets a token of the managed identity by the endpoint of App Service
// (https://learn.microsoft.com/azure/app-service/overview-managed-identity), the only one
// that is not at a fixed address.
func TestAzure(t *testing.T) {
	noCloud(t)
	c := newCloud(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Identity-Header") != "secret" || r.URL.Query().Get("resource") != "https://cognitiveservices.azure.com" {
			http.Error(w, "tell nobody: token-in-reply", http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, `{"access_token": "from-azure", "expires_on": "%d", "resource": "x", "token_type": "Bearer"}`, time.Now().Add(time.Hour).Unix())
	})
	t.Setenv("IDENTITY_ENDPOINT", c.URL+"/msi/token")
	t.Setenv("IDENTITY_HEADER", "secret")
	if got, err := send(t, t.Context(), new(Pool), config.CloudIdentity{Provider: config.CloudAzure, Scope: "https://cognitiveservices.azure.com/.default"}); err != nil || got != "Bearer from-azure" {
		t.Errorf("got %q, %v", got, err)
	}
	got, err := send(t, t.Context(), new(Pool), config.CloudIdentity{Provider: config.CloudAzure, Scope: "https://other/.default"})
	if _, ok := errors.AsType[*Error](err); !ok || strings.Contains(err.Error(), "token-in-reply") || !strings.Contains(err.Error(), "403") {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestTokensAreShared checks that those who wait ask once, leave when their context ends,
// and that a token is renewed a minute before its end.
func TestTokensAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, release := 0, make(chan struct{})
		s := &tokenSource{fetch: source[oauth2.Token]{get: func(context.Context) (oauth2.Token, error) {
			asked++
			<-release
			return oauth2.Token{AccessToken: fmt.Sprint("t", asked), Expiry: time.Now().Add(time.Hour)}, nil
		}}}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if got, err := s.token(t.Context()); err != nil || got != "t1" {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
		if _, err := s.token(impatient); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who was to wait a second got %v", err)
		}
		close(release)
		wg.Wait()
		time.Sleep(59*time.Minute - time.Second)
		if got, _ := s.token(t.Context()); got != "t1" {
			t.Errorf("got %q more than a minute before its end", got)
		}
		time.Sleep(2 * time.Second)
		if got, _ := s.token(t.Context()); got != "t2" {
			t.Errorf("got %q less than a minute before its end", got)
		}
	})
}

// services are the ways to credentials that a test can have on loopback: each sets the
// environment for a service at a URL, and gets credentials.
func services() map[string]func(t *testing.T, url string) func() error {
	ofAWS := func(t *testing.T, env map[string]string) func() error {
		for name, value := range env {
			t.Setenv(name, value)
		}
		signer := new(Pool).AWS(config.SigV4{Region: "eu-central-1"})
		return func() error {
			_, err := signer.Retrieve(t.Context())
			return err
		}
	}
	token := func(t *testing.T, k config.CloudIdentity) func() error {
		pool := new(Pool)
		return func() error {
			_, err := send(t, t.Context(), pool, k)
			return err
		}
	}
	return map[string]func(t *testing.T, url string) func() error{
		"pod": func(t *testing.T, url string) func() error {
			return ofAWS(t, map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": url + "/v1/credentials"})
		},
		"instance": func(t *testing.T, url string) func() error {
			return ofAWS(t, map[string]string{"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": url})
		},
		"role": func(t *testing.T, url string) func() error {
			jwt := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(jwt, []byte("pod-jwt"), 0o600); err != nil {
				t.Fatal(err)
			}
			return ofAWS(t, map[string]string{
				"AWS_WEB_IDENTITY_TOKEN_FILE": jwt, "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/prober", "AWS_ENDPOINT_URL_STS": url,
			})
		},
		"google": func(t *testing.T, url string) func() error {
			t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(url, "http://"))
			return token(t, config.CloudIdentity{Scope: "s"})
		},
		"azure": func(t *testing.T, url string) func() error {
			t.Setenv("IDENTITY_ENDPOINT", url+"/msi/token")
			t.Setenv("IDENTITY_HEADER", "secret")
			return token(t, config.CloudIdentity{Provider: config.CloudAzure, Scope: "https://a/.default"})
		},
	}
}

// TestHostileServices lets the services, which speak plain HTTP on addresses that anybody
// may have off their cloud, misbehave. None takes memory, leads elsewhere, or keeps a
// service from being asked again.
func TestHostileServices(t *testing.T) {
	elsewhere := newCloud(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
	var sent atomic.Int64 // bytes of bodies
	for what, answer := range map[string]http.HandlerFunc{
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			for kilobyte := []byte(strings.Repeat(" ", 1<<10)); ; {
				n, err := w.Write(kilobyte)
				if sent.Add(int64(n)); err != nil {
					return
				}
			}
		},
		"other protocol": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn) // until the client has gone
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
	} {
		for name, use := range services() {
			t.Run(what+"/"+name, func(t *testing.T) {
				noCloud(t)
				t.Setenv("AWS_MAX_ATTEMPTS", "1")
				c := newCloud(t, answer)
				get := use(t, c.URL)
				for range 2 {
					before := len(c.asked)
					if _, ok := errors.AsType[*Error](get()); !ok || len(c.asked) == before {
						t.Errorf("asked %v", c.asked)
					}
				}
			})
		}
	}
	const most = 100 << 20 // of some twenty replies, each of 2 MiB and what buffers hold
	if n := sent.Load(); n > most {
		t.Errorf("%d MiB of endless replies were read", n>>20)
	}
}

// TestBundle lets AWS_CA_BUNDLE name who is trusted, within the same limits.
func TestBundle(t *testing.T) {
	noCloud(t)
	var endless atomic.Bool
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for endless.Load() {
			if _, err := io.WriteString(w, strings.Repeat(" ", 1<<10)); err != nil {
				return
			}
		}
		fmt.Fprintf(w, `{"AccessKeyId": "AKIDPOD", "SecretAccessKey": "s", "Token": "t", "Expiration": %q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", s.URL+"/v1/credentials")
	get := func(bundle string) error {
		t.Setenv("AWS_CA_BUNDLE", bundle)
		_, err := new(Pool).AWS(config.SigV4{Region: "eu-central-1"}).Retrieve(t.Context())
		return err
	}
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	bundle := write("bundle.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	if err := get(bundle); err != nil {
		t.Errorf("with the bundle: %v", err)
	}
	if err := get(""); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without: %v", err)
	}
	for name, file := range map[string]string{"missing": filepath.Join(dir, "none"), "not PEM": write("text", []byte("text")), "no file": dir} {
		if _, ok := errors.AsType[*Error](get(file)); !ok {
			t.Errorf("%s: no error of ours", name)
		}
	}
	endless.Store(true)
	if err := get(bundle); !errors.Is(err, foreign.ErrTooLarge) {
		t.Errorf("an endless reply: %v", err)
	}
}

// TestHangingSource checks that what hangs for good is asked again.
func TestHangingSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var asked atomic.Int32 // also by what was given up
		s := &tokenSource{fetch: source[oauth2.Token]{get: func(context.Context) (oauth2.Token, error) {
			if asked.Add(1) == 1 {
				<-release // whatever the context
			}
			return oauth2.Token{AccessToken: "t", Expiry: time.Now().Add(time.Hour)}, nil
		}}}
		if got, err := s.token(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %q, %v", got, err)
		}
		if got, err := s.token(t.Context()); got != "t" || err != nil {
			t.Errorf("asked again: %q, %v", got, err)
		}
		close(release)
		synctest.Wait()
	})
}
