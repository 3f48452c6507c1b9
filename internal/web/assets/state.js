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

// pages says as what an endpoint pages, what it shares with others that do, and where to look by who saw it; null where it does not.
export function pages({ name, incident, scope, seen_by: seenBy }) {
  if (!incident) return null;
  return `Pages as ${incident.replace(/^(ttft|tpot)$/, (slo) => `high ${slo.toUpperCase()}`)}${scope === `endpoint ${name}` ? '' : `, shared: ${scope}`}${seenBy ? `; seen by ${seenBy}` : ''}`;
}

// otherModel says in what another model than usual answers; null while the usual one does.
export function otherModel({ model_changed: change }) {
  if (!change) return null;
  return `${change.to ? `${change.to} answers instead of ${change.from}` : 'Another model answers, by the score of a passage,'} since ${hourMinute(change.since)}`;
}

// retirement says when the model or the API ends; null where that is not said, or is over 90 days away.
export function retirement({ retires_at: at }) {
  const days = (at * 1000 - Date.now()) / 86400e3;
  if (!at || days > 90) return null;
  const day = new Date(at * 1000).toISOString().slice(0, 10);
  return days < 0 ? `Was to be retired on ${day}` : `Is retired on ${day}, in ${plural(Math.ceil(days), 'day')}`;
}

// mute says until when an endpoint is muted, what its state is and why; null
// where it is not muted.
export function mute({ muted }) {
  if (!muted) return null;
  const parts = [`Muted until ${hourMinute(muted.until)}`, muted.state && `the state is ${stateWord(muted.state)}`].filter(Boolean);
  return parts.join('; ') + (muted.reason ? `: ${muted.reason}` : '');
}
