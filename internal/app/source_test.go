package app

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A file that looks half written is read again until it has not changed for a second,
// and is not loaded as long as it changes.
func TestHalfWrittenFile(t *testing.T) {
	const (
		one   = "endpoints:\n  - {url: http://one.example:8000}\n"
		both  = one + "  - {url: http://two.example:8000}\n"
		three = one + "  - {url: http://three.example:8000}\n"
	)
	for name, c := range map[string]struct {
		active string
		writes []string // each 0.7 s after the one before; the first before the reload
		want   int      // endpoints
		waits  time.Duration
	}{
		"at the start":                      {"", []string{one}, 1, 0},
		"another endpoint":                  {one, []string{both}, 2, 0},
		"the first endpoint removed":        {both, []string{"endpoints:\n  - {url: http://two.example:8000}\n"}, 1, 0},
		"the last endpoint removed":         {both, []string{one}, 1, settled},
		"half of the next file":             {both, []string{one, three}, 2, settled},
		"half of the file again":            {both, []string{one, both}, 2, settled},
		"in the middle of a port":           {both, []string{three[:len(three)-3], three}, 2, settled},
		"no end of line, as before":         {strings.TrimSpace(both), []string{strings.TrimSpace(three)}, 2, 0},
		"no end of line, unlike before":     {both, []string{strings.TrimSpace(three)}, 2, settled},
		"blank lines at the end removed":    {both + "\n\n", []string{both}, 2, 0},
		"written slowly":                    {both, []string{one, one + "  -", one + "  - {url: http", both}, 2, 3 * settled},
		"gone while it was being looked at": {both, []string{one, ""}, 0, 2 * settled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file, s := writeFile(t, "exporter.yml", c.writes[0]), &source{taken: []byte(c.active)}
				go func() {
					for _, text := range c.writes[1:] {
						time.Sleep(settled * 7 / 10)
						if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
							t.Error(err)
						}
					}
				}()
				began := time.Now()
				cfg, err := s.load(file)
				switch {
				case c.want == 0 && err == nil:
					t.Errorf("loaded %d endpoints", len(cfg.Endpoints))
				case c.want > 0 && err != nil:
					t.Error(err)
				case c.want > 0 && len(cfg.Endpoints) != c.want:
					t.Errorf("%d endpoints, want %d", len(cfg.Endpoints), c.want)
				}
				if took := time.Since(began); took != c.waits {
					t.Errorf("took %v, want %v", took, c.waits)
				}
				synctest.Wait()
				time.Sleep(10 * settled)
			})
		})
	}
}

// A file that goes on changing is not loaded, and what was loaded before stays.
func TestFileThatNeverSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const active = "endpoints:\n  - {url: http://one.example:8000}\n  - {url: http://two.example:8000}\n"
		file, s := writeFile(t, "exporter.yml", active[:50]), &source{taken: []byte(active)}
		go func() {
			for i := range 40 {
				time.Sleep(settled * 7 / 10)
				if err := os.WriteFile(file, []byte(active[:20+i%10]), 0o600); err != nil {
					t.Error(err)
				}
			}
		}()
		if _, err := s.load(file); err == nil || !strings.Contains(err.Error(), "is being written") {
			t.Errorf("error %v", err)
		}
		if string(s.taken) != active {
			t.Error("what was loaded is forgotten")
		}
		time.Sleep(30 * settled)
	})
}
