// The list of the latest probes of a series; each opens.
import { copyable } from './copy.js';
import { h, keyed } from './dom.js';
import { clockTime, dollars, exactTime, number, plural, ratio, seconds } from './format.js';
import { trace } from './links.js';
import { timeline } from './tokens.js';
import { promised } from './values.js';
import { waterfall } from './waterfall.js';
import { outcomeBadge, outcomeWord } from './words.js';

// ProbeList keeps what the reader has opened while new probes come.
export class ProbeList {
  constructor() {
    this.list = h('div', { class: 'probes' });
    this.element = h('section', { class: 'panel' }, h('h2', null, 'Latest probes'),
      h('div', { class: 'probe head', 'aria-hidden': 'true' }, ['Time', 'Outcome', 'TTFT', 'TPOT', 'Duration', 'Tokens'].map((t) => h('span', null, t))),
      this.list);
  }

  // show lists the probes of a series, the latest first.
  show(series) {
    const wanted = series.probes.map((probe, i) => [`${probe.trace_id || i} ${probe.time}`, () => entry(probe, series.slo)]);
    this.element.hidden = wanted.length === 0;
    keyed(this.list, wanted);
  }
}

function entry(probe, slo) {
  const at = Date.parse(probe.time) / 1000;
  const facts = [
    ['TTFT', promised(probe.ttft_seconds, slo?.ttft_seconds)], ['TPOT', promised(probe.tpot_seconds, slo?.tpot_seconds)],
    ['Duration', promised(probe.duration_seconds, slo?.e2e_seconds)], ['Tokens', number(probe.output_tokens)],
  ];
  const details = h('details', { toggle: () => details.open && !details.dataset.filled && fillIn(details, probe) },
    h('summary', { class: 'probe' }, h('time', { title: exactTime(at) }, clockTime(at)), outcome(probe),
      facts.map(([label, value]) => h('span', { 'data-label': label }, value)),
      probe.outcome !== 'success' && probe.error && h('span', { class: 'reason', title: probe.error }, probe.error)));
  return details;
}

// outcome draws how a probe ended, and marks an answer that looks corrupted.
function outcome({ outcome: ended, integrity }) {
  return integrity ? h('span', null, outcomeBadge(ended), ' ', h('span', { class: 'tag' }, 'corrupted')) : outcomeBadge(ended);
}

// fillIn draws the inside when it is opened for the first time.
function fillIn(details, probe) {
  details.dataset.filled = 'yes';
  details.append(h('div', { class: 'inside' }, why(probe), h('div', { class: 'drawings' }, waterfall(probe), timeline(probe)), facts(probe)));
}

function why(probe) {
  if (probe.outcome === 'success') return null;
  return h('section', { class: 'why' },
    h('h3', null, 'Why it failed'), probe.error && h('pre', { class: 'said' }, probe.error),
    probe.advice && h('p', null, h('b', null, 'Check next: '), probe.advice));
}

const flags = {
  buffered: 'the whole answer came in one burst', imprecise: 'measured badly: the prober was late',
  no_end_marker: 'no marker at the end of the stream', connection_reused: 'on a kept connection',
};

// facts lists what else is known of a probe.
function facts(probe) {
  const list = [
    ['HTTP status', probe.http_status && number(probe.http_status)],
    ['Finish reason', probe.finish_reason],
    ['Model', probe.model],
    ['Prompt tokens', known(probe.prompt_tokens, number)],
    ['Cached', cached(probe)],
    ['Reasoning tokens', known(probe.reasoning_tokens, number)],
    ['Speed', known(probe.output_tokens_per_second, (v) => `${number(v)} tokens/s`)],
    ['Speed of the text', known(probe.output_characters_per_second, (v) => `${number(Math.round(v))} characters/s`)],
    ['Stall', probe.stall && `${seconds(probe.stall.seconds)}, side: ${probe.stall.side} (${probe.stall.evidence.join(', ')})`],
    ['Load', known(probe.output_tokens_per_second, () => (probe.concurrency > 1 ? `${number(probe.concurrency)} requests at once` : 'a single request at a time'))],
    ['Tokens per event', known(probe.tokens_per_event, (v) => number(Math.round(v * 100) / 100))],
    ['First visible token', known(probe.ttfo_seconds, seconds)],
    ['Cost', known(probe.cost_usd, dollars)],
    ...Object.entries(probe.server_time_seconds ?? {}).map(([phase, v]) => [`Server: ${phase}`, seconds(v)]),
    ['Retry after', known(probe.retry_after_seconds, seconds)],
    ['Answer', probe.answer?.verdict],
    ['Because', probe.answer?.reason],
    ['First argument', known(probe.call?.first_argument_seconds, seconds)],
    ['Call complete', known(probe.call?.complete_seconds, seconds)],
    ['Signs of corruption', probe.integrity?.map(outcomeWord).join(', ')],
    ['Said', probe.answer?.text && h('q', null, probe.answer.text)],
    ['Clock', probe.clock],
    ['Notes', Object.keys(flags).filter((f) => probe[f]).map((f) => flags[f]).join('; ')],
    ['Trace id', probe.trace_id && h('span', null, copyable(probe.trace_id), ' ', trace(probe.trace_id))],
  ];
  return h('dl', { class: 'facts' }, list.filter(([, value]) => value).map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))));
}

const known = (value, write) => (value === undefined ? undefined : write(value));

function cached(probe) {
  const { cached_prompt_tokens: hits, prompt_tokens: all } = probe;
  if (hits === undefined) return undefined;
  return all > 0 ? `${plural(hits, 'token')}, ${ratio(hits / all)}` : plural(hits, 'token');
}
