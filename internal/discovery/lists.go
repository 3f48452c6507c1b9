package discovery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/common/model"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	promfile "github.com/prometheus/prometheus/discovery/file"
	promhttp "github.com/prometheus/prometheus/discovery/http"
	"github.com/prometheus/prometheus/discovery/refresh"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// What a list of targets may take of the memory, apart from the limits of the configuration.
const (
	// maxLabelBytes bounds the labels of all targets, those of a group counted for each of its targets.
	maxLabelBytes = 64 << 20
	// maxValues and the values for each target that is allowed bound what a list
	// may have of values before it is parsed, as each takes far more memory then.
	maxValues          = 100_000
	maxValuesPerTarget = 32
)

// listed is a group of targets as it is written.
type listed struct {
	Targets []string       `json:"targets" yaml:"targets"`
	Labels  model.LabelSet `json:"labels"  yaml:"labels"`
}

// list is a list of groups that is being read.
type list struct {
	place  string          // the file or the URL
	label  model.LabelName // of all targets, with the place
	limits config.Limits

	groups              []*targetgroup.Group
	targets, labelBytes int
}

func (l *list) parse(text []byte, isYAML bool) ([]*targetgroup.Group, error) {
	values := bytes.Count(text, []byte(",")) + bytes.Count(text, []byte("\n"))
	if most := maxValues + maxValuesPerTarget*l.limits.DiscoveryTargets; values > most {
		return nil, fmt.Errorf("list has more than %d values", most)
	}
	read := readJSON
	if isYAML {
		read = readYAML
	}
	groups, err := read(text)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if err := l.add(g); err != nil {
			return nil, err
		}
	}
	return l.groups, nil
}

func readYAML(text []byte) (groups []*listed, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&groups); err != nil && !errors.Is(err, io.EOF) { // an empty file has no targets
		return nil, err
	}
	return groups, nil
}

func readJSON(text []byte) (groups []*listed, err error) {
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		return nil, errors.New("want a list of groups of targets")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&groups); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("unexpected data after the list of target groups")
	}
	return groups, nil
}

// add adds a group, unless the list then holds too much.
func (l *list) add(g *listed) error {
	if g == nil {
		return errors.New("target group is null")
	}
	size := 0
	for name, value := range g.Labels {
		size += len(name) + len(value)
	}
	l.targets += len(g.Targets)
	l.labelBytes += size * len(g.Targets)
	switch most := l.limits.DiscoveryTargets; {
	case l.targets > most:
		return tooMany(most)
	case len(l.groups) == most:
		return fmt.Errorf("more than %d groups of targets; see global.limits.discovery_targets", most)
	case l.labelBytes > maxLabelBytes:
		return fmt.Errorf("labels of more than %d MiB for all targets together", maxLabelBytes>>20)
	}
	group := &targetgroup.Group{
		Source:  l.place + ":" + strconv.Itoa(len(l.groups)),
		Labels:  g.Labels,
		Targets: make([]model.LabelSet, len(g.Targets)),
	}
	if group.Labels == nil {
		group.Labels = model.LabelSet{}
	}
	group.Labels[l.label] = model.LabelValue(l.place)
	for i, address := range g.Targets {
		group.Targets[i] = model.LabelSet{model.AddressLabel: model.LabelValue(address)}
	}
	l.groups = append(l.groups, group)
	return nil
}

// tooMany is the error of more targets than are allowed.
func tooMany(most int) error {
	return fmt.Errorf("more than %d targets; see global.limits.discovery_targets", most)
}

// emptied returns groups without targets in place of those of a longer list of before.
func emptied(place string, from, to int) []*targetgroup.Group {
	var gone []*targetgroup.Group
	for i := from; i < to; i++ {
		gone = append(gone, &targetgroup.Group{Source: place + ":" + strconv.Itoa(i)})
	}
	return gone
}

// limited returns the error of reading a list, with the limit that it exceeds.
func limited(err error, limits config.Limits) error {
	if errors.Is(err, foreign.ErrLargeFile) || errors.Is(err, foreign.ErrTooLarge) {
		return fmt.Errorf("more than %s; see global.limits.discovery_bytes", limits.DiscoveryBytes)
	}
	return err
}

// The labels of a target with the file or the URL that it comes from.
const (
	fileLabel = model.MetaLabelPrefix + "filepath"
	urlLabel  = model.MetaLabelPrefix + "url"
)

// fileSource reads lists of targets from files: as Prometheus' own discovery, but within limits.
type fileSource struct {
	*promfile.SDConfig
	finder *Finder
	logger *slog.Logger
	groups map[string]int // how many there are in each file
}

// Run reads the files when they change, and every interval, until ctx ends.
func (s *fileSource) Run(ctx context.Context, up chan<- []*targetgroup.Group) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		s.finder.own.watcherErrors.Inc()
		s.logger.Error("Error adding file watcher", "err", err)
		watcher = &fsnotify.Watcher{} // nothing comes from it; the files are still read every interval
	} else {
		defer watcher.Close()
	}
	defer func() {
		for file := range s.groups {
			s.finder.own.read.DeleteLabelValues(file)
		}
	}()
	ticker := time.NewTicker(time.Duration(s.RefreshInterval))
	defer ticker.Stop()
	for {
		// First, so that no change is lost. It may fail where a folder is not there yet.
		if err == nil {
			s.watch(watcher)
		}
		if !s.refresh(ctx, up) || !s.wait(ctx, watcher, ticker.C) {
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

func (s *fileSource) watch(watcher *fsnotify.Watcher) {
	for _, p := range s.Files {
		if err := watcher.Add(filepath.Dir(p)); err != nil {
			s.logger.Error("Error adding file watch", "path", p, "err", err)
		}
	}
}

// refresh reads all files. A file that cannot be read keeps its targets, one that
// is gone has none. False is that ctx has ended.
func (s *fileSource) refresh(ctx context.Context, up chan<- []*targetgroup.Group) bool {
	start := time.Now()
	defer func() { s.finder.own.scans.Observe(time.Since(start).Seconds()) }()
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
			s.finder.own.readErrors.Inc()
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
			s.finder.own.read.DeleteLabelValues(file)
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
	for _, p := range s.Files {
		files, err := filepath.Glob(p)
		if err != nil {
			s.logger.Error("Error expanding glob", "glob", p, "err", err)
		}
		all = append(all, files...)
	}
	return all
}

func (s *fileSource) read(name string) ([]*targetgroup.Group, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	limits := s.finder.limits()
	text, err := foreign.ReadFile(name, int64(limits.DiscoveryBytes))
	if err != nil {
		return nil, limited(err, limits)
	}
	l := list{place: name, label: fileLabel, limits: limits}
	groups, err := l.parse(text, !strings.EqualFold(filepath.Ext(name), ".json"))
	if err == nil {
		s.finder.own.read.WithLabelValues(name).Set(float64(info.ModTime().Unix()))
	}
	return groups, err
}

// maxErrorBytes bounds the text of an error, part of which a server writes.
const maxErrorBytes = 512

// httpSource asks a URL for a list of targets: as Prometheus' own discovery, but within limits.
type httpSource struct {
	*promhttp.SDConfig
	finder *Finder
	client *http.Client
	groups int // of the latest list
}

// newHTTP returns the discovery of a URL.
func (f *Finder) newHTTP(c *promhttp.SDConfig, name string, logger *slog.Logger) (promdiscovery.Discoverer, error) {
	interval := time.Duration(c.RefreshInterval)
	// The bytes of a list are limited where it is read.
	client, err := foreign.Limits{Time: interval}.Client(&c.HTTPClientConfig, "http")
	if err != nil {
		return nil, err
	}
	s := &httpSource{SDConfig: c, finder: f, client: client}
	return refresh.NewDiscovery(refresh.Options{
		Logger: logger, Mech: c.Name(), SetName: name, Interval: interval, RefreshF: s.refresh, MetricsInstantiator: f.metrics.RefreshManager,
	}), nil
}

// refresh returns the groups of now, and empty ones for those that are gone.
func (s *httpSource) refresh(ctx context.Context) ([]*targetgroup.Group, error) {
	groups, err := s.fetch(ctx)
	if err != nil {
		s.finder.own.httpFailures.Inc()
		return nil, errors.New(safetext.Line(err.Error(), maxErrorBytes))
	}
	n := len(groups)
	groups = append(groups, emptied(s.URL, n, s.groups)...)
	s.groups = n
	return groups, nil
}

func (s *httpSource) fetch(ctx context.Context) ([]*targetgroup.Group, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", s.finder.options.UserAgent)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("X-Prometheus-Refresh-Interval-Seconds", strconv.FormatFloat(time.Duration(s.RefreshInterval).Seconds(), 'f', -1, 64))
	resp, err := s.client.Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL, which may be one that a redirect names
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s for targets: %w", req.URL.Host, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("server returned HTTP status %s", resp.Status)
	}
	if !isJSON(resp.Header.Get("Content-Type")) {
		return nil, fmt.Errorf("unsupported content type %q", resp.Header.Get("Content-Type"))
	}
	limits := s.finder.limits()
	text, err := foreign.ReadAll(resp.Body, int64(limits.DiscoveryBytes))
	if err != nil {
		return nil, fmt.Errorf("read the reply: %w", limited(err, limits))
	}
	l := list{place: s.URL, label: urlLabel, limits: limits}
	groups, err := l.parse(text, false)
	if err != nil {
		return nil, fmt.Errorf("read the list of targets: %w", err)
	}
	return groups, nil
}

// isJSON reports whether a content type is JSON, in UTF-8 where it names a character set.
func isJSON(contentType string) bool {
	media, params, err := mime.ParseMediaType(contentType)
	charset, named := params["charset"]
	return err == nil && media == "application/json" && (!named || strings.EqualFold(charset, "utf-8"))
}
