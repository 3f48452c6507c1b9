// Command release makes what a release needs beside goreleaser.
//
//	release sbom VERSION PROGRAM DOCUMENT   the bill of materials of a Go program, as CycloneDX
//	release provenance VERSION COMMIT PROGRAM   how it was built, as a SLSA predicate on standard output; BUILDER_ID names the builder
//	release licences DOCUMENT               the licences of what is linked into it, as a page
//	release notes VERSION                   that version's part of CHANGELOG.md, on standard output
//	release platforms                       the static builds of .goreleaser.yaml, as GOOS/GOARCH lines
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// root is the repository, seen from this module, where the command runs.
const root = "../../"

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	switch {
	case len(args) == 4 && args[0] == "sbom":
		return writeBOM(args[1], args[2], args[3])
	case len(args) == 4 && args[0] == "provenance":
		return writeProvenance(out, args[1], args[2], os.Getenv("BUILDER_ID"), args[3])
	case len(args) == 2 && args[0] == "licences":
		return writeLicences(args[1])
	case len(args) == 2 && args[0] == "notes":
		text, err := os.ReadFile(root + "CHANGELOG.md")
		if err != nil {
			return fmt.Errorf("read the changelog: %w", err)
		}
		part, err := notes(string(text), args[1])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, part)
		return err
	case len(args) == 1 && args[0] == "platforms":
		release, err := readRelease(root + ".goreleaser.yaml")
		if err != nil {
			return err
		}
		for _, p := range release.build("static").platforms() {
			if _, err := fmt.Fprintln(out, p); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("usage: release sbom VERSION PROGRAM DOCUMENT | provenance VERSION COMMIT PROGRAM | licences DOCUMENT | notes VERSION | platforms")
}

// notes returns the part of the changelog for one version, without its heading.
// The version may begin with v, as a tag does.
func notes(changelog, version string) (string, error) {
	heading := regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(strings.TrimPrefix(version, "v")) + `\].*$`)
	at := heading.FindStringIndex(changelog)
	if at == nil {
		return "", fmt.Errorf("the changelog has no part for version %s", version)
	}
	part := changelog[at[1]:]
	if next := regexp.MustCompile(`(?m)^(## |\[[^\]]+\]: )`).FindStringIndex(part); next != nil {
		part = part[:next[0]]
	}
	part = strings.TrimSpace(part)
	if part == "" {
		return "", fmt.Errorf("the changelog says nothing of version %s", version)
	}
	return part, nil
}
