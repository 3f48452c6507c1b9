package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestRelease has goreleaser release the newest version of the changelog from a tag, for
// this machine's kind alone and without what needs an identity or Docker. It looks at what
// came out, and builds the program once more at another path, with nothing in the cache:
// the bytes are the same. GORELEASER names goreleaser; check.sh sets it.
func TestRelease(t *testing.T) {
	goreleaserPath := os.Getenv("GORELEASER")
	if goreleaserPath == "" {
		t.Skip("GORELEASER names no goreleaser: run tools/release/check.sh")
	}
	version := newestVersion(t)
	dir := filepath.Join(t.TempDir(), "a")
	copyTree(t, dir)
	commit := tagTree(t, dir, "v"+version)
	command(t, dir, nil, goreleaserPath, "release", "--clean", "--config="+dryRun(t))

	base := "inference_exporter-" + version + ".linux-amd64"
	program := packed(t, filepath.Join(dir, "dist", base+".tar.gz"), base+"/inference_exporter")
	want := rebuilt(t, strings.NewReplacer("{{ .Version }}", version, "{{ .FullCommit }}", commit, "{{ .Branch }}", "main"))
	if !bytes.Equal(program, want) {
		t.Errorf("two builds differ: %x, %x", sha256.Sum256(program), sha256.Sum256(want))
	}
	static := packed(t, filepath.Join(dir, "dist", base+"-static.tar.gz"), base+"-static/inference_exporter")
	for name, data := range map[string][]byte{"program": program, "static": static} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o700); err != nil {
			t.Fatal(err)
		}
		said := command(t, dir, nil, file, "--version")
		if !strings.HasPrefix(said, "inference_exporter, version "+version+" (branch: main, revision: "+commit+")") {
			t.Errorf("%s --version: %s", name, said)
		}
	}
	dist := filepath.Join(dir, "dist")
	sums := "inference_exporter-" + version + ".sha256sums"
	command(t, dist, nil, "sha256sum", "--check", "--strict", sums)
	listed, err := os.ReadFile(filepath.Join(dist, sums))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		base + ".tar.gz", base + "-static.tar.gz", base + ".cdx.json", base + "-static.cdx.json",
		"inference-exporter_" + version + "_linux_amd64.deb", "inference-exporter_" + version + "_linux_amd64.rpm",
	} {
		if !strings.Contains(string(listed), "  "+name+"\n") {
			t.Errorf("the release has no %s:\n%s", name, listed)
		}
	}
}

// newestVersion returns the newest version of the changelog.
func newestVersion(t *testing.T) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$`).FindStringSubmatch(read(t, "CHANGELOG.md"))
	if m == nil {
		t.Fatal("the changelog has no version with its date")
	}
	return m[1]
}

// tagTree makes a repository of a folder, with one commit and a tag, and returns the commit.
func tagTree(t *testing.T, dir, tag string) string {
	t.Helper()
	author := []string{"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"},
		{"remote", "add", "origin", "https://example.com/inference_exporter.git"},
		{"add", "--all"},
		{"commit", "--quiet", "--message=release"},
		{"tag", tag},
	} {
		command(t, dir, author, "git", args...)
	}
	return strings.TrimSpace(command(t, dir, nil, "git", "rev-parse", "HEAD"))
}

// dryRun writes the release's configuration for one kind of machine, without images and
// signatures, and returns its path.
func dryRun(t *testing.T) string {
	t.Helper()
	var all map[string]any
	if err := yaml.Unmarshal([]byte(read(t, ".goreleaser.yaml")), &all); err != nil {
		t.Fatal(err)
	}
	for _, b := range all["builds"].([]any) {
		b.(map[string]any)["targets"] = []string{"linux_amd64"}
	}
	for _, key := range []string{"signs", "docker_signs", "dockers_v2"} {
		delete(all, key)
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "goreleaser.yaml")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// rebuilt returns the program as a release builds it, from another copy of the tree.
func rebuilt(t *testing.T, values *strings.Replacer) []byte {
	t.Helper()
	build := goreleaser(t).build("gpu")
	dir := filepath.Join(t.TempDir(), "a-longer-path", "elsewhere")
	copyTree(t, dir)
	args := append([]string{"build", "-o=program", "-tags=" + strings.Join(build.Tags, ","), "-ldflags=" + values.Replace(strings.Join(build.Ldflags, " "))}, build.Flags...)
	command(t, dir, append(build.Env, "GOCACHE="+t.TempDir()), "go", append(args, ".")...)
	program, err := os.ReadFile(filepath.Join(dir, "program"))
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// packed returns a file of an archive.
func packed(t *testing.T, archive, name string) []byte {
	t.Helper()
	return []byte(command(t, ".", nil, "tar", "-xzOf", archive, name))
}

// command runs a program in a folder and returns what it prints.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out))
	}
	return string(out)
}

// copyTree copies the files of the repository to a new folder, but for those that are deleted
// and not committed yet.
func copyTree(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	command(t, root, nil, "bash", "-c", "git ls-files -z | tar -c --null --ignore-failed-read -T - | tar -x -C '"+dir+"'")
}
