package cluster

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// accountDir is where a pod has its account. check.sh gives the tests a /run of their own.
const accountDir = "/run/secrets/kubernetes.io/serviceaccount"

// writeAccount replaces the files of the account as the kubelet does: it writes a folder, and then swaps a link to it.
func writeAccount(t *testing.T, token string) {
	t.Helper()
	ca, err := os.ReadFile(stand.CA)
	if err != nil {
		t.Fatal(err)
	}
	folder := fmt.Sprintf("..%d", time.Now().UnixNano())
	if err := os.MkdirAll(filepath.Join(accountDir, folder), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"token": []byte(token), "ca.crt": ca, "namespace": []byte("default")} {
		if err := os.WriteFile(filepath.Join(accountDir, folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(accountDir, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(folder, filepath.Join(accountDir, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(accountDir, "..data_tmp"), filepath.Join(accountDir, "..data")); err != nil {
		t.Fatal(err)
	}
}

// leeway is for how long after its end the API server still takes a token, by k8s.io/kubernetes/pkg/serviceaccount.
const leeway = time.Minute

// signToken returns a token of a service account that the API server refuses after a time: a TokenRequest gives none for
// less than ten minutes. It has the claims and the key of those that the API server signs.
func signToken(t *testing.T, namespace, account string, refusedAfter time.Duration) string {
	t.Helper()
	sa, err := client(t).CoreV1().ServiceAccounts(namespace).Get(t.Context(), account, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(stand.file("sa.key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	const issuer = "https://kubernetes.default.svc"
	now := time.Now()
	claims, err := json.Marshal(map[string]any{
		"iss": issuer, "aud": []string{issuer}, "sub": "system:serviceaccount:" + namespace + ":" + account,
		"iat": now.Add(-time.Hour).Unix(), "nbf": now.Add(-time.Hour).Unix(), "exp": now.Add(refusedAfter - leeway).Unix(),
		"kubernetes.io": map[string]any{"namespace": namespace, "serviceaccount": map[string]any{"name": account, "uid": sa.UID}},
	})
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"ES256"}`)) + "." + encode(claims)
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + encode(signature)
}

// wantRefused waits until the API server refuses a token.
func wantRefused(t *testing.T, token string) {
	t.Helper()
	eventually(t, "the end of a token", func() string {
		review, err := client(t).AuthenticationV1().TokenReviews().Create(t.Context(),
			&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		if review.Status.Authenticated {
			return "it is still good"
		}
		return ""
	})
}

// failures matches failures of discovery in Kubernetes.
var failures = regexp.MustCompile(`(?m)^prometheus_sd_kubernetes_failures_total [1-9]`)

// A token that the kubelet replaces in time ends unnoticed. One that is not replaced is named in the log and counted, the
// endpoints stay, and the next one is used. Each time the API server restarts: a watch that is open outlives its token.
func TestTokenExpires(t *testing.T) {
	const namespace, models = "token", "token-models"
	account := installForDiscovery(t, namespace)
	newNamespace(t, models, "privileged")
	new(output).run(t, "simulate", "--web.listen-address=0.0.0.0:8000")
	scale := func(n int) {
		t.Helper()
		if err := apply(t.Context(), models, deployment(n)); err != nil {
			t.Fatal(err)
		}
	}
	restart := func() {
		t.Helper()
		if err := stand.StopAPIServer(); err != nil {
			t.Fatal(err)
		}
		if err := stand.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	scale(3)
	first := signToken(t, namespace, account, 20*time.Second)
	writeAccount(t, first)
	d := startDaemon(t, fmt.Sprintf(`
global: {interval: 1s}
modules: {interactive: {input_tokens: 16, output_tokens: 2}}
discovery:
  - modules: [interactive]
    kubernetes_sd_configs: [{role: pod, namespaces: {names: [%s]}}]
    relabel_configs: [{source_labels: [__address__], regex: '.+:8000', action: keep}]
`, models))
	d.wantEndpoints(3)
	second := signToken(t, namespace, account, 100*time.Second)
	writeAccount(t, second)
	wantRefused(t, first)
	restart()
	scale(4)
	d.wantEndpoints(4)

	wantRefused(t, second)
	restart()
	eventually(t, "the end of the token in log and metric", func() string {
		if !strings.Contains(d.String(), "Unauthorized") {
			return "the log is " + d.String()
		}
		if !failures.MatchString(d.page()) {
			return "no failures are counted"
		}
		return ""
	})
	d.wantEndpoints(4)
	writeAccount(t, signToken(t, namespace, account, time.Hour))
	scale(5)
	d.wantEndpoints(5)
}
