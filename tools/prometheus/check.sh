#!/usr/bin/env bash
# Checks the rules in alerts/ and runs their unit tests. PROMTOOL names the
# promtool to use; without it one is built.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ -z "${PROMTOOL:-}" ]; then
	tools/prometheus/build.sh promtool
	PROMTOOL=.tools/promtool
fi
"$PROMTOOL" check rules --lint=all --lint-fatal alerts/*.yml
# The example takes its secrets from the environment; rules have none.
LLM_API_KEY=x METRICS_PASSWORD=x LLM_AWS_KEY=x OTLP_TENANT=x \
	go run . rules --set=all --config.file=examples/full.yml | "$PROMTOOL" check rules --lint=all --lint-fatal
# One file after the other keeps one processor busy.
printf '%s\0' alerts/tests/*.yml alerts/testdata/generated/tests.yml |
	xargs -0 -n 1 -P "$(getconf _NPROCESSORS_ONLN)" "$PROMTOOL" test rules
