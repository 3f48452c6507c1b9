package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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

// The bill of materials of a program, this test, against the schema and what the go command
// says of it.
func TestDocument(t *testing.T) {
	program := os.Args[0]
	document := filepath.Join(t.TempDir(), "program.cdx.json")
	if err := run([]string{"sbom", "1.2.3", program, document}, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	validate(t, text)
	var got cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&got); err != nil {
		t.Fatal(err)
	}
	modules := listedModules(t, program)
	for _, c := range *got.Components {
		if modules[c.Name] != c.Version {
			t.Errorf("%s %s, the go command says %q", c.Name, c.Version, modules[c.Name])
		}
		delete(modules, c.Name)
	}
	if len(modules) > 0 {
		t.Errorf("missing: %v", modules)
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(binary); (*got.Metadata.Component.Hashes)[0].Value != hex.EncodeToString(sum[:]) {
		t.Errorf("another hash than %x", sum)
	}
}

// listedModules returns what go version -m says: the modules with their versions.
func listedModules(t *testing.T, program string) map[string]string {
	t.Helper()
	out, err := exec.Command("go", "version", "-m", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string]string{}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		switch {
		case f[0] == program+":":
			modules["std"] = strings.TrimPrefix(f[1], "go")
		case f[0] == "dep":
			modules[f[1]] = f[2]
		case f[0] == "=>":
			t.Fatalf("a replaced module: %s", line)
		}
	}
	if len(modules) < 5 {
		t.Fatalf("go version -m lists %d modules", len(modules))
	}
	return modules
}

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
