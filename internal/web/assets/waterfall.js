// The phases of a probe, each from where the one before it ended.
import { h } from './dom.js';
import { seconds } from './format.js';

const phases = ['dns', 'connect', 'tls', 'write', 'first_byte', 'first_token', 'decode', 'close'];

const meanings = {
  dns: 'resolving the name', connect: 'connecting', tls: 'the TLS handshake', write: 'sending the request',
  first_byte: 'waiting for the first byte: queue and prefill', first_token: 'from the first byte to the first token',
  decode: 'from the first token to the last', close: 'from the last token to the end',
};

const kinds = { dns: 'setup', connect: 'setup', tls: 'setup', first_byte: 'wait', first_token: 'wait', decode: 'decode' };

// parts returns the phases of a probe with their begin and length in seconds.
// After a failure the time that belongs to no finished phase is the last part.
export function parts(probe) {
  const failed = probe.outcome !== 'success';
  const found = [];
  let at = 0;
  for (const name of phases) {
    const length = probe.phase_seconds?.[name];
    if (length === undefined) continue;
    const ended = failed && name === 'close';
    found.push(ended ? { name: 'then failed', kind: 'failed', at, length } : { name: name.replace('_', ' '), kind: kinds[name] ?? 'other', hint: meanings[name], at, length });
    at += length;
  }
  const rest = (probe.duration_seconds ?? 0) - at;
  if (failed && rest > 0) found.push({ name: 'then failed', kind: 'failed', at, length: rest });
  return found;
}

// waterfall draws them; null where nothing was measured.
export function waterfall(probe) {
  const found = parts(probe);
  const total = found.reduce((sum, p) => sum + p.length, 0);
  if (!(total > 0)) return null;
  const { stall } = probe;
  if (stall) found.push({ name: 'stall', kind: 'failed', at: stall.at_seconds, length: Math.min(stall.seconds, total - stall.at_seconds), hint: stall.evidence.join(', ') });
  return h('section', { class: 'waterfall' }, h('h3', null, `Where the ${seconds(total)} went`),
    h('dl', null, found.map((p) => row(p, total))));
}

function row(part, total) {
  const bar = h('span', { class: `bar ${part.kind}` });
  bar.style.marginLeft = `${part.at / total * 100}%`;
  bar.style.width = `${part.length / total * 100}%`;
  return h('div', { title: part.hint },
    h('dt', null, part.name), h('dd', null, h('span', { class: 'length' }, seconds(part.length)), h('span', { class: 'track', 'aria-hidden': 'true' }, bar)));
}
