package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// eventually waits until look finds nothing that is missing.
func eventually(t *testing.T, what string, look func() (missing string)) {
	t.Helper()
	within(t, patience, what, look)
}

func within(t *testing.T, most time.Duration, what string, look func() (missing string)) {
	t.Helper()
	missing := ""
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if missing = look(); missing == "" {
			return
		}
	}
	t.Fatalf("waited in vain for %s: %s", what, missing)
}

// output is what a process wrote.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// run starts the program until the end of the test.
func (o *output) run(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return o.start(t, exec.Command(exporter, args...))
}

func (o *output) start(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	if exporter == "" {
		t.Skip("EXPORTER names no program: run tools/cluster/check.sh")
	}
	cmd.Stdout, cmd.Stderr = o, o
	cmd.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST=127.0.0.1", fmt.Sprintf("KUBERNETES_SERVICE_PORT=%d", stand.port)) // as in a pod
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// daemon is the exporter with discovery in the cluster.
type daemon struct {
	*output
	t    *testing.T
	base string
	cmd  *exec.Cmd
}

func startDaemon(t *testing.T, config string, args ...string) *daemon {
	t.Helper()
	return startDaemonOn(t, "", config, args...)
}

// startDaemonOn starts it with the name of a host of its own.
func startDaemonOn(t *testing.T, host, config string, args ...string) *daemon {
	t.Helper()
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "exporter.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &daemon{output: new(output), t: t, base: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}
	args = append(args, "--config.file="+file, "--no-collector.server", "--no-collector.gpu", "--state.path=", strings.Replace(d.base, "http://", "--web.listen-address=", 1))
	cmd := exec.Command(exporter, args...)
	if host != "" {
		cmd = exec.Command("unshare", append([]string{"--uts", "sh", "-c", `hostname "$0" && exec "$@"`, host, exporter}, args...)...)
	}
	d.cmd = d.start(t, cmd)
	return d
}

// page returns the page of metrics; "" where it is not there yet.
func (d *daemon) page() string {
	resp, err := http.Get(d.base + "/metrics")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}

var (
	infoLine    = regexp.MustCompile(`(?m)^inference_endpoint_info\{[^}]*\bendpoint="([^"]+)"`)
	successLine = regexp.MustCompile(`(?m)^inference_probe_results_total\{[^}]*\bendpoint="([^"]+)"[^}]*outcome="success"[^}]*\} [1-9]`)
)

// endpoints returns the names of the endpoints, and of those of them that a probe of succeeded.
func (d *daemon) endpoints() (all, good []string) {
	page := d.page()
	names := func(line *regexp.Regexp) (names []string) {
		for _, m := range line.FindAllStringSubmatch(page, -1) {
			names = append(names, m[1])
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	return names(infoLine), names(successLine)
}

func (d *daemon) wantEndpoints(n int) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("%d endpoints", n), func() string {
		if all, good := d.endpoints(); len(all) != n || len(good) != n {
			return fmt.Sprintf("%d, %d of them with a good probe; the log:\n%.2000s", len(all), len(good), d)
		}
		return ""
	})
}

// discoveryConfig is a configuration with the pods of a namespace, as the account of a token sees them.
func discoveryConfig(t *testing.T, token, role, namespace string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`
global: {interval: 1s}
modules: {interactive: {input_tokens: 16, output_tokens: 2}}
discovery:
  - modules: [interactive]
    kubernetes_sd_configs:
      - role: %s
        api_server: %s
        authorization: {credentials_file: %s}
        tls_config: {ca_file: %s}
        namespaces: {names: [%s]}
    relabel_configs:
      - {source_labels: [__address__], regex: '.+:8000', action: keep}
`, role, stand.Admin.Host, file, stand.CA, namespace)
}

// tokenOf returns a token of a service account.
func tokenOf(t *testing.T, namespace, account string) string {
	t.Helper()
	seconds := int64(3600)
	request, err := client(t).CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// installForDiscovery installs the chart with rights for discovery, and returns the name of its account.
func installForDiscovery(t *testing.T, namespace string) string {
	t.Helper()
	newNamespace(t, namespace, "restricted")
	chart, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(helm(t, namespace))
	install.ReleaseName, install.Namespace = "watch", namespace
	_, err = install.RunWithContext(t.Context(), chart, map[string]any{
		"config":    map[string]any{"endpoints": []any{map[string]any{"url": "http://a"}}},
		"discovery": map[string]any{"enabled": true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := action.NewUninstall(helm(t, namespace)).Run("watch"); err != nil {
			t.Error(err)
		}
	})
	return "watch-inference-exporter"
}

// deployment is a server with a number of replicas, and its Service.
func deployment(replicas int) []byte {
	return fmt.Appendf(nil, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm}
spec:
  replicas: %d
  selector: {matchLabels: {app: vllm}}
  template:
    metadata: {labels: {app: vllm}}
    spec:
      containers: [{name: vllm, image: "vllm:1", ports: [{containerPort: 8000, name: http}]}]
---
apiVersion: v1
kind: Service
metadata: {name: vllm}
spec:
  selector: {app: vllm}
  ports: [{port: 8000, name: http}]
`, replicas)
}

// The account of the chart may do what discovery does, and nothing else.
func TestRoleIsWhatDiscoveryNeeds(t *testing.T) {
	const namespace = "role"
	account := "system:serviceaccount:" + namespace + ":" + installForDiscovery(t, namespace)
	may := func(verb, group, resource string) bool {
		t.Helper()
		review, err := client(t).AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: account, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "default", Verb: verb, Group: group, Resource: resource},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	needed := map[string]string{"pods": "", "services": "", "endpointslices": "discovery.k8s.io"}
	for resource, group := range needed {
		for _, verb := range []string{"get", "list", "watch"} {
			if !may(verb, group, resource) {
				t.Errorf("may not %s %s", verb, resource)
			}
		}
		for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
			if may(verb, group, resource) {
				t.Errorf("may %s %s", verb, resource)
			}
		}
	}
	for _, resource := range []string{"secrets", "configmaps", "nodes", "namespaces", "serviceaccounts"} {
		for _, verb := range []string{"get", "list", "create"} {
			if may(verb, "", resource) {
				t.Errorf("may %s %s", verb, resource)
			}
		}
	}
}

// Pods come and go, the API server restarts and cuts every watch: each pod that is there is probed, under one name.
func TestDiscovery(t *testing.T) {
	const namespace = "discovered"
	account := installForDiscovery(t, namespace)
	const models = "discovered-models"
	newNamespace(t, models, "privileged")
	new(output).run(t, "simulate", "--web.listen-address=0.0.0.0:8000")
	scale := func(n int) {
		t.Helper()
		if err := apply(t.Context(), models, deployment(n)); err != nil {
			t.Fatal(err)
		}
	}
	scale(3)
	token := tokenOf(t, namespace, account)
	pods := startDaemon(t, discoveryConfig(t, token, "pod", models))
	slices := startDaemon(t, discoveryConfig(t, token, "endpointslice", models))
	want := func(n int) {
		t.Helper()
		pods.wantEndpoints(n)
		slices.wantEndpoints(n)
	}
	want(3)
	scale(0)
	want(0)
	scale(3)
	want(3)
	if err := stand.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	if all, _ := pods.endpoints(); len(all) != 3 {
		t.Errorf("%d endpoints without the API server, want 3", len(all))
	}
	if err := stand.StartAPIServer(context.Background()); err != nil {
		t.Fatal(err)
	}
	scale(5)
	want(5)
}

// Rights that lack a verb are named in the log, which is that of the exporter. (The verb list alone is not missed: the
// client lists by a watch.)
func TestDiscoveryWithoutRights(t *testing.T) {
	const namespace = "no-rights"
	newNamespace(t, namespace, "restricted")
	text := `
apiVersion: v1
kind: ServiceAccount
metadata: {name: few}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: few}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: few}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: few}
subjects: [{kind: ServiceAccount, name: few}]
`
	if err := apply(t.Context(), namespace, []byte(text)); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, discoveryConfig(t, tokenOf(t, namespace, "few"), "pod", namespace))
	eventually(t, "a log line that names the verb", func() string {
		if log := d.String(); !strings.Contains(log, "cannot watch resource") || strings.Contains(log, "\nE") {
			return "the log is " + log
		}
		return ""
	})
}
