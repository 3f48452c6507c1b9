package main

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReproducible builds the program as a release does from two copies of the tree at
// different paths, the second one with nothing in the cache, and compares the bytes.
func TestReproducible(t *testing.T) {
	build := goreleaser(t).build("gpu")
	ldflags := strings.NewReplacer("{{ .Version }}", "1.2.3", "{{ .FullCommit }}", "abcdef", "{{ .Branch }}", "main").Replace(strings.Join(build.Ldflags, " "))
	sum := func(dir string, env ...string) [sha256.Size]byte {
		t.Helper()
		copyTree(t, dir)
		program := filepath.Join(dir, "program")
		cmd := exec.Command("go", append(append([]string{"build"}, build.Flags...), "-ldflags="+ldflags, "-o", program, ".")...)
		cmd.Dir, cmd.Env = dir, append(append(os.Environ(), build.Env...), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		binary, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		return sha256.Sum256(binary)
	}
	first := sum(filepath.Join(t.TempDir(), "a"))
	second := sum(filepath.Join(t.TempDir(), "a-longer-path", "elsewhere"), "GOCACHE="+t.TempDir())
	if first != second {
		t.Errorf("two builds differ: %x, %x", first, second)
	}
}

// copyTree copies the files of the repository to a new folder.
func copyTree(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Fatalf("list the files: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if info, err := os.Lstat(filepath.Join(root, name)); os.IsNotExist(err) || err == nil && !info.Mode().IsRegular() {
			continue // deleted and not committed yet, or a link, which no program contains
		}
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
