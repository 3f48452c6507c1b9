// The columns of the table of endpoints: what each shows, and what it is sorted
// by.
import { ago } from './clock.js';
import { h } from './dom.js';
import { hourMinute, number, plural, ratio, unknown } from './format.js';
import { root } from './frame.js';
import { runbook, runbookOf } from './links.js';
import { strip } from './outcomes.js';
import { counts, mute, otherModel, pages, retirement } from './state.js';
import { between, meter, past, promised } from './values.js';
import { outcomeWord, stateBadge, states } from './words.js';

// columns lists them. cells(row) returns what a cell holds, value(row) a number
// or text to sort by, undefined where it is not known. first is the direction
// of the first click: the worst first; short is the label on a phone. A column
// that is under another shares its cells.
export const columns = [
  { id: 'name', label: 'Endpoint', first: 1, value: (r) => r.name, cells: nameCells },
  { id: 'state', label: 'State', first: 1, value: (r) => states.indexOf(r.state), cells: stateCells },
  { id: 'error', label: 'Why', hint: 'Why the endpoint is in its state; in pale letters the last failure, which is over', first: -1, value: (r) => r.failure?.at, cells: whyCells },
  { id: 'recent', label: 'Latest probes', first: 1, value: recent, cells: (r) => [strip(r.runs, r.outcomes?.at(-1)) ?? unknown] },
  { id: 'ttft', label: 'TTFT', hint: 'Time to first token of the latest probe', numeric: true, first: -1, value: (r) => r.ttft_seconds, cells: ttftCells },
  { id: 'p50', label: 'p50 1 h', hint: 'Median time to first token of the last hour', numeric: true, first: -1, value: (r) => r.ttft_window?.p50, cells: p50Cells },
  { id: 'p99', under: 'p50', label: 'p99 1 h', hint: 'The time to first token that 99 of 100 probes of the last hour stay under, with its 95 % bounds', numeric: true, first: -1, value: (r) => r.ttft_window?.p99, cells: p99Cells },
  { id: 'tpot', label: 'TPOT', hint: 'Time per output token of the latest probe', numeric: true, first: -1, value: (r) => r.tpot_seconds, cells: (r) => lately(r, 'tpot_seconds', r.slo?.tpot_seconds) },
  { id: 'queue', label: 'Queue', hint: 'Requests that wait and that run, as the servers report them', numeric: true, first: -1, value: (r) => r.servers?.waiting, cells: queueCells },
  { id: 'kv', label: 'KV cache', short: 'KV', hint: 'Use of the fullest KV cache', numeric: true, first: -1, value: (r) => r.servers?.kv_cache_usage_ratio, cells: (r) => [meter(r.servers?.kv_cache_usage_ratio, 0.9)] },
  { id: 'hits', under: 'kv', label: 'Prefix hits', hint: 'Share of prompt tokens that the prefix cache had', numeric: true, first: 1, value: (r) => r.servers?.prefix_cache_hit_ratio, cells: hitsCells },
];

const small = (...children) => h('span', { class: 'small' }, ...children);

function stateCells(row) {
  const said = row.failed_since > 0 && counts(row); // what a slow one is slow by is in its reason
  return [stateBadge(row.state), row.since > 0 && [' ', ago(row.since, '', ''), small(`since ${hourMinute(row.since)}`)], said && small(said), row.incident && small(pages(row)), row.muted && small(mute(row))];
}

function nameCells(row) {
  const about = [row.model, row.engine].filter(Boolean).join(' · ');
  return [
    h('a', { class: 'name', href: `${root}endpoint/${encodeURIComponent(row.name)}` }, row.name),
    small(about || row.url), row.model_changed && small(otherModel(row)), row.retires_at && small(retirement(row)),
  ];
}

function recent(row) {
  if (!row.outcomes?.length) return undefined;
  return row.outcomes.filter((o) => o === 'success').length / row.outcomes.length;
}

// lately shows a time of the latest probe, else the one before that is certain.
function lately({ earlier, ...row }, key, threshold) {
  if (!earlier) return [promised(row[key], threshold)];
  return [past(earlier[key], threshold), small(ago(earlier.at))];
}

// ttftCells shows the time of the whole reply where no tokens come one by one,
// as from a model that embeds.
function ttftCells(row) {
  const times = row.earlier ?? row;
  if (times.ttft_seconds !== undefined || times.duration_seconds === undefined) return lately(row, 'ttft_seconds', row.slo?.ttft_seconds);
  return [...lately(row, 'duration_seconds', row.slo?.e2e_seconds), small('whole reply')];
}

function p50Cells({ ttft_window: w, slo }) {
  return [promised(w?.p50, slo?.ttft_seconds, w && `of ${plural(w.samples, 'probe')}`)];
}

// p99Cells shows the bounds where there are too few probes for the percentile, and how
// many there are where there are too few for those.
function p99Cells({ ttft_window: w, slo }) {
  const where = between(w);
  if (w?.p99 === undefined) return [w && small(where ? `p99 ${where}` : plural(w.samples, 'probe'))];
  return [small('p99 ', promised(w.p99, slo?.ttft_seconds, where))];
}

function hitsCells({ servers }) {
  const hits = servers?.prefix_cache_hit_ratio;
  return [hits !== undefined && small(`${ratio(hits)} hits`)];
}

function queueCells(row) {
  const load = row.servers;
  if (load?.waiting === undefined && load?.running === undefined) return [unknown];
  return [
    h('span', { class: 'value' }, `${number(load.waiting)} waiting`),
    small(`${number(load.running)} running`),
    load.up < load.known && small(`of ${load.up} of ${plural(load.known, 'server')}`),
  ];
}

// whyCells shows why a row is in its state, else its last failure.
function whyCells(row) {
  const { why, failure: f } = row;
  const fails = row.failing?.length > 0;
  if (why) {
    return [
      h('span', { class: 'failure', title: why }, why),
      small(row.cause && ['cause: ', h('b', null, row.cause.replaceAll('_', ' ')), ' '], fails && f && ['failed ', ago(f.at), ' '], runbook(runbookOf(row), 'Runbook')),
    ];
  }
  if (!f) return [unknown];
  return [
    h('span', { class: fails ? 'failure' : 'failure past', title: f.message },
      h('b', null, outcomeWord(f.outcome)), f.message && `: ${f.message}`),
    small(ago(f.at), ` in ${f.module}`),
  ];
}
