// The state of an endpoint in sentences: since when, how many probes failed, and
// until when it is muted.
import { ago } from './clock.js';
import { number, hourMinute, ratio } from './format.js';
import { stateWord } from './words.js';

// since says when a state began and how long it has lasted.
export const since = (row) => ago(row.since, `since ${hourMinute(row.since)}, `, '');

// failed says how many probes have failed since the state began; null where none
// has, or none is counted.
export function failed({ probes_since: probes, failed_since: bad }, noun = '') {
  if (!(probes > 0) || !(bad > 0)) return null;
  return `${number(bad)} of ${number(probes)}${noun} failed (${ratio(bad / probes)})`;
}

// mute says until when an endpoint is muted, what its state is and why; null
// where it is not muted.
export function mute({ muted }) {
  if (!muted) return null;
  const parts = [`Muted until ${hourMinute(muted.until)}`, muted.state && `the state is ${stateWord(muted.state)}`].filter(Boolean);
  return parts.join('; ') + (muted.reason ? `: ${muted.reason}` : '');
}
