#!/usr/bin/env bash
# Proves that dashboards and rules give data, and checks the example stack. The
# programs are built unless PROMETHEUS, PROMTOOL and AMTOOL all name one.
set -euo pipefail
cd "$(dirname "$0")"

if [ -z "${PROMETHEUS:-}" ] || [ -z "${PROMTOOL:-}" ] || [ -z "${AMTOOL:-}" ]; then
	../../prometheus/build.sh prometheus promtool amtool
fi
go test -count=1 -timeout 18m ./...
