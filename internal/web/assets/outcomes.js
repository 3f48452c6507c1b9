// The strip of the latest runs: a low bar is a success, a middle one a success
// over an objective, a high one a failure, a dot a run that did not start.
import { s } from './dom.js';
import { plural } from './format.js';
import { outcomeWord } from './words.js';

const places = 30;
const step = 4;
const height = 16;

// How each character of the API is drawn: the class, and where the bar begins.
const shapes = { '.': ['good', 6], o: ['late', 3], x: ['bad', 0], '-': ['missed', 14] };

const count = (runs, character) => [...runs].filter((c) => c === character).length;

// summary says what a strip shows: "28 of 30 succeeded, 4 over the objective;
// last: timeout stall".
export function summary(runs, last) {
  const probes = runs.length - count(runs, '-');
  const parts = [`${probes - count(runs, 'x')} of ${probes} succeeded`];
  if (count(runs, 'o')) parts.push(`${count(runs, 'o')} over the objective`);
  if (count(runs, '-')) parts.push(`${plural(count(runs, '-'), 'run')} missed`);
  return parts.join(', ') + (last ? `; last: ${outcomeWord(last)}` : '');
}

// strip draws runs as the API writes them, the latest at the right; last is the
// outcome of the latest probe. Null is without runs.
export function strip(runs, last) {
  if (!runs) return null;
  const bars = {};
  const first = Math.max(0, places - runs.length);
  [...runs].slice(-places).forEach((run, i) => {
    const [kind, top] = shapes[run] ?? shapes['-'];
    bars[kind] = `${bars[kind] ?? ''}M${(first + i) * step} ${top}h3V${height}h-3z`;
  });
  const text = summary(runs, last);
  return s('svg', { class: 'strip', viewBox: `0 0 ${places * step - 1} ${height}`, width: places * step - 1, height, role: 'img', 'aria-label': text },
    s('title', null, text),
    Object.entries(bars).map(([kind, d]) => s('path', { class: kind, d })));
}
