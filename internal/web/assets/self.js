// The page of the exporter about itself: can its own numbers be trusted?
import { ago } from './clock.js';
import { h, scroller, setText } from './dom.js';
import { bytes, number, ratio, seconds, unknown } from './format.js';
import { load, main, repeat, searchKeys, setJSON, setTitle, start } from './frame.js';
import { icon } from './words.js';

const path = 'api/v1/self';
const period = 5; // seconds

let page = { metrics: [] };
const info = h('dl', { class: 'info' });
const body = h('tbody');
const count = h('span', { class: 'count', role: 'status' });
const filter = h('input', { type: 'search', id: 'filter', placeholder: 'Filter: name, help, label …  ( / )', 'aria-label': 'Filter metrics', autocomplete: 'off', spellcheck: 'false', input: drawMetrics });

// inUnit writes a value in the unit that the name of its metric has.
export function inUnit(name, value) {
  if (value === undefined) return unknown;
  const base = name.replace(/_total$/, '');
  if (base.endsWith('_timestamp_seconds')) return value > 0 ? ago(value) : unknown;
  if (base.endsWith('_seconds')) return seconds(value);
  if (base.endsWith('_bytes')) return bytes(value);
  if (base.endsWith('_ratio')) return ratio(value);
  return number(value);
}

function drawInfo() {
  const i = page.info;
  if (!i) return;
  const config = i.config_ok ? [icon('up'), 'active'] : [icon('down'), h('span', null, 'refused: the previous one remains active')];
  const rows = [
    ['Version', [i.version, i.revision && ` (${i.revision.slice(0, 12)})`]],
    ['Running', i.started !== undefined && [ago(i.started, 'for ', '')]],
    ['Configuration', [h('span', { class: `state ${i.config_ok ? 'up' : 'down'}` }, config)]],
    ['From', [i.config_file || 'flags']],
    ['Loaded', i.config_loaded !== undefined && [ago(i.config_loaded)]],
    ['Endpoints', [number(i.endpoints)]],
    ['Shard', i.shard_count > 1 && [`${number(i.shard_index)} of ${number(i.shard_count)}`]],
  ];
  info.replaceChildren(...rows.filter(([, v]) => v).map(([label, values]) => h('div', null, h('dt', null, label), h('dd', null, values))));
  if (i.config_error) info.append(h('div', { class: 'wide' }, h('dt', null, 'Configuration error'), h('dd', null, h('pre', null, i.config_error))));
}

// parts lets a name break after its underscores, and not within words.
const parts = (name) => name.split(/(?<=_)/).flatMap((part) => [part, h('wbr')]);

const labels = (m) => Object.entries(m.labels ?? {}).map(([k, v]) => `${k}="${v}"`).join(' ');

function row(m) {
  const value = m.count === undefined
    ? [inUnit(m.name, m.value)]
    : [m.count === 0 ? 'none yet' : inUnit(m.name, m.mean), h('span', { class: 'small' }, m.count > 0 && `mean of ${number(m.count)}`, m.p99_bound !== undefined && [', p99 under ', inUnit(m.name, m.p99_bound)])];
  return h('tr', null, h('td', null, h('b', null, parts(m.name)), m.labels && h('span', { class: 'small labels' }, labels(m))),
    h('td', { class: 'numeric' }, value), h('td', { class: 'help' }, m.help));
}

function drawMetrics() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = page.metrics.filter((m) => {
    const text = `${m.name} ${labels(m)} ${m.help}`.toLowerCase();
    return words.every((w) => text.includes(w));
  });
  setText(count, `${number(shown.length)} of ${number(page.metrics.length)}`);
  body.replaceChildren(...shown.map(row));
}

function show(answer) {
  page = { ...answer, metrics: answer.metrics ?? [] };
  if (!body.isConnected) {
    main.replaceChildren(h('h1', null, 'The exporter itself'), h('section', { class: 'panel' }, info),
      h('div', { class: 'bar' }, filter, count),
      scroller(h('table', null, h('caption', { class: 'unseen' }, 'Metrics about the exporter'),
        h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Metric'), h('th', { scope: 'col', class: 'numeric' }, 'Value'), h('th', { scope: 'col' }, 'Meaning'))), body)));
  }
  setTitle(page.info && !page.info.config_ok ? 'Configuration refused' : 'Self');
  drawInfo();
  drawMetrics();
}

start();
setJSON(path);
setTitle('Self');
searchKeys(filter, () => {
  filter.value = '';
  drawMetrics();
});
if (await load(path, show)) repeat(path, show, period);
