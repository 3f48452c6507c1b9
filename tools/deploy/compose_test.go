package deploy

import (
	"os"
	"path/filepath"
	"slices"
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
