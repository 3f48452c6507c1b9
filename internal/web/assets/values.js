// Values beside the threshold that is promised for them.
import { h } from './dom.js';
import { ratio, seconds } from './format.js';

// over returns whether a duration is known and misses its threshold.
export const over = (value, threshold) => value !== undefined && threshold !== undefined && value > threshold;

// promised writes a duration, marked where it is over its threshold; a note is what
// else there is to know of it.
export function promised(value, threshold, note) {
  if (!over(value, threshold)) return h('span', { class: 'value', title: note }, seconds(value), note && h('span', { class: 'unseen' }, `, ${note}`));
  const text = [`over the threshold of ${seconds(threshold)}`, note].filter(Boolean).join(', ');
  return h('span', { class: 'value over', title: text },
    h('span', { class: 'mark', 'aria-hidden': 'true' }, '▲'), seconds(value), h('span', { class: 'unseen' }, `, ${text}`));
}

// past writes, in pale, a duration of an earlier probe than the latest.
export const past = (value, threshold) => h('span', { class: 'past' },
  promised(value, threshold, value !== undefined && 'of an earlier probe: the latest has no precise value'));

// atLeast writes a share, marked where it is under the one that is promised.
export function atLeast(value, threshold) {
  if (value === undefined || value >= threshold) return h('span', { class: 'value' }, ratio(value));
  const text = `under the threshold of ${ratio(threshold)}`;
  return h('span', { class: 'value over', title: text },
    h('span', { class: 'mark', 'aria-hidden': 'true' }, '▼'), ratio(value), h('span', { class: 'unseen' }, `, ${text}`));
}

// between says where the 99th percentile of a window lies, each bound with 95 %
// confidence: "380 ms – 1.2 s", or the one bound that the samples carry; null without.
export function between({ p99_lower: lower, p99_upper: upper } = {}) {
  if (lower === undefined && upper === undefined) return null;
  return lower === undefined ? `≤ ${seconds(upper)}` : upper === undefined ? `≥ ${seconds(lower)}` : `${seconds(lower)} – ${seconds(upper)}`;
}

// meter is a share of 1 as number and bar; a fuller one is worse from warn on.
export function meter(value, warn) {
  if (value === undefined) return ratio(value);
  const bar = h('span', { class: `meter${value >= warn ? ' full' : ''}`, 'aria-hidden': 'true' }, h('span'));
  bar.firstChild.style.width = `${Math.min(100, Math.max(0, value * 100))}%`;
  return h('span', { class: 'metered' }, h('span', { class: 'value' }, ratio(value)), bar);
}
