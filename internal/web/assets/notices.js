// What the exporter has to say of itself above the table: a configuration that it
// refused, and discovered targets that it rejected.
import { h, unlessSame } from './dom.js';
import { plural } from './format.js';
import { get, root } from './frame.js';

const period = 15; // seconds

// notices is where they are shown.
export const notices = h('div', { class: 'notices', role: 'status' });

// watchExporter keeps them up to date while the page is looked at.
export function watchExporter() {
  void show();
  setInterval(() => document.hidden || show(), period * 1000);
}

async function show() {
  const { info, metrics } = await get('api/v1/self').catch(() => ({})); // the page says by itself when the exporter is away
  if (!info && !metrics) return;
  const refused = info && !info.config_ok ? info.config_error || 'see the log' : '';
  const rejected = (metrics ?? []).filter((m) => m.name === 'inference_exporter_discovery_rejected_targets' && m.value > 0)
    .map((m) => [m.labels?.reason ?? '', m.value]);
  unlessSame(notices, [refused, rejected], () => [refused && configuration(refused), rejected.length > 0 && targets(rejected)]);
}

const about = () => h('a', { href: `${root}self` }, 'The exporter itself');

const configuration = (error) => h('div', { class: 'panel problem' },
  h('b', null, 'The configuration was refused; the previous one remains active. '), h('span', { class: 'said' }, error), ' ', about());

function targets(rejected) {
  const all = rejected.reduce((sum, [, n]) => sum + n, 0);
  return h('div', { class: 'panel problem degraded' }, h('b', null, `${plural(all, 'discovered target')} rejected: `),
    rejected.map(([reason, n]) => `${n} ${reason.replaceAll('_', ' ')}`).join(', '), '. ', about());
}
