package page

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// upstreamVersion is a version of what shows a page, as tools/lab/upstream read it from its source. The newest of a repository has
// all names, an older one those that no newer one has.
type upstreamVersion struct {
	Repository string           `yaml:"repository"`
	Version    string           `yaml:"version"`
	Commit     string           `yaml:"commit"`
	Package    string           `yaml:"package"`
	Date       string           `yaml:"date"`
	Read       string           `yaml:"read"`
	Metrics    []upstreamMetric `yaml:"metrics"`

	newest bool // of its repository
}

type upstreamMetric struct {
	Name   string   `yaml:"name"`
	Type   string   `yaml:"type"`
	Labels []string `yaml:"labels"`
	Unit   string   `yaml:"unit"`
}

// upstream returns the list of a mapping; none where there is no source to read.
func upstream(t *testing.T, mapping string) []upstreamVersion {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "upstream", mapping+".yml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	var versions []upstreamVersion
	if err := yaml.Unmarshal(text, &versions); err != nil {
		t.Fatalf("%s: %v", mapping, err)
	}
	for i := range versions {
		versions[i].newest = i == 0 || versions[i-1].Repository != versions[i].Repository
	}
	return versions
}

// bare returns a name without what differs between the ways to write it.
func bare(name string) string { return strings.TrimSuffix(plain(name), "_total") }

// namesUpstream returns the version that has each name: the newest one of them. A distribution has its parts too.
func namesUpstream(versions []upstreamVersion) map[string]*upstreamVersion {
	names := map[string]*upstreamVersion{}
	add := func(newest bool) {
		for i := range slices.Backward(versions) { // newer ones of a repository come first
			v := &versions[i]
			if v.newest != newest {
				continue
			}
			for _, m := range v.Metrics {
				names[bare(m.Name)] = v
				if m.Type == "histogram" || m.Type == "summary" || m.Type == "" {
					for _, part := range []string{"_sum", "_count", "_bucket"} {
						names[plain(m.Name)+part] = v
					}
				}
			}
		}
	}
	add(false)
	add(true) // what a repository has now is not what another one dropped
	return names
}

// namesMet returns the names on the pages of a role that a real server showed.
func namesMet(t *testing.T, role Role) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "pages", string(role), "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	names := map[string]bool{}
	first := regexp.MustCompile(`(?m)^[A-Za-z_:][\w:]*`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(strings.ToLower(string(text)), "# composed ") {
			continue
		}
		for _, name := range first.FindAllString(string(text), -1) {
			names[bare(name)] = true
			for _, part := range []string{"_sum", "_count", "_bucket"} {
				names[bare(strings.TrimSuffix(name, part))] = true
			}
		}
	}
	return names
}

// seriesRead returns the names in a mapping's file: those of all series, and those that its page is known by.
func seriesRead(t *testing.T, text []byte) []string {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		for i, c := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 1 {
				switch key := n.Content[i-1].Value; {
				case (key == "series" || key == "sum" || key == "count") && c.Kind == yaml.ScalarNode:
					names[c.Value] = true
				case key == "sentinels":
					for _, s := range c.Content {
						names[s.Value] = true
					}
				}
			}
			walk(c)
		}
	}
	walk(&doc)
	return slices.Sorted(maps.Keys(names))
}

// unlisted is why names of a mapping are in no list.
type unlisted struct {
	Mapping string   `yaml:"mapping"`
	Series  []string `yaml:"series"` // none: all
	Reason  string   `yaml:"reason"`
	Date    string   `yaml:"date"`
}

func allUnlisted(t *testing.T) []unlisted {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "unlisted.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var all []unlisted
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, u := range all {
		if u.Mapping == "" || u.Reason == "" || !regexp.MustCompile(`^\d{4}-\d\d-\d\d$`).MatchString(u.Date) {
			t.Errorf("unlisted.yml: %+v has no mapping, reason or date", u)
		}
	}
	return all
}

// unknownNames returns those that are in no list and on no page of a real server.
func unknownNames(names []string, listed map[string]*upstreamVersion, met map[string]bool) (unknown []string) {
	for _, name := range names {
		if listed[bare(name)] == nil && !met[bare(name)] {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// Each name that a built-in mapping reads is defined in a version of the source of what shows it, or a real server showed it.
func TestNamesAreUpstreams(t *testing.T) {
	exceptions := allUnlisted(t)
	used := map[int]bool{}
	for role, all := range builtIn() {
		met := namesMet(t, role)
		for name := range all {
			text, err := builtInFiles.ReadFile("mappings/" + string(role) + "/" + name + ".yml")
			if err != nil {
				t.Fatal(err)
			}
			for _, series := range unknownNames(seriesRead(t, text), namesUpstream(upstream(t, name)), met) {
				i := slices.IndexFunc(exceptions, func(u unlisted) bool {
					return u.Mapping == string(role)+"/"+name && (len(u.Series) == 0 || slices.Contains(u.Series, series))
				})
				if used[i] = true; i < 0 {
					t.Errorf("mappings/%s/%s.yml: %s is in no version of testdata/upstream/%[2]s.yml and on no page of a real server", role, name, series)
				}
			}
		}
	}
	for i, u := range exceptions {
		if !used[i] {
			t.Errorf("unlisted.yml: nothing of %s needs %v", u.Mapping, u.Series)
		}
	}
}

// A name that nobody shows is found, whether it is like one that is shown or not.
func TestMadeUpNameIsUnknown(t *testing.T) {
	listed, met := namesUpstream(upstream(t, "vllm")), namesMet(t, Servers)
	text := []byte(`
sentinels: ["vllm:num_requests_running"]
values:
  requests_running: [{series: "vllm:num_requests_runing", plus: {series: "vllm:num_requests_running"}}]
histograms:
  ttft: [{sum: "vllm:ttft_seconds_sum", count: "vllm:num_requests_running_count"}, {series: "ray_vllm_time_to_first_token_seconds"}]
`)
	want := []string{"vllm:num_requests_runing", "vllm:num_requests_running_count", "vllm:ttft_seconds_sum"}
	if got := unknownNames(seriesRead(t, text), listed, met); !slices.Equal(got, want) {
		t.Errorf("unknown: %v, want %v", got, want)
	}
}

// Lists say where each version is from, newest first, and no version repeats what a newer one has.
func TestUpstreamLists(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "upstream", "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no lists: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yml")
		if !slices.ContainsFunc(slices.Collect(maps.Values(builtIn())), func(all map[string]*software) bool { return all[name] != nil }) {
			t.Errorf("%s: there is no such mapping", file)
		}
		seen := map[string]bool{}
		for _, v := range upstream(t, name) {
			if !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(v.Commit) && v.Package == "" || v.Repository == "" || v.Version == "" || v.Read == "" {
				t.Errorf("%s: %s %s: no repository, version, day of reading, or commit and package", name, v.Repository, v.Version)
			}
			for _, m := range v.Metrics {
				if key := v.Repository + " " + m.Name; seen[key] {
					t.Errorf("%s: %s %s repeats %s", name, v.Repository, v.Version, m.Name)
				} else {
					seen[key] = true
				}
			}
		}
	}
}

// evidence is what a run of real servers wrote (tools/lab/real/evidence).
type evidence struct {
	Server, Version, Date string
	Checks                []struct{ Name, Result string }
}

func evidenceOf(t *testing.T, server string) *evidence {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "tools", "lab", "real", "evidence", server+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	var e evidence
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatalf("%s: %v", server, err)
	}
	if !e.passed("detect") {
		return nil // it did not run
	}
	return &e
}

func (e *evidence) passed(check string) bool {
	return slices.ContainsFunc(e.Checks, func(c struct{ Name, Result string }) bool { return c.Name == check && c.Result == "ok" })
}

// knownBy renders a table of how the names of each software are known: from a real server, from pages that one showed, from source.
func knownBy[W any](t *testing.T, all []documentedEngine, pages []golden[W], isOf func(*W) string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| software | checked against | names compared with |\n| --- | --- | --- |\n")
	for i := range all {
		e := &all[i]
		var met []string
		if v := evidenceOf(t, e.Name); v != nil {
			what := "a real server"
			if !v.passed("daemon: server values") {
				what += ", by probes alone"
			}
			met = append(met, fmt.Sprintf("%s: %s on %s, by `make real`", what, v.Version, v.Date))
		}
		for j := range pages {
			if p := &pages[j]; p.server != "" && isOf(&p.want) == e.Name {
				met = append(met, fmt.Sprintf("its page: %s, on %s", p.server, p.recorded))
			}
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", e.Title, anchor(e.Title),
			cmp.Or(strings.Join(met, "; "), "none; its pages here are composed"), cmp.Or(comparedWith(upstream(t, e.Name)), "no source to read"))
	}
	return b.String()
}

// comparedWith renders the newest version of each repository of a list.
func comparedWith(versions []upstreamVersion) string {
	var texts []string
	for i := range versions {
		if v := &versions[i]; v.newest {
			text := v.Repository + " " + v.Version
			if v.Commit != "" {
				text += " (" + v.Commit[:12] + ")"
			}
			if v.Date != "" {
				text += " of " + v.Date
			}
			texts = append(texts, text+", read on "+v.Read)
		}
	}
	return strings.Join(texts, "; ")
}

// dropped renders the names that mappings read and the newest source has no more, with the last version here that had each.
func dropped(t *testing.T, role Role, all []documentedEngine) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| software | last in | names |\n| --- | --- | --- |\n")
	for i := range all {
		e := &all[i]
		text, err := builtInFiles.ReadFile("mappings/" + string(role) + "/" + e.Name + ".yml")
		if err != nil {
			t.Fatal(err)
		}
		last := map[string][]string{}
		listed := namesUpstream(upstream(t, e.Name))
		for _, name := range seriesRead(t, text) {
			if v := listed[bare(name)]; v != nil && !v.newest {
				in := v.Repository + " " + v.Version
				last[in] = append(last[in], name)
			}
		}
		for _, in := range slices.Sorted(maps.Keys(last)) {
			fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", e.Title, anchor(e.Title), in, inCode(last[in]))
		}
	}
	return b.String()
}
