// The table of the turns of conversations, with and without a session header.
import { h, scroller } from './dom.js';
import { number, ratio, seconds, unknown } from './format.js';

const affinities = { session: 'With the session header', none: 'Without' };
const figures = [
  ['Prompt from the cache', 'prefix_cache_hit_ratio', ratio],
  ['TTFT, median', 'ttft_seconds', seconds],
  ['Same replica as before', 'same_replica_ratio', ratio],
];

// turnsTable lists the turns that findings hold, one row for each.
export function turnsTable(turns) {
  const known = Object.keys(affinities).filter((a) => turns.some((t) => t.affinity === a));
  const heads = known.flatMap((a) => figures.map(([label]) => (known.length > 1 ? `${label}, ${affinities[a].toLowerCase()}` : label)));
  const numbers = [...new Set(turns.map((t) => t.turn))];
  return h('section', null, h('h2', null, 'Conversations'), scroller(h('table', { class: 'wide' },
    h('caption', { class: 'unseen' }, 'Turns of the latest conversations'),
    h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Turn'), heads.map((label) => h('th', { scope: 'col', class: 'numeric' }, label)))),
    h('tbody', null, numbers.map((n) => h('tr', null, h('th', { scope: 'row' }, number(n)),
      known.flatMap((a) => figures.map(([, key, write]) => cell(turns.find((t) => t.turn === n && t.affinity === a)?.[key], write)))))))));
}

const cell = (value, write) => h('td', { class: 'numeric' }, value === undefined ? unknown : write(value));
