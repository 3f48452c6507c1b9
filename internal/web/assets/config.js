// The page of the active configuration, secrets hidden: endpoints and the modules that
// they use come first, what holds for all of them later, other modules last.
import { h, setText } from './dom.js';
import { number } from './format.js';
import { load, main, searchKeys, setJSON, setTitle, start } from './frame.js';

const path = 'api/v1/config';
const unused = 'used by no endpoint';

// maxMarks bounds how many matches are marked.
const maxMarks = 1000;

const count = h('span', { class: 'count', role: 'status' });
const body = h('div');
const filter = h('input', { type: 'search', id: 'filter', placeholder: 'Search: endpoint, module, setting …  ( / )', 'aria-label': 'Search the configuration', autocomplete: 'off', spellcheck: 'false', input: draw });
let sections = []; // in the order of the page, each with its entries

// sectionsOf divides the YAML as the exporter writes it: sections at the margin, entries
// two columns in.
function sectionsOf(text) {
  const all = text.split(/^(?=\S)/m).map((section) => {
    const [head, ...entries] = section.split(/^(?= {2}\S)/m);
    return { name: head.split(':', 1)[0], head, entries };
  });
  const find = (name) => all.filter((s) => s.name === name);
  const rest = all.filter(({ name }) => name !== 'modules' && name !== 'global');
  const used = new Set(rest.flatMap((s) => s.entries).flatMap(modulesOf));
  const isUsed = (entry) => used.has(entry.trim().split(':', 1)[0]);
  const modules = (wanted) => find('modules').map((s) => ({ ...s, entries: s.entries.filter((e) => isUsed(e) === wanted), note: wanted ? '' : unused }));
  return [...rest, ...modules(true), ...find('global'), ...modules(false)];
}

// modulesOf lists the modules that an endpoint or a discovery names.
function modulesOf(entry) {
  const [, list] = entry.match(/^ +modules:\n((?: +- .*\n)+)/m) ?? [];
  return list ? list.trim().split(/\s*- /).filter(Boolean) : [];
}

// marked is a text in which words are marked.
function marked(text, words, budget) {
  if (words.length === 0) return [text];
  const pattern = new RegExp(`(${words.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|')})`, 'i');
  return text.split(pattern).map((part, i) => (i % 2 === 1 && budget.marks-- > 0 ? h('mark', null, part) : part));
}

// draw shows the entries that have all words.
function draw() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const budget = { marks: maxMarks };
  let shown = 0;
  body.replaceChildren(...sections.map(({ name, head, entries, note }) => {
    const found = entries.filter((entry) => words.every((w) => (head + entry).toLowerCase().includes(w)));
    if (entries.length > 0 && found.length === 0 || note === unused && entries.length === 0) return '';
    shown += found.length;
    return h('details', { open: note !== unused || words.length > 0 },
      h('summary', null, h('b', null, name), note && ` ${note}`, ` (${number(found.length)})`),
      h('pre', { class: 'panel', tabindex: 0, 'aria-label': name }, marked(head + found.join(''), words, budget)));
  }));
  setText(count, words.length > 0 ? `${number(shown)} found` : '');
}

function show(text) {
  sections = sectionsOf(text);
  main.replaceChildren(h('h1', null, 'The active configuration'),
    h('p', { class: 'small' }, 'With all defaults filled in. Secrets are hidden.'),
    h('div', { class: 'bar' }, filter, count), body);
  draw();
}

start();
setJSON(path);
setTitle('Config');
document.getElementById('json').textContent = 'This page as YAML';
searchKeys(filter, () => {
  filter.value = '';
  draw();
});
await load(path, show, 'text');
