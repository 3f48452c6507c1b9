// The page of one endpoint.
import { Actions } from './actions.js';
import { Banner, isWrong } from './banner.js';
import { Charts } from './charts.js';
import { sync } from './clock.js';
import { Curves, showRungs } from './curve.js';
import { h, keyed, setText, unlessSame } from './dom.js';
import { clockTime, exactTime, number } from './format.js';
import { get, load, main, root, setJSON, setTitle, showError, start } from './frame.js';
import { gatewayLink, gatewaySection } from './gateways.js';
import { dashboards } from './links.js';
import { follow } from './live.js';
import { LoadTests } from './loadtest.js';
import { ProbeList } from './probes.js';
import { groups, lastFailed, rung, rungName, rungTable, seriesKey, tabs } from './series.js';
import { serversTable } from './servers.js';
import { retirement, since } from './state.js';
import { tiles } from './tiles.js';
import { icon, stateBadge, states, stateWord } from './words.js';

// Seconds between two questions for the detail, at least.
const pause = 2;

// The name is as many parts of the path as lead back to the root.
const name = location.pathname.split('/').slice(-root.length / 3).map(decodeURIComponent).join('/');
const path = `api/v1/endpoints/${encodeURIComponent(name)}`;

const head = h('header', { class: 'headline' });
const banner = new Banner();
const tabBar = h('div');
const subject = h('h2', { class: 'subject' });
const numbers = h('dl', { class: 'tiles' });
const rungs = h('div');
const curves = new Curves();
const loads = new LoadTests();
const charts = new Charts();
const probes = new ProbeList();
const gateway = h('section', { class: 'panel gateway', id: 'gateway', hidden: true });
const servers = h('section');
const changes = h('section', { class: 'panel', id: 'changes', hidden: true });
const actions = new Actions(path);
const chosen = { group: undefined, key: undefined };
let detail;
let causes; // of the state, where the exporter knows some

function drawHead() {
  const { name: title, state, since: from, model, engine, api, url, labels, gateway: front } = detail;
  unlessSame(head, [title, state, from, model, engine, api, url, labels, front?.name, front?.state, retirement(detail)], () => [
    h('div', { class: 'title' }, h('h1', null, title), stateBadge(state), from > 0 && since(detail)), retirement(detail) && h('p', null, retirement(detail)),
    h('p', { class: 'about' }, [model, engine, api].filter(Boolean).map((f) => h('span', { class: 'tag' }, f)), h('code', null, url),
      Object.entries(labels ?? {}).map(([k, v]) => h('span', { class: 'tag' }, `${k}=${v}`)), front && gatewayLink(front), dashboards(detail)),
  ]);
}

function drawSeries() {
  const found = groups(detail.series ?? []);
  const names = [...found.keys()];
  if (!found.has(chosen.group)) chosen.group = names.find((n) => found.get(n).some(lastFailed)) ?? names[0];
  const list = found.get(chosen.group) ?? [];
  const series = list.find((s) => seriesKey(s) === chosen.key) ?? list.at(-1);
  const findings = series && detail.findings?.find((f) => f.module === series.module);
  const bad = (n) => found.get(n).some(lastFailed);
  unlessSame(tabBar, [chosen.group, names.map((n) => [n, bad(n)])], () => (names.length > 1 ? [tabs('Series', names, chosen.group, bad, (n) => choose(n))] : []));
  drawNumbers(list, series, findings);
  unlessSame(rungs, [list.map((s) => [seriesKey(s), s.history.at.at(-1), s === series])], () => (
    list.length > 1 ? [rungTable(list, series, (s) => choose(chosen.group, seriesKey(s)))] : []));
  showRungs(curves, list, findings);
  panel.hidden = !series;
  actions.show(detail, series);
  if (!series) return;
  every.textContent = pace(series);
  charts.show(series);
  probes.show(series);
}

// drawNumbers draws the tiles of the chosen series under its name.
function drawNumbers(list, series, findings) {
  const name = [chosen.group, list.length > 1 && `${rungName(list).toLowerCase()}: ${number(rung(series))}`].filter(Boolean).join(', ');
  setText(subject, name);
  subject.hidden = !name;
  const { probes: latest, history, ...rest } = series ?? {};
  unlessSame(numbers, [rest, latest?.map((p) => p.trace_id), history?.at.at(-1), detail.servers, detail.ttft_parts, detail.users, detail.figures, findings], () => tiles(detail, series, findings));
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
  const from = [tabBar, rungs].find((e) => e.contains(document.activeElement));
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
  keyed(changes.lastChild, list.map((c) => [`${c.at} ${c.until ?? ''} ${c.module ?? ''} ${c.text}`, () => h('li', null,
    h('time', { title: exactTime(c.at) }, clockTime(c.at), c.until > 0 && ` – ${clockTime(c.until)}`),
    h('span', null, c.state && h('span', { class: `state ${states.includes(c.state) ? c.state : ''}` }, icon(c.state)), ' ', c.module && h('span', { class: 'tag' }, c.module), ' ', c.text))]));
}

function show(page) {
  detail = page;
  sync(page.at);
  setTitle(page.state === 'up' ? page.name : `${stateWord(page.state)}: ${page.name}`);
  if (!head.isConnected) main.replaceChildren(head, banner.element, actions.element, banner.over, tabBar, subject, numbers, rungs, curves.element, panel, loads.element, gateway, servers, changes, probes.element);
  drawHead();
  banner.show(page, causes);
  drawSeries();
  loads.show(detail.findings);
  gateway.hidden = !page.gateway;
  unlessSame(gateway, page.gateway, () => (page.gateway ? gatewaySection(page.gateway) : []));
  unlessSame(servers, [page.pages, page.replicas_differ], () => (page.pages?.length ? [serversTable(page.pages, page.replicas_differ)] : []));
  drawChanges();
}

// explain asks for the causes of a state that asks for a look, and shows them.
async function explain() {
  const all = isWrong(detail) ? (await get(`${path}/explain`)).findings : undefined;
  causes = all?.filter((c) => c.cause !== 'healthy');
  banner.show(detail, causes);
  await actions.record();
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
      await explain();
    } catch (error) {
      if (error.status === 404) showError(new Error(`The endpoint ${name} no longer exists.`));
    }
  }, Math.max(0, pause * 1000 - (performance.now() - asked)));
}

start();
setJSON(path);
setTitle(name);
if (await load(path, show)) {
  void explain().catch(() => {}); // the next refresh asks again
  stream = follow({
    url: () => `${root}api/v1/events?endpoint=${encodeURIComponent(name)}&since=${detail.version}`,
    names: ['endpoint', 'message'], onEvent: refresh, onOpen: refresh, onLost: refresh,
  });
}
