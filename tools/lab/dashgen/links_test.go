package main

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestLinks checks that links of the boards lead to boards, with variables that these have,
// and to runbooks.
func TestLinks(t *testing.T) {
	variables := map[string][]string{}
	for _, b := range boards() {
		for _, v := range b.Variables {
			variables[b.UID] = append(variables[b.UID], v.Name)
		}
	}
	files, err := generate(rulesFolder)
	if err != nil {
		t.Fatal(err)
	}
	board := regexp.MustCompile(`"/d/([a-z-]+)\?([^"]+)"`)
	variable := regexp.MustCompile(`\$\{(\w+):queryparam\}|var-(\w+)=`)
	runbook := regexp.MustCompile(`blob/main/(docs/runbooks/\w+\.md)`)
	found := 0
	for name, text := range files {
		for _, m := range board.FindAllStringSubmatch(string(text), -1) {
			found++
			for _, v := range variable.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(variables[m[1]], v[1]+v[2]) {
					t.Errorf("%s: link to %s with the variable %s, which it does not have", name, m[1], v[1]+v[2])
				}
			}
		}
		for _, m := range runbook.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat("../../../" + m[1]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if found < 10 {
		t.Errorf("found only %d links to boards", found)
	}
}
