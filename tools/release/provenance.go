package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// buildType says what the parameters of a provenance mean: goreleaser with the
// configuration of the commit.
const buildType = "https://github.com/inference-exporter/inference_exporter/blob/main/tools/release/README.md"

// provenance is the predicate of SLSA's provenance, version 1
// (https://slsa.dev/spec/v1.1/provenance).
type provenance struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]string `json:"externalParameters"`
	ResolvedDependencies []descriptor      `json:"resolvedDependencies"`
}

type descriptor struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest,omitempty"`
}

type runDetails struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
}

// writeProvenance writes the predicate for a program that was built from a commit of
// a repository by a builder: the commit, Go, and the modules that were linked. The
// statement around it, with the digest of what it is about, is made by what signs it.
func writeProvenance(out io.Writer, version, commit, builder, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read what %s is built from: %w", filepath.Base(program), err)
	}
	if builder == "" {
		return errors.New("write the provenance: no builder; set BUILDER_ID to the URI of what builds releases")
	}
	source := "git+https://" + info.Main.Path
	p := provenance{BuildDefinition: buildDefinition{
		BuildType:          buildType,
		ExternalParameters: map[string]string{"source": source, "ref": "refs/tags/v" + strings.TrimPrefix(version, "v")},
		ResolvedDependencies: []descriptor{
			{URI: source, Digest: map[string]string{"gitCommit": commit}},
			{URI: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")},
		},
	}}
	p.RunDetails.Builder.ID = builder
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		p.BuildDefinition.ResolvedDependencies = append(p.BuildDefinition.ResolvedDependencies, descriptor{URI: module(m.Path, m.Version).PackageURL})
	}
	slices.SortFunc(p.BuildDefinition.ResolvedDependencies[2:], func(a, b descriptor) int { return strings.Compare(a.URI, b.URI) })
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(p)
}
