package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// validate holds a document to the schema of CycloneDX 1.6.
func validate(t *testing.T, document []byte) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	schemas := filepath.Join(strings.TrimSpace(string(dir)), "schema")
	const base = "http://cyclonedx.org/schema/"
	compiler := jsonschema.NewCompiler()
	for url, name := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		file, err := os.Open(filepath.Join(schemas, name))
		if err != nil {
			t.Fatal(err)
		}
		schema, err := jsonschema.UnmarshalJSON(file)
		file.Close()
		if err == nil {
			err = compiler.AddResource(base+url, schema)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	schema, err := compiler.Compile(base + "bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("not a document of CycloneDX 1.6: %v", err)
	}
}

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
	b := bom(info, "1.2.3", bytes.Repeat([]byte{0xab}, 32))
	var text bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).EncodeVersion(b, cyclonedx.SpecVersion1_6); err != nil {
		t.Fatal(err)
	}
	validate(t, text.Bytes())
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
	if self.PackageURL != "pkg:golang/example.org/prog@v1.2.3" || self.Version != "v1.2.3" || self.Name != "prog" || (*self.Hashes)[0].Value != strings.Repeat("ab", 32) {
		t.Errorf("the program is %+v", self)
	}
	if p := *self.Properties; len(p) != 2 || p[0] != (cyclonedx.Property{Name: "go:build:tags", Value: "a,b"}) {
		t.Errorf("properties are %v", p)
	}
}
