// What of the fleet is shown, and in which order: kept in the address, so that a
// link shows the same.
import { columns } from './columns.js';
import { states } from './words.js';

// The column by which the table is sorted until the reader chooses another.
const usual = columns.find((c) => c.id === 'state');

// fromAddress reads the choice; what is not understood is left out.
export function fromAddress() {
  const query = new URLSearchParams(location.search);
  const column = columns.find((c) => c.id === query.get('sort')) ?? usual;
  const direction = { asc: 1, desc: -1 }[query.get('dir')] ?? column.first;
  return {
    text: query.get('q') ?? '',
    states: new Set((query.get('state') ?? '').split(',').filter((s) => states.includes(s))),
    column, direction,
  };
}

// toAddress writes it without a new entry in the history.
export function toAddress(choice) {
  const query = new URLSearchParams();
  if (choice.text) query.set('q', choice.text);
  if (choice.states.size) query.set('state', states.filter((s) => choice.states.has(s)).join(','));
  if (choice.column !== usual || choice.direction !== usual.first) {
    query.set('sort', choice.column.id);
    query.set('dir', choice.direction > 0 ? 'asc' : 'desc');
  }
  const text = query.toString();
  history.replaceState(null, '', location.pathname + (text ? `?${text}` : ''));
}

// haystack is the text of a row that the filter looks through.
function haystack(row) {
  const labels = Object.entries(row.labels ?? {}).map(([k, v]) => `${k}=${v}`);
  return [row.name, row.model, row.url, row.engine, row.api, `state=${row.state}`, row.cause && `cause=${row.cause}`, row.why, ...labels]
    .filter(Boolean).join('\n').toLowerCase();
}

// choose returns the entries that are wanted, in order. Every word of the filter
// must be found. An entry is a row and, once somebody filters, its haystack.
export function choose(entries, choice) {
  const words = choice.text.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = [];
  for (const entry of entries) {
    if (choice.states.size && !choice.states.has(entry.row.state)) continue;
    if (words.length > 0) entry.text ??= haystack(entry.row);
    if (words.every((w) => entry.text.includes(w))) wanted.push({ entry, value: choice.column.value(entry.row) });
  }
  wanted.sort((a, b) => compare(a.value, b.value, choice.direction) || compare(a.entry.row.name, b.entry.row.name, 1));
  return wanted.map((w) => w.entry);
}

// compare puts what is not known last, in both directions.
function compare(a, b, direction) {
  if (a === b) return 0;
  if (a === undefined) return 1;
  if (b === undefined) return -1;
  return a < b ? -direction : direction;
}
