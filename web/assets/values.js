// Values beside the threshold that is promised for them.
import { h } from './dom.js';
import { ratio, seconds } from './format.js';

// over returns whether a duration is known and misses its threshold.
export const over = (value, threshold) => value !== undefined && threshold !== undefined && value > threshold;

// promised writes a duration, marked where it is over its threshold.
export function promised(value, threshold) {
  if (!over(value, threshold)) return h('span', { class: 'value' }, seconds(value));
  const text = `over the threshold of ${seconds(threshold)}`;
  return h('span', { class: 'value over', title: text },
    h('span', { class: 'mark', 'aria-hidden': 'true' }, '▲'), seconds(value), h('span', { class: 'unseen' }, `, ${text}`));
}

// atLeast writes a share, marked where it is under the one that is promised.
export function atLeast(value, threshold) {
  if (value === undefined || value >= threshold) return h('span', { class: 'value' }, ratio(value));
  const text = `under the threshold of ${ratio(threshold)}`;
  return h('span', { class: 'value over', title: text },
    h('span', { class: 'mark', 'aria-hidden': 'true' }, '▼'), ratio(value), h('span', { class: 'unseen' }, `, ${text}`));
}

// bounds writes where a percentile lies: "380 ms – 1.2 s", or the one bound that
// the samples carry.
export function bounds(window) {
  const { p99_lower: lower, p99_upper: upper } = window ?? {};
  if (lower === undefined && upper === undefined) return null;
  const text = lower === undefined ? `≤ ${seconds(upper)}` : upper === undefined ? `≥ ${seconds(lower)}` : `${seconds(lower)} – ${seconds(upper)}`;
  return h('span', { class: 'bounds', title: 'Where the p99 lies, each bound with 95 % confidence' }, text);
}

// meter is a share of 1 as number and bar; a fuller one is worse from warn on.
export function meter(value, warn) {
  if (value === undefined) return ratio(value);
  const bar = h('span', { class: `meter${value >= warn ? ' full' : ''}`, 'aria-hidden': 'true' }, h('span'));
  bar.firstChild.style.width = `${Math.min(100, Math.max(0, value * 100))}%`;
  return h('span', { class: 'metered' }, h('span', { class: 'value' }, ratio(value)), bar);
}
