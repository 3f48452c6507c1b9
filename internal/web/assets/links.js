// Links to other systems, as the flags of the exporter name them. Where a flag is
// missing there is no link.
import { now } from './clock.js';
import { h } from './dom.js';

const { runbooks, grafana, prometheus, traces } = document.documentElement.dataset;

// How much of the time before the state began a link shows, in seconds.
const before = 3600;

const away = (href, ...text) => h('a', { href, target: '_blank', rel: 'noreferrer' }, ...text);

// runbook links to a runbook by its name; null without one.
export function runbook(name, text = `Runbook: ${name}`) {
  if (!runbooks || !/^Inference\w+$/.test(name ?? '')) return null;
  return away(`${runbooks}${name}.md`, text);
}

// The runbooks of states, for want of a known cause.
const ofState = { down: 'InferenceEndpointDown', flapping: 'InferenceEndpointFailing', degraded: 'InferenceEndpointFailing', stale: 'InferenceProbeStale' };

// runbookOf names the runbook of a state: of a slow one that of the objective, of a
// muted one that of the state without the mute.
export function runbookOf({ state, muted, slo, ttft_seconds: ttft, tpot_seconds: tpot }) {
  const real = muted?.state ?? state;
  if (real !== 'slow') return ofState[real];
  if (ttft > slo?.ttft_seconds) return 'InferenceTTFTHigh';
  if (tpot > slo?.tpot_seconds) return 'InferenceTPOTHigh';
  return 'InferenceLatencyRegression';
}

// dashboards links to Grafana and Prometheus, at the time that the state of an
// endpoint began.
export function dashboards(row) {
  const end = now();
  const begin = Math.min(row.since > 0 ? row.since : end, end) - before;
  return [grafana && away(board(row.name, begin), 'Grafana'), prometheus && away(query(row.name, end - begin), 'Prometheus')].filter(Boolean);
}

function board(name, begin) {
  const search = new URLSearchParams({ 'var-endpoint': name, from: String(Math.floor(begin * 1000)), to: 'now' });
  return `${grafana}d/ie-endpoint?${search}`;
}

function query(name, span) {
  const search = new URLSearchParams({
    'g0.expr': `inference_probe_last_ttft_seconds{endpoint=${JSON.stringify(name)}}`, 'g0.tab': '0', 'g0.range_input': `${Math.ceil(span / 60)}m`,
    'g1.expr': `inference_probe_success{endpoint=${JSON.stringify(name)}}`, 'g1.tab': '0', 'g1.range_input': `${Math.ceil(span / 60)}m`,
  });
  return `${prometheus}graph?${search}`;
}

// trace links to the trace of a probe; null where traces have no address.
export function trace(id) {
  if (!traces || !/^[0-9a-f]+$/.test(id ?? '')) return null;
  return away(traces.replace('{trace_id}', id), 'Open the trace');
}
