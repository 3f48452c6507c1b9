package main

import (
	"runtime/debug"
	"slices"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

func TestBOM(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8", Path: "example.org/prog",
		Main: debug.Module{Path: "example.org/prog", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "github.com/BurntSushi/toml", Version: "v1.4.0"},
			{Path: "github.com/docker/cli", Version: "v29.5.3+incompatible"},
			{Path: "example.org/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/fork/v2", Version: "v2.0.1"}},
		},
		Settings: []debug.BuildSetting{{Key: "-tags", Value: "a,b"}, {Key: "GOOS", Value: "linux"}, {Key: "-ldflags", Value: "-X secret=1"}},
	}
	b := bom(info, "1.2.3", []byte{0xab})
	var got []string
	for _, c := range *b.Components {
		got = append(got, c.PackageURL)
	}
	// By the type "golang" of the package URL specification: lower case, "+" escaped.
	want := []string{
		"pkg:golang/std@1.26.8", "pkg:golang/github.com/burntsushi/toml@v1.4.0",
		"pkg:golang/github.com/docker/cli@v29.5.3%2Bincompatible", "pkg:golang/example.org/fork/v2@v2.0.1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	self := b.Metadata.Component
	if self.PackageURL != "pkg:golang/example.org/prog@v1.2.3" || self.Version != "v1.2.3" || self.Name != "prog" || (*self.Hashes)[0].Value != "ab" {
		t.Errorf("the program is %+v", self)
	}
	if p := *self.Properties; len(p) != 2 || p[0] != (cyclonedx.Property{Name: "go:build:tags", Value: "a,b"}) {
		t.Errorf("properties are %v", p)
	}
}
