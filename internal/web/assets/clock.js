// What time it is at the server. Ages are computed by its clock, so that a wrong
// clock of the reader's machine makes no endpoint look old.
import { age, exactTime } from './format.js';
import { h, setText } from './dom.js';

let offset = Date.now() / 1000 - performance.now() / 1000;

// sync takes the time of an answer, in seconds since 1970.
export function sync(at) {
  if (at > 0) offset = at - performance.now() / 1000;
}

// now is the time at the server, in seconds since 1970.
export function now() {
  return performance.now() / 1000 + offset;
}

// ago makes an element that says how long ago a moment was and keeps saying it.
// The words are put before and after the age.
export function ago(at, before = '', after = ' ago') {
  const element = h('time', { 'data-at': at, 'data-before': before, 'data-after': after, title: exactTime(at) });
  update(element);
  return element;
}

function update(element) {
  const { at, before, after } = element.dataset;
  setText(element, before + age(now() - Number(at)) + after);
}

// tick brings all ages on the page up to date.
export function tick() {
  for (const element of document.querySelectorAll('time[data-at]')) update(element);
}
