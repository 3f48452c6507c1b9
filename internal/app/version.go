package app

import (
	"cmp"
	"runtime/debug"
	"strings"

	"github.com/prometheus/common/version"
)

// unknownVersion stands where nobody told, as it does in the Makefile.
const unknownVersion = "unknown"

// StampVersion fills the build information that the linker did not set from
// what the go command left in the binary, so that a program made by `go
// install module@version` or `go build` tells its version too. To be called
// once, before Run: the log, the metric, --version and the user agent all read
// the variables of prometheus/common/version, which has no other way to be told.
func StampVersion() {
	info, _ := debug.ReadBuildInfo()
	version.Version = cmp.Or(version.Version, moduleVersion(info))
	version.Branch = cmp.Or(version.Branch, unknownVersion)
}

// moduleVersion is the version of the main module without its leading v, as
// releases write it. The revision needs no help: version.GetRevision looks for it.
func moduleVersion(info *debug.BuildInfo) string {
	if info == nil || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return unknownVersion
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}
