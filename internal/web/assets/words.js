// The closed sets of the API in words and shapes. Each state has a shape of its
// own, so that colour is never the only sign.
import { h, s } from './dom.js';

// states lists the states, the worst first.
export const states = ['down', 'flapping', 'degraded', 'slow', 'stale', 'waiting', 'asleep', 'muted', 'up'];

const stateWords = { down: 'Down', flapping: 'Flapping', degraded: 'Degraded', slow: 'Slow', stale: 'Stale', waiting: 'Waiting', asleep: 'Asleep', muted: 'Muted', up: 'Up' };

const stateMeanings = {
  down: 'no probe succeeds',
  flapping: 'down again and again, and well in between',
  degraded: 'some probes fail, or one failure is not confirmed yet',
  slow: 'every module succeeds, one over its objective',
  stale: 'no result for three intervals',
  waiting: 'no result yet',
  asleep: 'the model sleeps, and no probe wakes it',
  muted: 'probes go on, alerts are silent until the mute ends',
  up: 'every module succeeds',
};

// Shapes in a box of 16 by 16, drawn in the colour of the state.
const shapes = {
  down: 'M3.2 1 8 5.8 12.8 1 15 3.2 10.2 8 15 12.8 12.8 15 8 10.2 3.2 15 1 12.8 5.8 8 1 3.2z',
  flapping: 'M4.5 0 9 4.5H6V16H3V4.5H0zM11.5 16 7 11.5h3V0h3v11.5h3z',
  degraded: 'M8 1 15.5 14.5H.5zM7.1 6v4h1.8V6zm0 5.2V13h1.8v-1.8z',
  slow: 'M3 1h10v2.2L9.3 8l3.7 4.8V15H3v-2.2L6.7 8 3 3.2z',
  stale: 'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 2a5 5 0 1 1 0 10A5 5 0 0 1 8 3zM7.2 4.5v4.2l3.2 1.9.8-1.3-2.4-1.4V4.5z',
  waiting: 'M1 6.5h3v3H1zm5.5 0h3v3h-3zm5.5 0h3v3h-3z',
  asleep: 'M11 1.5A6.8 6.8 0 1 0 14.6 11 5.4 5.4 0 0 1 11 1.5z',
  muted: 'M1 5.5h3L8 2v12l-4-3.5H1zM10.2 5.2l1.1-1.1L13 5.8l1.7-1.7 1.1 1.1L14.1 7l1.7 1.7-1.1 1.1L13 8.1l-1.7 1.7-1.1-1.1L11.9 7z',
  up: 'M6.2 13.5.8 8.1 3 5.9l3.2 3.2L13 2.3l2.2 2.2z',
};

// stateWord is a state in a word.
export const stateWord = (state) => stateWords[state] ?? 'Unknown';

// stateMeaning says what a state means.
export const stateMeaning = (state) => stateMeanings[state] ?? '';

// icon draws the shape of a state; the word beside it says the same.
export function icon(state) {
  return s('svg', { class: 'icon', viewBox: '0 0 16 16', width: 14, height: 14, 'aria-hidden': 'true' },
    s('path', { d: shapes[state] ?? shapes.waiting, 'fill-rule': 'evenodd' }));
}

// stateBadge is a state as shape and word.
export function stateBadge(state) {
  return h('span', { class: `state ${states.includes(state) ? state : ''}`, title: stateMeaning(state) },
    icon(state), stateWord(state));
}

// outcomeWord is the outcome of a probe in words: those of the API, spaced.
export const outcomeWord = (outcome) => String(outcome ?? 'unknown').replaceAll('_', ' ');

// outcomeBadge is an outcome as shape and words.
export function outcomeBadge(outcome) {
  const good = outcome === 'success';
  return h('span', { class: `state ${good ? 'up' : 'down'}` }, icon(good ? 'up' : 'down'), outcomeWord(outcome));
}
