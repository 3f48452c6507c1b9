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
"$PROMTOOL" test rules alerts/tests/*.yml alerts/testdata/generated/tests.yml
