package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/package-url/packageurl-go"
)

// writeBOM writes the bill of materials of a Go program: what the linker says
// it put in, so it needs no network and the same program gives the same bytes.
// The linker does not know the version of the program itself.
func writeBOM(version, program, document string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return fmt.Errorf("read what %s is built from: %w", program, err)
	}
	var b bytes.Buffer
	sum := sha256.Sum256(binary)
	if err := cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom(info, version, sum[:]), cyclonedx.SpecVersion1_6); err != nil {
		return fmt.Errorf("encode the bill of materials: %w", err)
	}
	if err := os.WriteFile(document, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the bill of materials: %w", err)
	}
	return nil
}

// bom returns the bill of materials of a program of the given version and
// SHA-256: its modules, the standard library among them. It has no time and no
// serial number, which would differ each time.
func bom(info *debug.BuildInfo, version string, sum []byte) *cyclonedx.BOM {
	program := module(info.Main.Path, "v"+strings.TrimPrefix(version, "v"))
	program.Type = cyclonedx.ComponentTypeApplication
	program.Name = path.Base(info.Path)
	program.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	program.Properties = &[]cyclonedx.Property{}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "-tags":
			*program.Properties = append(*program.Properties, cyclonedx.Property{Name: "go:build:" + strings.TrimPrefix(s.Key, "-"), Value: s.Value})
		}
	}
	all := []cyclonedx.Component{module("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, module(m.Path, m.Version))
	}
	b := cyclonedx.NewBOM()
	b.Metadata = &cyclonedx.Metadata{Component: &program}
	b.Components = &all
	return b
}

// module is a Go module as a component.
func module(name, version string) cyclonedx.Component {
	// Package URLs of Go modules are in lower case, whatever the path is.
	namespace, base := path.Split(strings.ToLower(name))
	url := packageurl.NewPackageURL(packageurl.TypeGolang, strings.TrimSuffix(namespace, "/"), base, version, nil, "")
	return cyclonedx.Component{
		BOMRef: url.ToString(), Type: cyclonedx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: url.ToString(),
	}
}
