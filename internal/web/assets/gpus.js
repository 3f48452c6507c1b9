// The page of the GPUs.
import { ago } from './clock.js';
import { h } from './dom.js';
import { bytes, number, plural, ratio, unknown } from './format.js';
import { load, main, repeat, root, setJSON, setTitle, start } from './frame.js';
import { icon } from './words.js';

const path = 'api/v1/gpus';
const period = 5; // seconds

// share draws a part of a whole as text and bar; unknown without one.
function share(label, text, part, warn) {
  const bar = h('span', { class: `meter${part >= warn ? ' full' : ''}`, 'aria-hidden': 'true' }, h('span'));
  bar.hidden = part === undefined;
  if (part !== undefined) bar.firstChild.style.width = `${Math.min(100, Math.max(0, part * 100))}%`;
  return h('div', null, h('dt', null, label), h('dd', null, text, bar));
}

const withUnit = (v, unit) => (v === undefined ? unknown : `${number(Math.round(v))} ${unit}`);
const of = (part, whole) => (part === undefined || !(whole > 0) ? undefined : part / whole);

function power(gpu) {
  const limit = gpu.power_limit_watts === undefined ? '' : ` of ${withUnit(gpu.power_limit_watts, 'W')}`;
  return gpu.power_watts === undefined ? unknown : withUnit(gpu.power_watts, 'W') + limit;
}

function memory(gpu) {
  return gpu.memory_used_bytes === undefined ? unknown : `${bytes(gpu.memory_used_bytes)} of ${bytes(gpu.memory_total_bytes)}`;
}

// bandwidth is the share in use of what the hardware can do.
function bandwidth(gpu) {
  const { memory_bandwidth_utilization_ratio: used, memory_bandwidth_bytes_per_second: most } = gpu;
  if (most === undefined) return ratio(used);
  const peak = `${number(Math.round(most / 1e9))} GB/s`;
  return used === undefined ? `${unknown} of ${peak}` : `${ratio(used)} of ${peak}`;
}

function readings(gpu) {
  return h('dl', { class: 'readings' },
    share('Memory', memory(gpu), of(gpu.memory_used_bytes, gpu.memory_total_bytes), 0.97),
    share('Busy', ratio(gpu.utilization_ratio), gpu.utilization_ratio),
    share('SMs active', ratio(gpu.sm_active_ratio), gpu.sm_active_ratio),
    share('Memory bandwidth', bandwidth(gpu), gpu.memory_bandwidth_utilization_ratio),
    share('Power', power(gpu), of(gpu.power_watts, gpu.power_limit_watts)),
    share('Temperature', withUnit(gpu.temperature_celsius, '°C')));
}

function troubles(gpu) {
  const list = gpu.problems ?? [];
  return [
    list.length > 0 && h('ul', { class: 'problems' }, list.map((p) => h('li', null, icon('down'), h('span', null, p)))),
    gpu.throttle?.length > 0 && h('p', { class: 'throttle' }, icon('degraded'), h('span', null, `Slowed down: ${gpu.throttle.join(', ')}`)),
  ];
}

function processes(gpu) {
  if (!gpu.processes?.length) return null;
  return h('table', { class: 'processes' }, h('caption', { class: 'unseen' }, 'Processes'),
    h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Process'), h('th', { scope: 'col', class: 'numeric' }, 'PID'), h('th', { scope: 'col', class: 'numeric' }, 'Memory'))),
    h('tbody', null, gpu.processes.map((p) => h('tr', null,
      h('td', null, p.name || unknown), h('td', { class: 'numeric' }, String(p.pid)), h('td', { class: 'numeric' }, bytes(p.memory_used_bytes))))));
}

// endpoints links to those that the GPU serves, as far as that is known.
function endpoints(gpu) {
  const names = gpu.endpoints ?? [];
  return names.length > 0 && h('p', { class: 'serves' }, 'Serves ', names.map((name, i) => [i > 0 && ', ', h('a', { href: `${root}endpoint/${encodeURIComponent(name)}` }, name)]));
}

function card(gpu) {
  const bad = gpu.problems?.length > 0;
  return h('section', { class: bad ? 'panel gpu problem' : 'panel gpu' },
    h('h2', null, gpu.profile ? `MIG ${gpu.profile} of GPU ${gpu.gpu}` : `GPU ${gpu.gpu}`,
      h('span', { class: 'small' }, [gpu.name || gpu.vendor, gpu.host && `on ${gpu.host}`].filter(Boolean).join(' '))),
    h('p', { class: 'small uuid' }, gpu.uuid), endpoints(gpu), troubles(gpu), readings(gpu), processes(gpu));
}

// sources shows what each source found, where there are several.
function sources(page) {
  if (!(page.sources?.length > 1)) return null;
  return h('table', { class: 'sources' }, h('caption', { class: 'unseen' }, 'Sources'),
    h('thead', null, h('tr', null, ...['Source', 'State', 'GPUs', 'Driver', 'Reads'].map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', null, page.sources.map((s) => h('tr', null,
      h('td', null, s.source), h('td', null, s.error ? `${s.state}: ${s.error}` : s.state), h('td', { class: 'numeric' }, String(s.found)),
      h('td', null, s.driver || unknown), h('td', { class: 'small' }, s.reads?.join(', ') ?? unknown)))));
}

// state says in words how the driver is doing.
function state(page) {
  const parts = [page.driver && `Driver ${page.driver}`, page.cuda && `CUDA ${page.cuda}`].filter(Boolean);
  return h('p', { class: 'about' }, h('b', null, page.state), parts.length > 0 && ` · ${parts.join(' · ')}`,
    page.at > 0 && [' · read ', ago(page.at)]);
}

function show(page) {
  const gpus = page.gpus ?? [];
  const bad = gpus.filter((g) => g.problems?.length > 0).length;
  setTitle(bad ? `${plural(bad, 'GPU')} with problems` : 'GPUs');
  main.replaceChildren(...[
    h('h1', null, 'GPUs'), sources(page) ?? state(page),
    page.simulated && h('p', { class: 'panel simulated' }, h('b', null, 'Simulated: '), 'no hardware made these readings.'),
    !(page.sources?.length > 1) && page.error && h('pre', { class: 'panel' }, page.error),
    h('div', { class: 'gpus' }, gpus.map(card)),
  ].filter(Boolean));
}

start();
setJSON(path);
setTitle('GPUs');
if (await load(path, show)) repeat(path, show, period);
