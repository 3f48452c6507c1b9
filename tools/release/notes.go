package main

import (
	"fmt"
	"regexp"
	"strings"
)

// notes returns what the changelog says of one version, without its heading.
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
