// The page of one endpoint.
import { ago, sync } from './clock.js';
import { Charts } from './charts.js';
import { h, keyed, unlessSame } from './dom.js';
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
  const { name: title, state, since, model, engine, api, url, labels } = detail;
  unlessSame(head, [title, state, since, model, engine, api, url, labels], () => [
    h('div', { class: 'title' }, h('h1', null, title), stateBadge(state), since > 0 && ago(since, 'for ', '')),
    h('p', { class: 'about' }, [model, engine, api].filter(Boolean).map((f) => h('span', { class: 'tag' }, f)), h('code', null, url),
      Object.entries(labels ?? {}).map(([k, v]) => h('span', { class: 'tag' }, `${k}=${v}`))),
  ]);
}

// drawTrouble says what failed and what to check next; of a failure that is
// over it says so.
function drawTrouble() {
  const { failure: f, failing } = detail;
  const over = !failing?.length;
  trouble.hidden = !f;
  trouble.classList.toggle('over', over);
  unlessSame(trouble, [f, failing, over], () => (f ? [
    h('h2', null, over ? 'Last failure, over now: ' : 'Failing: ', outcomeWord(f.outcome), h('small', null, ` in ${f.module}, `, ago(f.at))),
    f.message && h('pre', { class: 'said' }, f.message),
    f.advice && h('p', null, h('b', null, 'Check next: '), f.advice),
    failing?.length > 0 && h('p', { class: 'small' }, `Failing modules: ${failing.join(', ')}`),
  ] : []));
}

function drawTiles() {
  const { slo, ttft_window: w, servers: load, outcomes, last_at: last, ttft_seconds: ttft, tpot_seconds: tpot, duration_seconds: duration } = detail;
  const queue = load && (load.waiting !== undefined || load.running !== undefined);
  unlessSame(tiles, [slo, w, load, outcomes, last, ttft, tpot, duration], () => [
    tile('Latest probes', strip(outcomes) ?? unknown, last > 0 && h('span', { class: 'small' }, ago(last, 'last '))),
    tile('TTFT', promised(ttft, slo?.ttft_seconds)),
    tile('p50, last hour', promised(w?.p50, slo?.ttft_seconds), w && h('span', { class: 'small' }, plural(w.samples, 'probe'))),
    tile('p99, last hour', promised(w?.p99, slo?.ttft_seconds), bounds(w)),
    tile('TPOT', promised(tpot, slo?.tpot_seconds)),
    tile('Duration', promised(duration, slo?.e2e_seconds)),
    tile('Queue', queue ? `${number(load.waiting)} waiting` : unknown, queue && h('span', { class: 'small' }, `${number(load.running)} running`),
      queue && load.up < load.known && h('span', { class: 'small' }, `of ${load.up} of ${plural(load.known, 'server')}`)),
    tile('KV cache', meter(load?.kv_cache_usage_ratio, 0.9)),
    tile('Prefix hits', meter(load?.prefix_cache_hit_ratio)),
  ]);
}

const tile = (label, ...values) => h('div', null, h('dt', null, label), h('dd', null, values));

function drawSeries() {
  const found = groups(detail.series ?? []);
  const names = [...found.keys()];
  if (!found.has(chosen.group)) chosen.group = names.find((n) => found.get(n).some(lastFailed)) ?? names[0];
  const list = found.get(chosen.group) ?? [];
  const series = list.find((s) => seriesKey(s) === chosen.key) ?? list.at(-1);
  const bad = (n) => found.get(n).some(lastFailed);
  unlessSame(tabBar, [chosen.group, names.map((n) => [n, bad(n)])], () => (names.length > 1 ? [tabs('Series', names, chosen.group, bad, (n) => choose(n))] : []));
  const sizes = list.filter((s) => s.concurrency);
  unlessSame(burst, sizes.map((s) => [seriesKey(s), s.history.at.at(-1), s === series]), () => (
    sizes.length > 0 ? [burstTable(sizes, series, (s) => choose(chosen.group, seriesKey(s)))] : []));
  panel.hidden = !series;
  if (!series) return;
  every.textContent = pace(series);
  charts.show(series);
  probes.show(series);
}

// pace says how often a series is due and, where that is less, how often it was
// probed lately: by the median of the latest gaps, as failures are confirmed soon.
function pace({ interval_seconds: interval, history: { at } }) {
  if (!(interval > 0)) return '';
  const latest = at.slice(-11);
  const gaps = latest.slice(1).map((t, i) => t - latest[i]).sort((a, b) => a - b);
  const median = gaps[Math.floor(gaps.length / 2)];
  if (!(median > 1.25 * interval)) return `Probed every ${number(interval)} s.`;
  return `Due every ${number(interval)} s, lately probed every ${number(Math.round(median))} s: see probes that did not run.`;
}

function choose(group, key) {
  const from = [tabBar, burst].find((e) => e.contains(document.activeElement));
  Object.assign(chosen, { group, key });
  drawSeries();
  from?.querySelector('[aria-selected="true"], [aria-pressed="true"]')?.focus();
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
  unlessSame(servers, page.pages, () => (page.pages?.length ? [serversTable(page.pages)] : []));
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
      if (error.status === 404) showError(new Error(`The endpoint ${name} no longer exists.`));
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
