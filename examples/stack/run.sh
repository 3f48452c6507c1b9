#!/usr/bin/env bash
# The demo of the exporter with a real Prometheus and the rules of this project,
# without containers. Needs Go; builds Prometheus into .tools the first time,
# which takes minutes.
#
#   examples/stack/run.sh
#
# Ctrl-C ends both. PROMETHEUS names another binary; PROMETHEUS_PORT another port
# than 9090.
set -euo pipefail
cd "$(dirname "$0")/../.."

port=${PROMETHEUS_PORT:-9090}
prometheus=${PROMETHEUS:-}
if [ -z "$prometheus" ]; then
	tools/prometheus/build.sh prometheus
	prometheus=.tools/prometheus
fi

work=$(mktemp -d)
pids=()
finish() {
	trap - EXIT INT TERM
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
	wait
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 0' INT TERM

go build -buildvcs=false -o "$work/inference_exporter" .
"$work/inference_exporter" demo --log.level=error >"$work/demo.log" &
pids+=($!)
address=
for _ in $(seq 50); do
	address=$(sed -n 's|^Metrics: http://\(.*\)/metrics$|\1|p' "$work/demo.log")
	[ -n "$address" ] && break
	sleep 0.2
done
[ -n "$address" ] || { echo "the demo does not start" >&2; exit 1; }

# The same configuration, with the demo as the exporter, without an Alertmanager.
sed -e "s|exporter:10115|$address|" -e "s|\.\./\.\./alerts|$PWD/alerts|" \
	-e "/^alerting:/,/alertmanager:9093/d" examples/stack/prometheus.yml >"$work/prometheus.yml"
"$prometheus" --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" \
	--web.listen-address="127.0.0.1:$port" --log.level=error &
pids+=($!)

cat "$work/demo.log"
echo "Prometheus: http://127.0.0.1:$port (API: /api/v1/query, /api/v1/alerts)"
wait -n
