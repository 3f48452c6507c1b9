// The table of the servers behind an endpoint, as their own pages report them.
import { ago } from './clock.js';
import { h, scroller } from './dom.js';
import { clockTime, exactTime, number, unknown } from './format.js';
import { meter } from './values.js';
import { icon } from './words.js';

const states = {
  up: ['up', 'Read'], down: ['down', 'No page'], unreadable: ['degraded', 'Unreadable'], unmapped: ['degraded', 'Unknown engine'],
};

// serversTable lists them, those with trouble first, and says in which settings they have differed for long.
export function serversTable(pages, differ = []) {
  const sorted = [...pages].sort((a, b) => (a.state === 'up') - (b.state === 'up'));
  const heads = [['Server'], ['Page'], ['Waiting', 1], ['Running', 1], ['KV cache', 1], ['Prefix hits', 1], ['Preemptions', 1], ['Read', 1]];
  return h('section', null, h('h2', null, 'Servers'), scroller(h('table', { class: 'wide' },
    h('caption', { class: 'unseen' }, 'Servers'),
    h('thead', null, h('tr', null, heads.map(([label, numeric]) => h('th', { scope: 'col', class: numeric && 'numeric' }, label)))),
    h('tbody', null, sorted.map(row)))),
  differ.map((d) => h('p', null, h('b', null, 'Not started alike: '), `${d.setting} is `,
    Object.entries(d.values).map(([value, of]) => `${value} on ${of.join(', ')}`).join('; '), ', since ', h('time', { title: exactTime(d.since) }, clockTime(d.since)), '.')));
}

function row(server) {
  const [kind, word] = states[server.state] ?? ['waiting', 'Unknown'];
  const values = server.values ?? {};
  const why = server.error || server.reason;
  const cells = [
    number(values.requests_waiting), number(values.requests_running), meter(values.kv_cache_usage_ratio, 0.9),
    meter(server.prefix_cache_hit_ratio), number(values.preemptions), server.at > 0 ? ago(server.at) : unknown,
  ];
  return h('tr', null,
    h('td', { class: 'server' }, h('b', null, server.server), server.engine && h('span', { class: 'small' }, server.engine), why && h('span', { class: 'small said' }, why)),
    h('td', null, h('span', { class: `state ${kind}` }, icon(kind), word)),
    cells.map((c) => h('td', { class: 'numeric' }, c)));
}
