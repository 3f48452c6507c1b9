package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(root + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func goreleaser(t *testing.T) *release {
	t.Helper()
	r, err := readRelease(root + ".goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Releases find endpoints as the container image does.
func TestTagsAreThoseOfTheDockerfile(t *testing.T) {
	tags := regexp.MustCompile(`\bTAGS=["']?([\w,]+)`).FindStringSubmatch(read(t, "Dockerfile"))
	builds := goreleaser(t).Builds
	if tags == nil || len(builds) != 2 {
		t.Fatalf("tags %q in the Dockerfile, %d builds", tags, len(builds))
	}
	for _, b := range builds {
		if got := strings.Join(b.Tags, ","); got != tags[1] {
			t.Errorf("%s: tags %s, in the Dockerfile %s", b.ID, got, tags[1])
		}
	}
}

// What a release packs is there: the release itself is not made at every change.
func TestPackedFilesExist(t *testing.T) {
	packed := regexp.MustCompile(`\bsrc: ([^,}\s]+)`).FindAllStringSubmatch(read(t, ".goreleaser.yaml"), -1)
	for _, m := range packed {
		if found, err := filepath.Glob(root + m[1]); err != nil || len(found) == 0 {
			t.Errorf("there is no %s: %v", m[1], err)
		}
	}
	if len(packed) < 10 {
		t.Errorf("found only %d files", len(packed))
	}
}
