package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// stack reads the compose file as docker compose does.
func stack(t *testing.T) *types.Project {
	t.Helper()
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  stackDir,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(stackDir, "docker-compose.yml")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// The compose file is one by the specification, its files are there, and the
// containers of this project have no more rights than they need.
func TestCompose(t *testing.T) {
	var ours int
	for name, s := range stack(t).Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
				t.Errorf("%s: %s: read-only %v, %v", name, v.Source, v.ReadOnly, err)
			}
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %d is open to the network", name, p.Target)
			}
		}
		if s.Image != "inference_exporter:stack" {
			continue
		}
		ours++
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) {
			t.Errorf("%s: read-only %v, dropped %v, %v", name, s.ReadOnly, s.CapDrop, s.SecurityOpt)
		}
	}
	if ours != 4 {
		t.Errorf("%d containers of this project, want the exporter and three servers", ours)
	}
}

// The units are right in the eyes of systemd, which also says how much of the
// machine they leave open: in tenths, 0 is nothing and 100 is all.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("NOT CHECKED: no systemd-analyze; apt-get install systemd")
	}
	for name, c := range map[string]struct {
		dropIns   []string
		threshold string
	}{
		"service":           {nil, "11"},
		"service with GPUs": {[]string{"gpu.conf"}, "15"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			unit := filepath.Join(dir, "inference_exporter.service")
			copyUnit(t, "inference_exporter.service", unit)
			for _, d := range c.dropIns {
				copyUnit(t, d, filepath.Join(unit+".d", d))
			}
			systemd(t, dir, analyze, "verify", unit)
			systemd(t, dir, analyze, "security", "--offline=true", "--threshold="+c.threshold, unit)
		})
	}
}

// copyUnit copies a unit with the program of the machine that the test runs on:
// the exporter is not installed there.
func copyUnit(t *testing.T, name, to string) {
	t.Helper()
	text := readFile(t, systemdDir, name)
	if !strings.Contains(text, "ExecStart=inference_exporter ") {
		t.Fatalf("%s does not start the exporter", name)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	text = strings.ReplaceAll(text, "ExecStart=inference_exporter ", "ExecStart=/bin/true ")
	if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func systemd(t *testing.T, dir, analyze string, args ...string) {
	t.Helper()
	command := exec.Command(analyze, args...)
	command.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
	out, err := command.CombinedOutput()
	if err != nil || args[0] == "verify" && strings.Contains(string(out), filepath.Base(args[len(args)-1])) {
		t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
	}
	if lines := strings.Split(strings.TrimSpace(string(out)), "\n"); args[0] == "security" {
		t.Log(lines[len(lines)-1])
	}
}
