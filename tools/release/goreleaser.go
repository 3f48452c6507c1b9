package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// release is what this module looks at in .goreleaser.yaml. The file as a whole
// is checked by goreleaser itself.
type release struct {
	Builds []build
}

type build struct {
	ID          string
	Targets     []string
	Env         []string
	Flags, Tags []string
	Ldflags     []string
}

// readRelease reads the configuration of goreleaser.
func readRelease(name string) (*release, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the release's configuration: %w", err)
	}
	var r release
	if err := yaml.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return &r, nil
}

// build returns the build of the given id; an empty one where there is none.
func (r *release) build(id string) build {
	if i := slices.IndexFunc(r.Builds, func(b build) bool { return b.ID == id }); i >= 0 {
		return r.Builds[i]
	}
	return build{}
}

// platforms returns the targets of a build as GOOS/GOARCH. A target may end with a
// variant of the processor.
func (b build) platforms() []string {
	var all []string
	for _, t := range b.Targets {
		parts := strings.SplitN(t, "_", 3)
		all = append(all, strings.Join(parts[:min(2, len(parts))], "/"))
	}
	return all
}
