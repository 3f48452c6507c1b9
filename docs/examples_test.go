package docs

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/inference-exporter/inference_exporter/config"
)

// TestExamples loads every block of YAML that is a whole configuration, or a
// whole file for the listener.
func TestExamples(t *testing.T) {
	found := map[string]int{}
	for _, name := range pages(t) {
		for i, block := range yamlBlocks(read(t, name)) {
			kind := kindOf(block)
			found[kind]++
			if err := load(t, kind, block); err != nil {
				t.Errorf("%s, block %d of YAML: %v\n%s", name, i+1, err, block)
			}
		}
	}
	if found["config"] < 40 || found["web"] < 1 {
		t.Errorf("found %v", found)
	}
}

// yamlBlocks returns the blocks of a page that are marked as YAML.
func yamlBlocks(page string) []string {
	var all []string
	parts := strings.Split(page, "\n```yaml\n")
	for _, part := range parts[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		all = append(all, block+"\n")
	}
	return all
}

// kindOf returns what a block is, by its first key.
func kindOf(block string) string {
	key, _, _ := strings.Cut(block, ":")
	if strings.Contains(block, "scrape_configs:") {
		return "prometheus"
	}
	switch key {
	case "tls_server_config":
		return "web"
	case "endpoints", "discovery", "modules", "global", "engines", "gateways", "gateway_mappings":
		return "config"
	}
	return "part"
}

// hasEndpoints reports whether a configuration says whom to probe.
var hasEndpoints = regexp.MustCompile(`(?m)^(endpoints|discovery):`)

// variables are those whose values a file takes from the environment.
var variables = regexp.MustCompile(`\$\{([A-Z_]+)\}`)

func load(t *testing.T, kind, block string) error {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, "file.yml")
	write(t, name, block)
	switch kind {
	case "config":
		if !hasEndpoints.MatchString(block) {
			write(t, name, block+"endpoints: [{url: http://vllm.internal:8000}]\n")
		}
		for _, name := range variables.FindAllStringSubmatch(block, -1) {
			t.Setenv(name[1], "key")
		}
		write(t, filepath.Join(dir, "other.key"), "key")
		write(t, filepath.Join(dir, "prompts.jsonl"), `{"prompt": "What is 17 + 25?", "expected": "42"}`+"\n")
		write(t, filepath.Join(dir, "arrivals.csv"), read(t, "../examples/arrivals.csv"))
		_, err := config.Load(name, "")
		if err != nil && strings.Contains(err.Error(), "; the container image and the releases") {
			return nil // TestExamples with the tags of a release loads it
		}
		return err
	case "web":
		writeCertificate(t, dir)
		return toolkit.Validate(name)
	}
	return nil
}

// writeCertificate writes exporter.crt and exporter.key: those of a test server.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "exporter.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})))
	write(t, filepath.Join(dir, "exporter.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
}
