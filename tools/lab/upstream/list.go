package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"
)

// version is what one version of a repository shows. The newest of a repository has all of its names, an older one those that no
// newer one in the list has: the names that were dropped.
type version struct {
	Repository string   `yaml:"repository"`
	Version    string   `yaml:"version"`           // a tag, or main
	Commit     string   `yaml:"commit,omitempty"`  // 40 hexadecimal digits
	Package    string   `yaml:"package,omitempty"` // that was read where the commit is not known, with its version
	Date       string   `yaml:"date,omitempty"`    // of the commit or the package, where it is known
	Read       string   `yaml:"read"`              // the day on which this tool did
	Metrics    []metric `yaml:"metrics"`
}

// metric is what a source says of one name.
type metric struct {
	Name   string   `yaml:"name"`
	Type   string   `yaml:"type,omitempty"`
	Labels []string `yaml:"labels,omitempty,flow"` // those that are written out where the name is
	Unit   string   `yaml:"unit,omitempty"`
}

// add adds what another place of the source says of the same name.
func (m *metric) add(o metric) {
	m.Type, m.Unit = cmp.Or(m.Type, o.Type), cmp.Or(m.Unit, o.Unit)
	m.Labels = slices.Compact(slices.Sorted(slices.Values(slices.Concat(m.Labels, o.Labels))))
}

// join adds a version to those that were read, or what another row found in it to one of them.
func join(read []version, v version) []version {
	i := slices.IndexFunc(read, func(r version) bool { return r.Repository == v.Repository && r.Version == v.Version })
	if i < 0 {
		return append(read, v)
	}
	byName := map[string]*metric{}
	for _, m := range slices.Concat(read[i].Metrics, v.Metrics) {
		byName[m.Name] = &m
	}
	read[i].Metrics = sorted(byName)
	return read
}

func sorted(byName map[string]*metric) []metric {
	var all []metric
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, *byName[name])
	}
	return all
}

// update writes versions into a list, in place of the same ones in it.
func update(file string, read []version) error {
	old, err := load(file)
	if err != nil {
		return err
	}
	return save(file, merge(old, read))
}

// merge returns versions by repository, newest first, the read ones in place of old ones.
func merge(old, read []version) []version {
	all := slices.Clone(read)
	for _, v := range old {
		if !slices.ContainsFunc(read, func(r version) bool { return r.Repository == v.Repository && r.Version == v.Version }) {
			all = append(all, v)
		}
	}
	slices.SortStableFunc(all, func(a, b version) int {
		return cmp.Or(cmp.Compare(a.Repository, b.Repository), slices.Compare(numbers(b.Version), numbers(a.Version)))
	})
	var merged []version
	var seen map[string]bool
	released := false
	for _, v := range all {
		newest := len(merged) == 0 || merged[len(merged)-1].Repository != v.Repository
		if newest {
			seen, released = map[string]bool{}, false
		}
		v.Metrics = slices.DeleteFunc(slices.Clone(v.Metrics), func(m metric) bool { return seen[m.Name] })
		for _, m := range v.Metrics {
			seen[m.Name] = true
		}
		if newest || len(v.Metrics) > 0 || !released && v.Version != mainBranch {
			merged = append(merged, v)
		}
		released = released || v.Version != mainBranch
	}
	return merged
}

// numbers returns those in a version, by which versions are ordered. The branch comes after all releases.
func numbers(version string) []int {
	if version == mainBranch {
		return []int{math.MaxInt}
	}
	var all []int
	for _, digits := range regexp.MustCompile(`\d+`).FindAllString(version, -1) {
		n, _ := strconv.Atoi(digits)
		all = append(all, n)
	}
	return all
}

func load(file string) ([]version, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var versions []version
	return versions, yaml.Unmarshal(text, &versions)
}

const head = "# What the source defines of the names on these pages. Written by tools/lab/upstream; do not edit.\n"

// save writes a list with a line for each metric.
func save(file string, versions []version) error {
	var list yaml.Node
	if err := list.Encode(versions); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	for _, v := range list.Content {
		if metrics := v.Content[len(v.Content)-1]; len(metrics.Content) == 0 {
			metrics.Style = yaml.FlowStyle
		} else {
			for _, m := range metrics.Content {
				m.Style = yaml.FlowStyle
			}
		}
	}
	var text bytes.Buffer
	text.WriteString(head)
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	if err := e.Encode(&list); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, oneLine(text.Bytes()), 0o644)
}

// oneLine puts back together the lines of a metric that the encoder folded.
func oneLine(text []byte) []byte {
	return regexp.MustCompile(`\n {8,}`).ReplaceAll(text, []byte(" "))
}
