package app

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/internal/store"
)

type stateFlag struct {
	path  string
	given bool
}

func (f *stateFlag) addFlag(c *kingpin.CmdClause) {
	c.Flag("state.path", "Directory in which histories, states and budgets are kept over restarts. Empty: none. Default: $STATE_DIRECTORY, which systemd sets, or inference_exporter in $XDG_STATE_HOME or in ~/.local/state.").
		PlaceHolder("DIRECTORY").IsSetByUser(&f.given).StringVar(&f.path)
}

// dir returns the directory; "" is none.
func (f *stateFlag) dir() string {
	if f.given {
		return f.path
	}
	if dirs := os.Getenv("STATE_DIRECTORY"); dirs != "" {
		first, _, _ := strings.Cut(dirs, string(os.PathListSeparator))
		return first
	}
	if home := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, "inference_exporter")
	}
	// A user without a home, as in a container, has the root directory for one.
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) && filepath.Dir(home) != home {
		return filepath.Join(home, ".local", "state", "inference_exporter")
	}
	return ""
}

// openState takes the directory of the state and gives the parts of the program what is kept there. It comes before the
// endpoints, which go on where an earlier process ended.
func (d *daemon) openState() {
	if d.stateDir == "" || d.probing == nil {
		return
	}
	d.state = store.Open(store.Options{Dir: d.stateDir, Logger: d.env.logger, Now: time.Now, Parts: d.fleet.Parts()})
	if d.state == nil {
		return
	}
	d.self.WatchState(d.state.Stats)
	if !d.state.Loaded().IsZero() {
		d.board.Restarted()
	}
}

// releaseState gives the directory of the state back, as it is.
func (d *daemon) releaseState() {
	if d.state != nil {
		d.state.Release()
	}
}
