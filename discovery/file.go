package discovery

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/common/model"
	promfile "github.com/prometheus/prometheus/discovery/file"
	"github.com/prometheus/prometheus/discovery/targetgroup"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// fileLabel has the file that a target comes from.
const fileLabel = model.MetaLabelPrefix + "filepath"

// fileSource reads lists of targets from files: as Prometheus' own discovery, which
// takes in whatever is there, but within the limits.
type fileSource struct {
	patterns []string
	interval time.Duration
	limits   func() config.Limits
	metrics  *ownMetrics
	logger   *slog.Logger
	groups   map[string]int // how many there are in each file
}

// newFile returns the discovery of files.
func (f *Finder) newFile(c *promfile.SDConfig, logger *slog.Logger) *fileSource {
	return &fileSource{
		patterns: c.Files, interval: time.Duration(c.RefreshInterval), limits: f.limits, metrics: f.own, logger: logger,
	}
}

// Run reads the files when they change, and every interval, until ctx ends.
func (s *fileSource) Run(ctx context.Context, up chan<- []*targetgroup.Group) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		s.metrics.watcherErrors.Inc()
		s.logger.Error("Error adding file watcher", "err", err)
		watcher = &fsnotify.Watcher{} // nothing comes from it; the files are still read every interval
	} else {
		defer watcher.Close()
	}
	defer s.forget()
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	for {
		// First, so that no change is lost. It may fail where a folder is not
		// there yet.
		if err == nil {
			s.watch(watcher)
		}
		if !s.refresh(ctx, up) {
			return
		}
		if !s.wait(ctx, watcher, ticker.C) {
			return
		}
	}
}

// wait returns when the files are to be read again; false is that ctx has ended.
func (s *fileSource) wait(ctx context.Context, watcher *fsnotify.Watcher, tick <-chan time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
			return true
		case event := <-watcher.Events:
			if event.Name != "" && event.Op&^fsnotify.Chmod != 0 {
				return true
			}
		case err := <-watcher.Errors:
			if err != nil {
				s.logger.Error("Error watching file", "err", err)
			}
		}
	}
}

// watch watches the folders of the files.
func (s *fileSource) watch(watcher *fsnotify.Watcher) {
	for _, p := range s.patterns {
		if err := watcher.Add(filepath.Dir(p)); err != nil {
			s.logger.Error("Error adding file watch", "path", p, "err", err)
		}
	}
}

// refresh reads all files. A file that cannot be read keeps its targets, one that
// is gone has none. False is that ctx has ended.
func (s *fileSource) refresh(ctx context.Context, up chan<- []*targetgroup.Group) bool {
	start := time.Now()
	defer func() { s.metrics.scans.Observe(time.Since(start).Seconds()) }()
	found := map[string]int{}
	send := func(groups []*targetgroup.Group) bool {
		select {
		case up <- groups:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for _, file := range s.files() {
		groups, err := s.read(file)
		if err != nil {
			s.metrics.readErrors.Inc()
			s.logger.Error("Error reading file", "path", file, "err", safetext.Line(err.Error(), maxErrorBytes))
			found[file] = s.groups[file]
			continue
		}
		found[file] = len(groups)
		if !send(append(groups, emptied(file, len(groups), s.groups[file])...)) {
			return false
		}
	}
	for file, n := range s.groups {
		if _, ok := found[file]; !ok {
			s.metrics.read.DeleteLabelValues(file)
			if !send(emptied(file, 0, n)) {
				return false
			}
		}
	}
	s.groups = found
	return true
}

// files returns the files that the patterns name, as of now.
func (s *fileSource) files() []string {
	var all []string
	for _, p := range s.patterns {
		files, err := filepath.Glob(p)
		if err != nil {
			s.logger.Error("Error expanding glob", "glob", p, "err", err)
		}
		all = append(all, files...)
	}
	return all
}

// read reads a file. What is no regular file may never end.
func (s *fileSource) read(name string) ([]*targetgroup.Group, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	limits := s.limits()
	switch {
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case info.Size() > int64(limits.DiscoveryBytes):
		return nil, tooLongError{limits.DiscoveryBytes}
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := readBounded(file, limits.DiscoveryBytes)
	if err != nil {
		return nil, err
	}
	l := list{place: name, label: fileLabel, limits: limits}
	groups, err := l.parse(text, !strings.EqualFold(filepath.Ext(name), ".json"))
	if err == nil {
		s.metrics.read.WithLabelValues(name).Set(float64(info.ModTime().Unix()))
	}
	return groups, err
}

// forget takes the files off the metrics.
func (s *fileSource) forget() {
	for file := range s.groups {
		s.metrics.read.DeleteLabelValues(file)
	}
}
