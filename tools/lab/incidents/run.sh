#!/usr/bin/env bash
# Causes incidents with real processes, and counts their notifications. The programs
# are built the first time, which takes minutes. Flags are those of the command, as in -only=users/.
set -euo pipefail
cd "$(dirname "$0")/../../.."

tools/prometheus/build.sh prometheus alertmanager
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -buildvcs=false -o "$work/inference_exporter" .
(cd tools/lab/incidents && go build -buildvcs=false -o "$work/incidents" .)
"$work/incidents" -exporter "$work/inference_exporter" -prometheus .tools/prometheus -alertmanager .tools/alertmanager "$@"
