#!/usr/bin/env bash
# Lets goreleaser check its configuration and release the newest version of the changelog,
# for this kind of machine and from a copy of the tree. GORELEASER names the goreleaser to
# use; without it one is built, which takes minutes the first time.
set -euo pipefail
cd "$(dirname "$0")/../.."

# The newest versions need a newer Go.
version=v2.14.3

if [ -z "${GORELEASER:-}" ]; then
	GORELEASER=$PWD/.tools/goreleaser-$version
	if ! [ -x "$GORELEASER" ]; then
		echo "building goreleaser $version"
		GOBIN=$PWD/.tools go install "github.com/goreleaser/goreleaser/v2@$version"
		mv .tools/goreleaser "$GORELEASER"
	fi
fi
"$GORELEASER" check
cd tools/release
GORELEASER=$GORELEASER go test -count=1 -timeout 20m -run TestRelease .
