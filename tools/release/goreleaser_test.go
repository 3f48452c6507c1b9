package main

import (
	"os"
	"os/exec"
	"path/filepath"
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

// What is packed must be there: goreleaser finds that out at the release only.
func TestPackedFilesExist(t *testing.T) {
	r := goreleaser(t)
	var files []file
	for _, a := range r.Archives {
		files = append(files, a.Files...)
	}
	for _, n := range r.NFPMs {
		files = append(files, n.Contents...)
	}
	for _, i := range r.DockersV2 {
		files = append(files, file{Src: i.Dockerfile})
		for _, f := range i.ExtraFiles {
			files = append(files, file{Src: f})
		}
	}
	for _, f := range files {
		found, err := filepath.Glob(root + f.Src)
		if err != nil || len(found) == 0 {
			t.Errorf("%s: no such file (%v)", f.Src, err)
		}
	}
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

// A release's image is the one that the Dockerfile at the top builds.
func TestImages(t *testing.T) {
	image := goreleaser(t).DockersV2[0]
	stage := func(name string) []string {
		text := read(t, name)
		text = text[strings.LastIndex(text, "\nFROM "):]
		text = regexp.MustCompile(`(?m)^ARG TARGETPLATFORM\n`).ReplaceAllString(text, "")
		text = regexp.MustCompile(`(?m)^COPY .* (\S+)$`).ReplaceAllString(text, "COPY $1")
		return strings.Fields(text)
	}
	if got, want := stage(image.Dockerfile), stage("Dockerfile"); !slices.Equal(got, want) {
		t.Errorf("last stage\n%q, at the top\n%q", got, want)
	}
	if got, want := image.Platforms, goreleaser(t).build("gpu").platforms(); !slices.Equal(got, want) {
		t.Errorf("images for %q, programs for %q", got, want)
	}
}

func TestEveryBuildIsPacked(t *testing.T) {
	r := goreleaser(t)
	for _, b := range r.Builds {
		packed, listed := 0, 0
		for _, a := range r.Archives {
			if slices.Contains(a.IDs, b.ID) {
				packed++
			}
		}
		for _, s := range r.SBOMs {
			if slices.Contains(s.IDs, b.ID) {
				listed++
			}
		}
		if packed != 1 || listed != 1 {
			t.Errorf("%s is in %d archives and %d bills of materials, want 1 of each", b.ID, packed, listed)
		}
	}
}

func TestPlatforms(t *testing.T) {
	out, err := exec.Command("go", "tool", "dist", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(out))
	r := goreleaser(t)
	for _, b := range r.Builds {
		for _, p := range b.platforms() {
			if !slices.Contains(known, p) {
				t.Errorf("%s: Go knows no %s", b.ID, p)
			}
		}
	}
	if b := r.build("static"); !slices.Equal(b.Env, []string{"CGO_ENABLED=0"}) {
		t.Errorf("the static build has the environment %q", b.Env)
	}
	// Another processor than that of the machine needs its own C compiler.
	gpu := r.build("gpu")
	i := slices.IndexFunc(gpu.Overrides, func(o override) bool { return o.GOOS == "linux" && o.GOARCH == "arm64" })
	if i < 0 || !slices.Equal(gpu.Overrides[i].Env[:len(gpu.Env)], gpu.Env) || !slices.Contains(gpu.Overrides[i].Env, "CC=aarch64-linux-gnu-gcc") {
		t.Errorf("linux/arm64 is not built like linux/amd64 with its own compiler: %+v", gpu.Overrides)
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
