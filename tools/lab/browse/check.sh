#!/usr/bin/env bash
# Tests the status page in a real browser. Chromium is installed if it is
# missing and this may be done; SCREENSHOTS names a folder for pictures.
set -euo pipefail
cd "$(dirname "$0")"

if ! command -v chromium >/dev/null; then
	if [ "$(id -u)" != 0 ]; then
		echo "the browser tests need chromium: apt-get install chromium" >&2
		exit 1
	fi
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core
fi
go test -count=1 -timeout 10m ./...
