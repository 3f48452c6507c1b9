// What the page of a recording draws and compares, from the recording inside of it. Its texts are in the page itself.
import { h, s } from './dom.js';
import { bytes, number, ratio, seconds, unknown } from './format.js';
import { timeline } from './tokens.js';
import { waterfall } from './waterfall.js';

const recording = JSON.parse(document.getElementById('recording').textContent);
const entries = recording.entries.map((e) => ({ ...e, at: Date.parse(e.at) }));
const begin = Date.parse(recording.from);
const start = Date.parse(recording.incident.start);
const last = Math.max(begin + 1000, ...entries.map((e) => e.at));
const end = recording.incident.end ? Date.parse(recording.incident.end) : last;
const clock = (at) => `${new Date(at).toISOString().slice(11, 19)} UTC`;
const isDuring = (e) => e.at >= start && e.at <= end;
const put = (id, ...what) => document.getElementById(id).append(...what.flat().filter(Boolean));

// What changed: a value differs by a tenth or more from before, and so many are shown.
const leastChange = 0.1;
const maxChanges = 30;

// rates returns the values of a sample by name: of a counter the rate since the sample before, of a histogram the mean since then.
function rates(sample, before) {
  const found = {};
  for (const [name, v] of Object.entries(sample.values ?? {})) {
    const of = name.replace(/_(sum|count)$/, '');
    const isPart = of !== name && `${of}_sum` in sample.values && `${of}_count` in sample.values;
    const grown = v - before?.values?.[name];
    if (!isPart && !/_total(:|$)/.test(name)) found[name] = v;
    else if (!(grown >= 0)) continue; // not known, or it restarted
    else if (!isPart) found[`${name.replace(/_total(:|$)/, '$1')} per second`] = grown / ((sample.at - before.at) / 1000);
    else if (name.endsWith('_sum') && sample.values[`${of}_count`] > before.values[`${of}_count`]) found[of] = grown / (sample.values[`${of}_count`] - before.values[`${of}_count`]);
  }
  return found;
}

// write writes a value in the unit of its name.
function write(name, v) {
  if (v === undefined) return unknown;
  if (/_seconds(:|$)/.test(name) && v >= 0) return seconds(v);
  if (/_ratio(:|$)/.test(name)) return ratio(v);
  return /_bytes(:|$)/.test(name) && v >= 0 ? bytes(v) : number(v);
}

const difference = (a, b) => (b === undefined || a === b ? 0 : Math.abs(a - b) / Math.max(Math.abs(a), Math.abs(b)));

// changes returns what changed of one source, whose samples are in the order of time.
function changes(source, samples) {
  const i = samples.findIndex((one) => one.at >= start);
  if (i < 0) return [];
  const of = (n) => rates(samples[n], samples[n - 1]);
  const [was, then] = [i > 0 ? of(i - 1) : {}, of(samples.length - 1)]; // without what was before, the state alone is compared
  const first = { ...of(Math.min(i + 1, samples.length - 1)), ...rates(samples[i]) }; // rates of the incident alone
  const states = [samples[i - 1], samples[i], samples.at(-1)].map((one) => one?.state);
  const found = Object.keys(was).map((name) => ({
    source, what: name.replaceAll('_', ' '), shown: [was, first, then].map((values) => write(name, values[name])),
    early: difference(was[name], first[name]), late: difference(was[name], then[name]),
  })).filter((c) => Math.max(c.early, c.late) >= leastChange);
  if (new Set(states.filter(Boolean)).size > 1) found.unshift({ source, what: 'state', shown: states.map((text) => text ?? unknown), early: states[0] === states[1] ? 0 : 2, late: 2 });
  return found;
}

// table lists what changed, most at the beginning first; none is what to say where nothing did.
function table(samples, none) {
  const all = Object.entries(Object.groupBy(samples, (one) => one.source)).flatMap(([source, of]) => changes(source, of));
  all.sort((a, b) => b.early - a.early || b.late - a.late);
  if (all.length === 0) return h('p', null, samples.length > 0 ? 'No value changed by a tenth or more.' : none);
  const columns = ['Before', 'At the beginning', 'At the end'];
  return [
    h('table', { class: 'changed' },
      h('thead', null, h('tr', null, h('th', null, 'What'), columns.map((c) => h('th', { class: 'numeric' }, c)))),
      h('tbody', null, all.slice(0, maxChanges).map((c) => h('tr', null, h('td', null, c.source, ' ', h('b', null, c.what)),
        c.shown.map((text, i) => h('td', { class: 'numeric', 'data-label': columns[i] }, text)))))),
    all.length > maxChanges && h('p', { class: 'small' }, `and ${number(all.length - maxChanges)} more`),
  ];
}

put('pages', table(entries.filter((e) => e.page).map(({ at, page: p }) => (
  { at, source: `${p.role} ${p.source}`, state: p.reason ? `${p.state} (${p.reason})` : p.state, values: p.values })), 'No page of a server or gateway was read.'));
put('gpus', table(entries.filter((e) => e.gpu).map(({ at, gpu: g }) => (
  { at, source: g.uuid, state: g.up ? 'up' : 'does not answer', values: g.values })), 'No GPU of the endpoint is known.'));

// Drawings over time are 1000 wide.
const x = (at) => Math.min(1000, Math.max(0, 1000 * (at - begin) / (last - begin)));
const span = (name, from, to, height) => s('rect', { class: name, x: x(from), y: 0, width: Math.max(1, x(to) - x(from)), height });
const times = (middle) => h('div', { class: 'times' }, [clock(begin), middle, clock(last)].map((text) => h('span', null, text)));
const drawing = (name, height, says, ...inside) => s('svg', { class: `drawing ${name}`, viewBox: `0 0 1000 ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': says }, inside);

const states = entries.filter((e) => e.state);
put('states', drawing('states', 18, 'The states over time', states.map((e, i) => span(`state ${e.state.state}`, e.at, states[i + 1]?.at ?? last, 18))), times(''));

// objective returns that of a module's latency by the latest evidence; undefined is none.
const speeds = entries.findLast((e) => e.evidence)?.evidence.speeds ?? [];
const objective = (module, metric) => speeds.find((one) => one.module === module)?.[metric]?.objective;

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)];

// chart draws a bar for each probe as high as its latency, and one of the whole height for a failure.
function chart(module, metric, probes) {
  const value = (e) => (e.failed ? undefined : e[`${metric}_seconds`]);
  const limit = objective(module, metric);
  const top = Math.max(limit ?? 0, ...probes.map((e) => value(e) ?? 0));
  const of = (some) => seconds(median(some.map(value).filter((v) => v !== undefined)));
  const during = probes.filter(isDuring);
  const title = `${metric.toUpperCase()} of ${module}`;
  const says = `median ${of(probes.filter((e) => e.at < start))} before, ${of(during)} in the incident; ${number(during.filter((e) => e.failed).length)} of ${number(during.length)} failed`;
  const width = Math.max(2, Math.min(8, 700 / probes.length));
  const bars = probes.map((e) => {
    const v = value(e);
    if (!e.failed && v === undefined) return null;
    const height = e.failed ? 100 : Math.max(2, 100 * v / top);
    return s('rect', { class: e.failed ? 'bad' : e.late || v > limit ? 'late' : 'good', x: x(e.at) - width / 2, y: 100 - height, width, height });
  });
  const line = limit < top && s('line', { x1: 0, x2: 1000, y1: 100 - 100 * limit / top, y2: 100 - 100 * limit / top });
  return h('figure', { class: 'chart' }, h('figcaption', null, h('b', null, title), ` ${says}`),
    drawing('', 100, `${title}: ${says}`, span('during', start, end, 100), bars, line), times(`0 to ${seconds(top)}`));
}

const probes = entries.filter((e) => e.probe ?? e.point).map((e) => {
  const p = e.probe ?? e.point;
  return { ...p, at: e.at, module: p.module ?? p.series.split(' ')[0], failed: p.outcome !== 'success' };
});
for (const [module, of] of Object.entries(Object.groupBy(probes, (p) => p.module)).sort()) {
  for (const metric of ['ttft', 'tpot']) {
    if (metric === 'ttft' || of.some((p) => p.tpot_seconds !== undefined)) put('charts', chart(module, metric, of));
  }
}

// The worst probe failed after the longest time or, where none failed, took longest; a usual one has the median TTFT of its like before.
const whole = probes.filter((p) => p.trace_id);
const worst = whole.filter(isDuring).sort((a, b) => b.failed - a.failed || (b.duration_seconds ?? 0) - (a.duration_seconds ?? 0))[0];
const like = whole.filter((p) => p.at < start && !p.failed && ['module', 'prefix', 'input_tokens'].every((key) => p[key] === worst?.[key]));
const usual = like.sort((a, b) => a.ttft_seconds - b.ttft_seconds)[Math.floor((like.length - 1) / 2)];

function shown(title, p) {
  if (!p) return h('section', null, h('h3', null, title), h('p', null, 'None was kept whole.'));
  const rows = {
    Outcome: [p.outcome.replaceAll('_', ' '), p.error].filter(Boolean).join(': '), Module: p.module, Model: p.model, Engine: p.engine,
    TTFT: seconds(p.ttft_seconds), TPOT: seconds(p.tpot_seconds), Duration: seconds(p.duration_seconds),
    Stall: p.stall && `${seconds(p.stall.seconds)} from ${seconds(p.stall.at_seconds)} on, by the ${p.stall.side}: ${p.stall.evidence.join('; ')}`,
  };
  return h('section', null, h('h3', null, `${title}: ${clock(p.at)}`),
    h('dl', { class: 'facts' }, Object.entries(rows).filter(([, text]) => text).map(([label, text]) => [h('dt', null, label), h('dd', null, text)])),
    h('div', { class: 'drawings' }, waterfall(p), timeline(p)));
}
put('probes', shown('The worst', worst), shown('A usual one before', usual));

// The exporter's own lag: the longest, and the sums of probes.
for (const [when, is] of [['Before', (e) => e.at < start], ['In the incident', isDuring]]) {
  const all = entries.filter((e) => e.self && is(e)).map((e) => e.self);
  const most = (key) => seconds(Math.max(...all.map((one) => one[key])));
  const sum = (key) => number(all.reduce((n, one) => n + one[key], 0));
  if (all.length > 0) {
    put('self', h('dt', null, when), h('dd', null, `probes began at most ${most('schedule_lag_seconds')} late, tokens were read at most ${most('read_lag_seconds')} late; `,
      `${sum('imprecise_probes')} of ${sum('probes')} probes could not be timed`));
  }
}
