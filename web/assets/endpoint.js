// The page of one endpoint.
import { ago, sync } from './clock.js';
import { Charts } from './charts.js';
import { h, keyed } from './dom.js';
import { clockTime, exactTime, number, plural, unknown } from './format.js';
import { get, load, main, root, setJSON, setTitle, showError, start } from './frame.js';
import { follow } from './live.js';
import { strip } from './outcomes.js';
import { ProbeList } from './probes.js';
import { burstTable, groups, lastFailed, seriesKey, tabs } from './series.js';
import { serversTable } from './servers.js';
import { bounds, meter, promised } from './values.js';
import { outcomeWord, stateBadge, stateWord } from './words.js';

// Seconds between two questions for the detail, at least.
const pause = 2;

// The name is as many parts of the path as lead back to the root.
const name = location.pathname.split('/').slice(-root.length / 3).map(decodeURIComponent).join('/');
const path = `api/v1/endpoints/${encodeURIComponent(name)}`;

const head = h('header', { class: 'headline' });
const trouble = h('section', { class: 'panel problem', 'aria-label': 'Failure', hidden: true });
const tiles = h('dl', { class: 'tiles' });
const tabBar = h('div');
const burst = h('div');
const charts = new Charts();
const probes = new ProbeList();
const servers = h('section');
const changes = h('section', { class: 'panel', hidden: true });
const chosen = { group: undefined, key: undefined };
let detail;

function drawHead() {
  const facts = [detail.model, detail.engine, detail.api].filter(Boolean);
  head.replaceChildren(
    h('div', { class: 'title' }, h('h1', null, detail.name), stateBadge(detail.state), detail.since > 0 && ago(detail.since, 'for ', '')),
    h('p', { class: 'about' }, facts.map((f) => h('span', { class: 'tag' }, f)), h('code', null, detail.url),
      Object.entries(detail.labels ?? {}).map(([k, v]) => h('span', { class: 'tag' }, `${k}=${v}`))));
}

// drawTrouble says what failed and what to check next; of a failure that is
// over it says so.
function drawTrouble() {
  const f = detail.failure;
  trouble.hidden = !f;
  if (!f) return;
  const over = detail.state === 'up';
  trouble.classList.toggle('over', over);
  trouble.replaceChildren(
    h('h2', null, over ? 'Last failure, over now: ' : 'Failing: ', outcomeWord(f.outcome), h('small', null, ` in ${f.module}, `, ago(f.at))),
    ...[
      f.message && h('pre', { class: 'said' }, f.message),
      f.advice && h('p', null, h('b', null, 'Check next: '), f.advice),
      detail.failing?.length > 0 && h('p', { class: 'small' }, `Failing modules: ${detail.failing.join(', ')}`),
    ].filter(Boolean));
}

function drawTiles() {
  const { slo, ttft_window: w, servers: load } = detail;
  const tile = (label, ...values) => h('div', null, h('dt', null, label), h('dd', null, values));
  const queue = load && (load.waiting !== undefined || load.running !== undefined);
  tiles.replaceChildren(
    tile('Latest probes', strip(detail.outcomes) ?? unknown, detail.last_at > 0 && h('span', { class: 'small' }, ago(detail.last_at, 'last '))),
    tile('TTFT', promised(detail.ttft_seconds, slo?.ttft_seconds)),
    tile('p50, last hour', promised(w?.p50, slo?.ttft_seconds), w && h('span', { class: 'small' }, plural(w.samples, 'probe'))),
    tile('p99, last hour', promised(w?.p99, slo?.ttft_seconds), bounds(w)),
    tile('TPOT', promised(detail.tpot_seconds, slo?.tpot_seconds)),
    tile('Duration', promised(detail.duration_seconds, slo?.e2e_seconds)),
    tile('Queue', queue ? `${number(load.waiting)} waiting` : unknown, queue && h('span', { class: 'small' }, `${number(load.running)} running`)),
    tile('KV cache', meter(load?.kv_cache_usage_ratio, 0.9)),
    tile('Prefix hits', meter(load?.prefix_cache_hit_ratio)));
}

function drawSeries() {
  const found = groups(detail.series ?? []);
  const names = [...found.keys()];
  if (!found.has(chosen.group)) chosen.group = names.find((n) => found.get(n).some(lastFailed)) ?? names[0];
  const list = found.get(chosen.group) ?? [];
  const series = list.find((s) => seriesKey(s) === chosen.key) ?? list.at(-1);
  const signature = JSON.stringify([names.map((n) => [n, found.get(n).some(lastFailed)]), chosen.group]);
  if (tabBar.dataset.signature !== signature && names.length > 1) {
    const focused = tabBar.contains(document.activeElement);
    tabBar.replaceChildren(tabs('Series', names, chosen.group, (n) => found.get(n).some(lastFailed), (n) => choose(n)));
    if (focused) tabBar.querySelector('[aria-selected="true"]').focus();
    tabBar.dataset.signature = signature;
  }
  burst.replaceChildren(...(list.some((s) => s.concurrency) ? [burstTable(list, series, (s) => choose(chosen.group, seriesKey(s)))] : []));
  panel.hidden = !series;
  if (!series) return;
  every.textContent = series.interval_seconds > 0 ? `Probed every ${number(series.interval_seconds)} s.` : '';
  charts.show(series);
  probes.show(series);
}

function choose(group, key) {
  Object.assign(chosen, { group, key });
  drawSeries();
}

const every = h('span', { class: 'every' });
const panel = h('section', { class: 'panel' }, h('h2', null, 'History ', every), charts.element);

function drawChanges() {
  const list = detail.changes ?? [];
  changes.hidden = list.length === 0;
  if (!changes.firstChild) changes.append(h('h2', null, 'What changed'), h('ol', { class: 'changes' }));
  keyed(changes.lastChild, list.map((c) => [`${c.at} ${c.module ?? ''} ${c.text}`, () => h('li', null,
    h('time', { title: exactTime(c.at) }, clockTime(c.at)), h('span', null, c.module && h('span', { class: 'tag' }, c.module), ' ', c.text))]));
}

function show(page) {
  detail = page;
  sync(page.at);
  setTitle(page.state === 'up' ? page.name : `${stateWord(page.state)}: ${page.name}`);
  if (!head.isConnected) main.replaceChildren(head, trouble, tiles, tabBar, burst, panel, servers, changes, probes.element);
  drawHead();
  drawTrouble();
  drawTiles();
  drawSeries();
  servers.replaceChildren(...(page.pages?.length ? [serversTable(page.pages)] : []));
  drawChanges();
}

let stream;
let asked = performance.now();
let timer = 0;

// refresh asks for the detail again, not sooner than a pause after the last time.
function refresh() {
  if (timer) return;
  timer = setTimeout(async () => {
    timer = 0;
    asked = performance.now();
    try {
      show(await get(path));
      stream.sign();
    } catch (error) {
      if (error.status === 404) showError(new Error(`The endpoint ${name} is not there any more.`));
    }
  }, Math.max(0, pause * 1000 - (performance.now() - asked)));
}

start();
setJSON(path);
setTitle(name);
if (await load(path, show)) {
  stream = follow({
    url: () => `${root}api/v1/events?endpoint=${encodeURIComponent(name)}&since=${detail.version}`,
    names: ['endpoint', 'message'], onEvent: refresh, onOpen: refresh, onLost: refresh,
  });
}
