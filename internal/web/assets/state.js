// The state of an endpoint in sentences: since when, how many probes failed, and
// until when it is muted.
import { ago } from './clock.js';
import { hourMinute, number, plural } from './format.js';
import { stateWord } from './words.js';

// since says when a state began and how long it has lasted.
export const since = (row) => ago(row.since, `since ${hourMinute(row.since)}, `, '');

// counts says how many probes have failed since the state began or, of a slow
// endpoint, how many answers were over an objective; null where none is counted.
export function counts({ probes_since: probes, failed_since: bad, over_since: late, spells_since: spells }) {
  if (!(probes > 0)) return null;
  if (bad > 0) return `${number(bad)} of ${plural(probes, 'probe')} failed${spells > 1 ? `, in ${number(spells)} spells` : ''}`;
  return late > 0 ? `${number(late)} of ${plural(probes, 'answer')} over the objective` : null;
}

// mute says until when an endpoint is muted, what its state is and why; null
// where it is not muted.
export function mute({ muted }) {
  if (!muted) return null;
  const parts = [`Muted until ${hourMinute(muted.until)}`, muted.state && `the state is ${stateWord(muted.state)}`].filter(Boolean);
  return parts.join('; ') + (muted.reason ? `: ${muted.reason}` : '');
}
