package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	provenancev1 "github.com/in-toto/attestation/go/predicates/provenance/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// TestProvenance reads the predicate with in-toto's own types, which know no other keys,
// and lets them validate it.
func TestProvenance(t *testing.T) {
	commit := strings.Repeat("ab", 20)
	t.Setenv("BUILDER_ID", "https://ci.example.org/runner")
	var out bytes.Buffer
	if err := run([]string{"provenance", "1.2.3", commit, os.Args[0]}, &out); err != nil {
		t.Fatal(err)
	}
	var got provenancev1.Provenance
	if err := protojson.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	definition := got.GetBuildDefinition()
	if ref := definition.GetExternalParameters().GetFields()["ref"].GetStringValue(); ref != "refs/tags/v1.2.3" {
		t.Errorf("ref %q", ref)
	}
	materials := definition.GetResolvedDependencies()
	if materials[0].GetDigest()["gitCommit"] != commit {
		t.Errorf("the first dependency is %v, want the commit", materials[0])
	}
	var uris []string
	for _, m := range materials {
		uris = append(uris, m.GetUri())
	}
	if !slices.Contains(uris, "pkg:golang/github.com/google/licensecheck@v0.3.1") {
		t.Errorf("no linked module in %v", uris)
	}
	t.Setenv("BUILDER_ID", "")
	if err := run([]string{"provenance", "1.2.3", commit, os.Args[0]}, &out); err == nil {
		t.Error("a provenance without a builder")
	}
}
