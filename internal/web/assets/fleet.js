// The page of all endpoints.
import { choose, fromAddress, toAddress } from './choice.js';
import { sync } from './clock.js';
import { columns } from './columns.js';
import { h, setText } from './dom.js';
import { number, plural } from './format.js';
import { load, main, root, searchKeys, setTitle, start } from './frame.js';
import { gateways, watchGateways } from './gateways.js';
import { follow } from './live.js';
import { notices, watchExporter } from './notices.js';
import { Table } from './table.js';
import { icon, stateMeaning, states, stateWord } from './words.js';

const entries = new Map(); // by name: the row
const choice = fromAddress();
const page = { version: 0, states: {} };

function takeRows(rows) {
  for (const row of rows ?? []) entries.set(row.name, { row });
}

function takeHead(message) {
  sync(message.at);
  page.version = message.version;
  page.states = message.states ?? {};
}

// apply brings the table up to date with a message of the stream.
function apply(update) {
  takeHead(update);
  if (update.reset) entries.clear();
  for (const name of update.removed ?? []) entries.delete(name);
  takeRows(update.endpoints);
  draw();
}

const table = new Table((column) => {
  const same = column === choice.column;
  sortBy(column, same ? -choice.direction : column.first);
});

function sortBy(column, direction) {
  Object.assign(choice, { column, direction });
  chosen();
}

// chosen is called when the reader wants to see something else.
function chosen() {
  toAddress(choice);
  draw(true);
}

const filter = h('input', {
  type: 'search', id: 'filter', placeholder: 'Filter: name, model, URL, label=value …  ( / )', 'aria-label': 'Filter endpoints',
  autocomplete: 'off', spellcheck: 'false', input: () => {
    choice.text = filter.value;
    chosen();
  },
});

const chips = new Map(states.map((state) => [state, h('button', {
  type: 'button', class: `chip ${state}`, title: stateMeaning(state), 'aria-pressed': 'false', click: () => {
    if (!choice.states.delete(state)) choice.states.add(state);
    chosen();
  },
})]));

// The order for screens without room for headings.
const order = h('select', { 'aria-label': 'Sort by', change: () => {
  const column = columns[order.selectedIndex];
  sortBy(column, column.first);
} }, columns.map((c) => h('option', { value: c.id }, `Sort by ${c.label}`)));

const nothing = h('div', { class: 'panel empty', hidden: true });

function drawChips() {
  for (const [state, chip] of chips) {
    chip.replaceChildren(icon(state), h('b', null, number(page.states[state] ?? 0)), ` ${stateWord(state).toLowerCase()}`);
    chip.setAttribute('aria-pressed', String(choice.states.has(state)));
    chip.classList.toggle('none', !page.states[state]);
    chip.hidden = ['flapping', 'asleep', 'muted'].includes(state) && !page.states[state] && !choice.states.has(state);
  }
}

// drawNothing says why the table is empty and what to do.
function drawNothing(count) {
  nothing.hidden = count > 0;
  table.element.hidden = count === 0;
  if (count > 0) return;
  if (entries.size === 0) {
    nothing.replaceChildren(h('h2', null, 'No endpoints yet'),
      h('p', null, 'The configuration names none, or the discovery of endpoints has found none so far. ',
        h('a', { href: `${root}config` }, 'Look at the configuration')));
    return;
  }
  nothing.replaceChildren(h('h2', null, 'No endpoint matches'), h('button', { type: 'button', click: clear }, `Show all ${number(entries.size)}`));
}

function clear() {
  if (!choice.text && !choice.states.size) return;
  choice.text = filter.value = '';
  choice.states.clear();
  chosen();
}

function headline() {
  const bad = ['down', 'flapping', 'degraded', 'slow', 'stale'].filter((s) => page.states[s] > 0);
  return bad.length ? `${number(page.states[bad[0]])} ${bad[0]}` : '';
}

const count = h('p', { class: 'count', role: 'status' });

function draw(reset = false) {
  const wanted = choose(entries.values(), choice);
  drawChips();
  drawNothing(wanted.length);
  order.value = choice.column.id;
  setText(count, wanted.length === entries.size ? plural(entries.size, 'endpoint') : `${number(wanted.length)} of ${plural(entries.size, 'endpoint')}`);
  table.show(wanted, choice, reset);
  setTitle(headline());
}

function show(fleet) {
  takeHead(fleet);
  takeRows(fleet.endpoints);
  filter.value = choice.text;
  main.replaceChildren(h('h1', { class: 'unseen' }, 'Fleet'), notices, gateways,
    h('div', { class: 'bar' }, h('div', { class: 'chips', role: 'group', 'aria-label': 'States' }, [...chips.values()]), filter, order, count),
    nothing, table.element);
  draw(true);
  performance.mark('first-rows');
}

start();
searchKeys(filter, clear);
if (await load('api/v1/endpoints', show)) {
  watchExporter();
  watchGateways();
  follow({ url: () => `${root}api/v1/events?since=${page.version}`, names: ['update', 'message'], onEvent: apply });
}
