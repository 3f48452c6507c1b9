// The events of a reply over time: each bar is at the time of the event, as high
// as the gap before it.
import { h, s, setText } from './dom.js';
import { plural, seconds } from './format.js';

const width = 1000;
const height = 90;

// gaps returns the events with the gap before each, in seconds; the first has
// none.
export function gaps(events) {
  return events.map((e, i) => ({ ...e, number: i + 1, gap: i === 0 ? undefined : Math.max(0, e.at_seconds - events[i - 1].at_seconds) }));
}

// longest returns the event with the longest gap before it.
export function longest(all) {
  return all.reduce((found, e) => (e.gap !== undefined && (found === undefined || e.gap > found.gap) ? e : found), undefined);
}

// timeline draws the events of a probe; null where there are fewer than two.
export function timeline(probe) {
  const all = gaps(probe.events ?? []);
  if (all.length < 2) return null;
  const first = all[0].at_seconds;
  const span = all.at(-1).at_seconds - first;
  if (!(span > 0)) return h('section', null, h('h3', null, `All ${all.length} events came at once, ${seconds(first)} after the start`));
  const most = longest(all);
  const merged = all.filter((e) => e.merged).length;
  const says = `Longest gap ${seconds(most.gap)} before event ${most.number}, ${seconds(most.at_seconds)} after the start` +
    (merged ? `. ${plural(merged, 'event')} merged: there at the latest, so the gaps beside are no measurements` : '');
  const readout = h('p', { class: 'small readout' }, says);
  const x = (e) => (e.at_seconds - first) / span * width;
  return h('section', { class: 'tokens' },
    h('h3', null, `Tokens over time: ${plural(all.length, 'event')} in ${seconds(span)}`),
    drawing(all, most, x, says, readout), legend(all), readout,
    h('details', null, h('summary', null, 'Every gap in numbers'), gapList(all)));
}

// kind says how an event is drawn.
const kind = (e, most) => (e === most ? 'longest' : e.merged ? 'merged' : e.reasoning ? 'reasoning' : 'answer');

function drawing(all, most, x, says, readout) {
  const thick = Math.max(1.5, Math.min(8, width / all.length * 0.6));
  const paths = {};
  for (const e of all) {
    const tall = Math.max(4, (e.gap ?? 0) / most.gap * height);
    const name = kind(e, most);
    paths[name] = `${paths[name] ?? ''}M${(x(e) - thick / 2).toFixed(1)} ${(height - tall).toFixed(1)}h${thick.toFixed(1)}V${height}h-${thick.toFixed(1)}z`;
  }
  const image = s('svg', { viewBox: `-5 0 ${width + 10} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': says },
    Object.entries(paths).map(([name, d]) => s('path', { class: name, d })));
  image.addEventListener('pointermove', (event) => {
    const at = (event.clientX - image.getBoundingClientRect().left) / image.clientWidth * (width + 10) - 5;
    setText(readout, describe(all.reduce((near, e) => (Math.abs(x(e) - at) < Math.abs(x(near) - at) ? e : near))));
  });
  image.addEventListener('pointerleave', () => setText(readout, says));
  return image;
}

function describe(e) {
  const parts = [`Event ${e.number} at ${seconds(e.at_seconds)}`];
  if (e.gap !== undefined) parts.push(`gap ${seconds(e.gap)}`);
  if (e.tokens) parts.push(plural(e.tokens, 'token'));
  if (e.merged) parts.push('merged');
  if (e.reasoning) parts.push('reasoning');
  return parts.join(', ');
}

function legend(all) {
  const names = { longest: 'longest gap', answer: 'answer' };
  if (all.some((e) => e.reasoning)) names.reasoning = 'reasoning';
  if (all.some((e) => e.merged)) names.merged = 'merged';
  return h('p', { class: 'legend small' }, Object.entries(names).map(([name, text]) => h('span', { class: name }, text)));
}

// gapList is made to be read and copied; each line is an event.
function gapList(all) {
  return h('pre', { tabindex: 0, 'aria-label': 'Events' }, all.map(describe).join('\n'));
}
