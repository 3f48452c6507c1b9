package prove

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/internal/app"
	"github.com/inference-exporter/inference_exporter/tools/lab/prove/stand"
)

// stackDir is the example stack, as this test sees it.
const stackDir = "../../../examples/stack"

func inStack(name string) string { return filepath.Join(stackDir, name) }

// mustRun runs a program that must succeed, and returns what it prints.
func mustRun(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// TestStackPrometheus checks the configuration as it is, and with the other setting
// that its comment describes.
func TestStackPrometheus(t *testing.T) {
	promtool := tool(t, "promtool")
	mustRun(t, promtool, "check", "config", inStack("prometheus.yml"))
	text, err := os.ReadFile(inStack("prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	alerts, err := filepath.Abs("../../../alerts")
	if err != nil {
		t.Fatal(err)
	}
	const native = "scrape_native_histograms: "
	if !strings.Contains(string(text), native+"true") {
		t.Fatalf("no %strue", native)
	}
	other := strings.NewReplacer(native+"true", native+"false", "../../alerts", alerts).Replace(string(text))
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	mustRun(t, promtool, "check", "config", file)
}

func TestStackExporter(t *testing.T) {
	var out bytes.Buffer
	o := app.Options{Stdout: io.Discard, Stderr: &out}
	if code := app.Run(t.Context(), []string{"check", "--config.file=" + inStack("exporter.yml")}, o); code != 0 {
		t.Errorf("exit code %d: %s", code, &out)
	}
}

// compose is a compose file, as far as it goes here.
type compose struct {
	Name      string              `yaml:"name"`
	Simulated yaml.Node           `yaml:"x-simulated"`
	Services  map[string]*service `yaml:"services"`
	Volumes   map[string]any      `yaml:"volumes"`
}

type service struct {
	Image       string            `yaml:"image"`
	PullPolicy  string            `yaml:"pull_policy"`
	Build       string            `yaml:"build"`
	DependsOn   []string          `yaml:"depends_on"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	VolumesUsed []string          `yaml:"volumes"`
	Ports       []string          `yaml:"ports"`
	ReadOnly    bool              `yaml:"read_only"`
	CapDrop     []string          `yaml:"cap_drop"`
	SecurityOpt []string          `yaml:"security_opt"`
}

func readCompose(t *testing.T) *compose {
	t.Helper()
	var c compose
	decodeStrictly(t, inStack("docker-compose.yml"), &c)
	return &c
}

// decodeStrictly reads a YAML file that has no key that v has not.
func decodeStrictly(t *testing.T, name string, v any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestStackCompose looks for what the services name: files, volumes, each other.
func TestStackCompose(t *testing.T) {
	c := readCompose(t)
	for name, s := range c.Services {
		if s.Image == "" || strings.HasSuffix(s.Image, ":latest") || !strings.Contains(s.Image, ":") {
			t.Errorf("%s: image %q has no version", name, s.Image)
		}
		for _, v := range s.VolumesUsed {
			from, _, _ := strings.Cut(v, ":")
			if _, named := c.Volumes[from]; named {
				continue
			}
			if _, err := os.Stat(inStack(from)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, other := range s.DependsOn {
			if c.Services[other] == nil {
				t.Errorf("%s depends on %s, which is no service", name, other)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s is open to other machines", name, p)
			}
		}
	}
	home := c.Services["grafana"].Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	if _, err := os.Stat(filepath.Join("../../../dashboards", filepath.Base(home))); err != nil {
		t.Error(err)
	}
}

// TestStackAddresses looks for each address of the configurations among the
// services.
func TestStackAddresses(t *testing.T) {
	c := readCompose(t)
	for _, name := range []string{"prometheus.yml", "exporter.yml", "grafana/datasources/prometheus.yml"} {
		text, err := os.ReadFile(inStack(name))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for host := range c.Services {
			if bytes.Contains(text, []byte(host+":")) {
				found++
			}
		}
		if found == 0 {
			t.Errorf("%s names no service", name)
		}
	}
}

// TestStackServers starts each simulated server of the stack with the arguments
// that it has there.
func TestStackServers(t *testing.T) {
	started := 0
	for name, s := range readCompose(t).Services {
		if len(s.Command) == 0 || s.Command[0] != "simulate" {
			continue
		}
		args := slices.Clone(s.Command)
		if i := slices.Index(args, "--web.listen-address=:8000"); i >= 0 {
			args[i] = "--web.listen-address=127.0.0.1:0"
		}
		e, err := stand.StartExporter(t.Context(), args...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		closeAtEnd(t, e.Close)
		started++
	}
	if started != 3 {
		t.Errorf("%d servers started, want 3", started)
	}
}

func TestStackGrafana(t *testing.T) {
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool              `yaml:"isDefault"`
			JSONData                     map[string]string `yaml:"jsonData"`
		}
	}
	decodeStrictly(t, inStack("grafana/datasources/prometheus.yml"), &sources)
	if sources.APIVersion != 1 || len(sources.Datasources) != 1 || !sources.Datasources[0].IsDefault {
		t.Errorf("%+v", sources)
	}
	var providers struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Folder, Type    string
			AllowUIUpdates        bool `yaml:"allowUiUpdates"`
			UpdateIntervalSeconds int  `yaml:"updateIntervalSeconds"`
			Options               struct{ Path string }
		}
	}
	decodeStrictly(t, inStack("grafana/dashboards/inference.yml"), &providers)
	if providers.APIVersion != 1 || len(providers.Providers) != 1 {
		t.Fatalf("%+v", providers)
	}
	path := providers.Providers[0].Options.Path
	mounted := slices.ContainsFunc(readCompose(t).Services["grafana"].VolumesUsed, func(v string) bool {
		return strings.HasPrefix(v, "../../dashboards:"+path)
	})
	if !mounted {
		t.Errorf("dashboards are not where Grafana looks for them: %s", path)
	}
}

// TestStackScript looks for what the script replaces in the configuration of
// Prometheus.
func TestStackScript(t *testing.T) {
	mustRun(t, "bash", "-n", inStack("run.sh"))
	text, err := os.ReadFile(inStack("prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []string{"exporter:10115", "../../alerts", "\nalerting:", "alertmanager:9093]\n"} {
		if strings.Count(string(text), wanted) == 0 {
			t.Errorf("no %q to replace", wanted)
		}
	}
}
