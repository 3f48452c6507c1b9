package main

import (
	"os"
	"regexp"
	"slices"
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
	if len(r.Builds) != 2 || len(r.Archives) != 2 || len(r.SBOMs) != 2 || len(r.NFPMs) != 1 || len(r.DockersV2) != 1 {
		t.Fatalf("want 2 builds, 2 archives, 2 bills of materials, 1 package and 1 image: %+v", r)
	}
	return r
}

// A released program must report its version as one from make does, and be built alike.
func TestBuildsAreThoseOfTheMakefile(t *testing.T) {
	makefile := read(t, "Makefile")
	version := regexp.MustCompile(`(?m)^version_pkg = (\S+)$`).FindStringSubmatch(makefile)
	ldflags := regexp.MustCompile(`(?s)\nLDFLAGS = (.*?[^\\])\n`).FindStringSubmatch(makefile)
	cflags := regexp.MustCompile(`(?m)^export (CGO_CFLAGS) \?= (.*)$`).FindStringSubmatch(makefile)
	if version == nil || ldflags == nil || cflags == nil {
		t.Fatal("the Makefile has no version_pkg, LDFLAGS or CGO_CFLAGS")
	}
	variable := regexp.MustCompile(`\$\((\w+)\)`)
	want := strings.Fields(strings.ReplaceAll(strings.ReplaceAll(ldflags[1], "$(version_pkg)", version[1]), "\\\n", " "))
	for i, w := range want {
		want[i] = variable.ReplaceAllString(w, "VALUE")
	}
	template := regexp.MustCompile(`\{\{.*?\}\}`)
	for _, b := range goreleaser(t).Builds {
		got := strings.Fields(template.ReplaceAllString(strings.Join(b.Ldflags, " "), "VALUE"))
		if !slices.Equal(got, want) {
			t.Errorf("%s: ldflags\n%q, in the Makefile\n%q", b.ID, got, want)
		}
		for _, flag := range []string{"-trimpath", "-buildvcs=false"} {
			if !slices.Contains(b.Flags, flag) || !strings.Contains(makefile, flag) {
				t.Errorf("%s: flag %s is not in both places", b.ID, flag)
			}
		}
		if b.ModTimestamp != "{{ .CommitTimestamp }}" {
			t.Errorf("%s: the time of the program is %q", b.ID, b.ModTimestamp)
		}
	}
	if env := goreleaser(t).build("gpu").Env; !slices.Contains(env, cflags[1]+"="+cflags[2]) {
		t.Errorf("gpu: environment %q, the Makefile has %q", env, cflags[0])
	}
}

// Releases find endpoints as the container image does.
func TestTagsAreThoseOfTheDockerfile(t *testing.T) {
	tags := regexp.MustCompile(`\bTAGS=["']?([\w,]+)`).FindStringSubmatch(read(t, "Dockerfile"))
	if tags == nil {
		t.Fatal("the Dockerfile sets no TAGS")
	}
	for _, b := range goreleaser(t).Builds {
		if got := strings.Join(b.Tags, ","); got != tags[1] {
			t.Errorf("%s: tags %s, in the Dockerfile %s", b.ID, got, tags[1])
		}
	}
}

func TestCommand(t *testing.T) {
	var out strings.Builder
	if err := run([]string{"platforms"}, &out); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(out.String()); !slices.Contains(got, "darwin/arm64") || !slices.Contains(got, "linux/amd64") {
		t.Errorf("platforms are %q", got)
	}
	out.Reset()
	if err := run([]string{"notes", "v0.1.0"}, &out); err != nil || !strings.Contains(out.String(), "### Added\n") {
		t.Errorf("notes are %q, %v", out.String(), err)
	}
	for _, args := range [][]string{nil, {"sbom"}, {"sbom", "a"}, {"notes"}, {"platforms", "x"}, {"fly"}} {
		if err := run(args, &out); err == nil || !strings.HasPrefix(err.Error(), "usage: ") {
			t.Errorf("%q: %v", args, err)
		}
	}
}
