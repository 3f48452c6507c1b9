package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDocumentIsCurrent holds docs/compatibility.md against the evidence.
func TestDocumentIsCurrent(t *testing.T) {
	want, err := document(".")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/compatibility.md is not what the evidence says: go run . -document")
	}
}
