// Package stand runs the real exporter against simulated servers, and real
// Prometheus servers that scrape it, on this machine.
package stand

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
)

// Stand is three exporters: two that probe the same endpoints, as two probers
// of a fleet do, and the demo, which has GPUs.
type Stand struct {
	servers   *servers
	dir       string
	exporters []*Exporter
	closers   []func() error
}

// Start starts the servers and the exporters.
func Start(ctx context.Context) (_ *Stand, err error) {
	dir, err := os.MkdirTemp("", "stand")
	if err != nil {
		return nil, err
	}
	s := &Stand{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	var config string
	if s.servers, config, err = startServers(ctx); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, configName), []byte(config), 0o600); err != nil {
		return nil, err
	}
	const free = "127.0.0.1:0"
	for _, args := range [][]string{serveArgs(dir, free), serveArgs(dir, free), {"demo", "--log.level=error"}} {
		e, err := StartExporter(ctx, args...)
		if err != nil {
			return nil, err
		}
		s.exporters = append(s.exporters, e)
	}
	return s, nil
}

// Targets returns the exporters.
func (s *Stand) Targets() []Target {
	all := make([]Target, len(s.exporters))
	for i, e := range s.exporters {
		all[i] = Target{Address: e.Address, Instance: e.Address}
	}
	return all
}

// Renamed returns servers that show the pages of the exporters with one metric
// renamed.
func (s *Stand) Renamed(from, to string) []Target {
	all := s.Targets()
	for i := range all {
		front := NewRenamer(all[i].Address, from, to)
		s.closers = append(s.closers, closer(front))
		all[i].Address = front.Listener.Addr().String()
	}
	return all
}

func closer(s *httptest.Server) func() error {
	return func() error {
		s.Close()
		return nil
	}
}

// Restart ends the second exporter and starts it again at the same address, so
// that its counters begin at 0 again.
func (s *Stand) Restart(ctx context.Context) error {
	e := s.exporters[1]
	s.exporters = slices.Delete(s.exporters, 1, 2)
	if err := e.Close(); err != nil {
		return fmt.Errorf("restart an exporter: %w", err)
	}
	e, err := StartExporter(ctx, serveArgs(s.dir, e.Address)...)
	if err != nil {
		return fmt.Errorf("restart an exporter: %w", err)
	}
	s.exporters = slices.Insert(s.exporters, 1, e)
	return nil
}

// configName is the name of the exporters' configuration in the directory of a
// stand.
const configName = "exporter.yml"

func serveArgs(dir, address string) []string {
	return []string{
		"serve", "--config.file=" + filepath.Join(dir, configName), "--web.listen-address=" + address,
		"--no-collector.gpu", "--state.path=", "--log.level=error",
	}
}

// Close ends all that Start started.
func (s *Stand) Close() error {
	var problems []error
	for _, c := range s.closers {
		problems = append(problems, c())
	}
	for _, e := range s.exporters {
		problems = append(problems, e.Close())
	}
	if s.servers != nil {
		s.servers.Close()
	}
	return errors.Join(append(problems, os.RemoveAll(s.dir))...)
}
