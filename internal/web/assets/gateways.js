// Gateways: a list of all of them for the fleet, and the one of an endpoint with its
// backends.
import { h, scroller, unlessSame } from './dom.js';
import { number, plural, ratio, seconds, share, unknown } from './format.js';
import { get, root } from './frame.js';
import { meter } from './values.js';
import { icon } from './words.js';

const period = 15; // seconds, as their pages are read

// Each state as one of an endpoint, for its shape and colour, and in words.
const states = {
  lost: ['down', 'Not readable'], unready: ['down', 'No ready backend'], degraded: ['degraded', 'Degraded'], waiting: ['waiting', 'Waiting'], up: ['up', 'Up'],
};

function badge(state) {
  const [kind, word] = states[state] ?? ['waiting', 'Unknown'];
  return h('span', { class: `state ${kind}` }, icon(kind), word);
}

// readyOf writes how many backends are ready; undefined where that is not known.
function readyOf({ backends_ready: ready, backends: all } = {}) {
  if (ready === undefined) return undefined;
  return all === undefined ? number(ready) : `${number(ready)} of ${number(all)}`;
}

const small = (...children) => h('span', { class: 'small' }, ...children);

// gateways is where the list of the fleet is shown.
export const gateways = h('div', { class: 'gateways' });

// watchGateways keeps the list up to date while the page is looked at.
export function watchGateways() {
  void show();
  setInterval(() => document.hidden || show(), period * 1000);
}

async function show() {
  const { gateways: all } = await get('api/v1/gateways').catch(() => ({})); // the page says by itself when the exporter is away
  if (all) unlessSame(gateways, all.map(line), () => (all.length ? [list(all)] : []));
}

// line is what the list shows of a gateway.
const line = ({ name, software, state, why, values, endpoints }) => [name, software, state, why, readyOf(values), values?.requests_waiting, endpoints];

const shownGateways = 8;

// list shows them in the order of the API, those with trouble first.
function list(all) {
  const heads = [['Gateway'], ['State'], ['Ready backends', 1], ['Waiting', 1], ['Endpoints']];
  return scroller(h('table', { class: 'wide' }, h('caption', { class: 'unseen' }, 'Gateways'),
    h('thead', null, h('tr', null, heads.map(([label, numeric]) => h('th', { scope: 'col', class: numeric && 'numeric' }, label)))),
    h('tbody', null, all.slice(0, shownGateways).map((g) => h('tr', null,
      h('td', null, h('b', null, g.name), small(g.software)),
      h('td', null, badge(g.state), g.why && small(g.why)),
      h('td', { class: 'numeric' }, readyOf(g.values) ?? unknown),
      h('td', { class: 'numeric' }, number(g.values?.requests_waiting)),
      h('td', null, endpoints(g.endpoints ?? [])))))),
    all.length > shownGateways && small(`And ${plural(all.length - shownGateways, 'gateway')} more, none in a worse state: `, h('a', { href: `${root}api/v1/gateways` }, 'all as JSON')));
}

const shownEndpoints = 3;

function endpoints(names) {
  if (!names.length) return unknown;
  const more = names.length - shownEndpoints;
  return [
    names.slice(0, shownEndpoints).map((name, i) => [i > 0 && ', ', h('a', { href: `${root}endpoint/${encodeURIComponent(name)}` }, name)]),
    more > 0 && ` and ${number(more)} more`,
  ];
}

// gatewayLink leads to the gateway of an endpoint on its page, and shows its state.
export function gatewayLink(g) {
  const [kind] = states[g.state] ?? ['waiting'];
  return h('a', { class: `state tag ${kind}`, href: '#gateway' }, icon(kind), `gateway ${g.name}`);
}

// gatewaySection shows the gateway of an endpoint.
export function gatewaySection(g) {
  const unread = (g.pages ?? []).filter((p) => p.state !== 'up');
  return [
    h('h2', null, `Gateway ${g.name} `, badge(g.state), g.software && small(g.software)),
    g.why && h('p', { class: 'said' }, g.why),
    g.values && h('dl', { class: 'tiles' }, tiles(g)),
    g.backends?.length > 0 && backendTable(g),
    g.state !== 'lost' && unread.map((p) => h('p', { class: 'small said' }, `Page of ${p.server} not read: ${p.error || p.reason}`)),
  ];
}

const tile = (label, value, ...children) => h('div', null, h('dt', null, label), h('dd', null, value, children));

// tiles are its numbers: those of now, and those of the last minutes.
function tiles({ values, recent = {}, window_seconds: span, backends_usually_ready: usual }) {
  const lately = span > 0 ? `last ${seconds(span)}` : 'no second reading yet';
  const mean = (v, what) => v !== undefined && small(`${seconds(v)} ${what}, mean`);
  const { requests, failed, rejections, routing_decisions: decisions, cooldowns, retries, fallbacks, fallback_failures: lost, data_layer_errors: unread } = recent;
  const { rate_limit_remaining_requests: ofRequests, rate_limit_remaining_tokens: ofTokens } = values;
  return [
    readyOf(values) && tile('Ready backends', h('span', { class: values.backends_ready < (values.backends ?? 1) ? 'value over' : 'value' }, readyOf(values)),
      usual !== undefined && small(`usually ${number(usual)}`)),
    values.models_ready !== undefined && tile('Ready models', h('span', { class: values.models_ready > 0 ? 'value' : 'value over' }, number(values.models_ready))),
    values.requests_waiting !== undefined && tile('Queue', `${number(values.requests_waiting)} waiting`, mean(recent.queue_seconds, 'in the queue')),
    values.requests_running !== undefined && tile('Running', number(values.requests_running)),
    values.engine_requests_waiting !== undefined && tile('Queues of backends', `${number(values.engine_requests_waiting)} waiting`, small('as it last read')),
    values.saturation_ratio !== undefined && tile('Saturation', ratio(values.saturation_ratio)),
    (unread !== undefined || values.backends_stale !== undefined) && tile('Metrics not read', number(unread), values.backends_stale > 0 && count(values.backends_stale, 'backends stale')),
    requests !== undefined && tile('Requests', number(requests), small(lately), failed !== undefined && count(failed, 'failed')),
    rejections !== undefined && tile('Rejected', number(rejections), small(lately)),
    decisions !== undefined && tile('Routing decisions', number(decisions), small(lately), mean(recent.routing_seconds, 'each')),
    cooldowns !== undefined && tile('Cooldowns', number(cooldowns), small(lately)),
    retries !== undefined && tile('Retries', number(retries), small(lately)),
    fallbacks !== undefined && tile('Fallbacks', number(fallbacks), small(lately), lost !== undefined && count(lost, 'failed')),
    (ofRequests !== undefined || ofTokens !== undefined) && tile('Quota left', [ofRequests !== undefined && `${number(ofRequests)} requests`, ofTokens !== undefined && `${number(ofTokens)} tokens`].filter(Boolean).join(', ')),
    recent.prompt_tokens !== undefined && tile('Prompt tokens', number(recent.prompt_tokens), small(lately), recent.generation_tokens !== undefined && small(`${number(recent.generation_tokens)} of answers`)),
    recent.cached_prompt_tokens_ratio !== undefined && tile('Cached prompt tokens', meter(recent.cached_prompt_tokens_ratio), small('as reported')),
    recent.prefix_cache_hit_ratio !== undefined && tile('Prefix hits', meter(recent.prefix_cache_hit_ratio), small('as the gateway expects')),
    recent.ttft_seconds !== undefined && tile('TTFT', seconds(recent.ttft_seconds), small(`mean, ${lately}`), recent.tpot_seconds !== undefined && small(`TPOT ${seconds(recent.tpot_seconds)}`)),
    recent.overhead_seconds !== undefined && tile('Overhead', seconds(recent.overhead_seconds), small(`mean, ${lately}`)),
  ];
}

const count = (n, what) => h('span', { class: n > 0 ? 'small failing' : 'small' }, `${number(n)} ${what}`);

// The columns of backends; one is shown where any backend has a value.
const columns = [
  ['Ready', (b) => (b.ready === undefined ? undefined : h('span', { class: `state ${b.ready ? 'up' : 'down'}` }, icon(b.ready ? 'up' : 'down'), b.ready ? 'Ready' : 'Not ready'))],
  ['Running', (b) => b.values?.requests_running],
  ['Requests', (b) => b.recent?.requests],
  ['Failed', (b) => (b.recent?.failed > 0 ? h('span', { class: 'value over' }, number(b.recent.failed)) : b.recent?.failed)],
  ['Decisions', (b) => b.recent?.routing_decisions],
  ['Cooldowns', (b) => b.recent?.cooldowns],
  ['Waiting', (b) => b.values?.engine_requests_waiting],
  ['Tokens', (b) => (b.recent?.prompt_tokens === undefined ? undefined : b.recent.prompt_tokens + (b.recent.generation_tokens ?? 0))],
  ['TTFT', (b) => (b.recent?.ttft_seconds === undefined ? undefined : seconds(b.recent.ttft_seconds))],
  ['Uptime', (b) => (b.values?.uptime_ratio === undefined ? undefined : share(b.values.uptime_ratio))],
  ['Median TTFT', (b) => (b.values?.ttft_median_seconds === undefined ? undefined : seconds(b.values.ttft_median_seconds))],
  ['Median tokens/s', (b) => b.values?.median_tokens_per_second],
];

const shownBackends = 20;

// backendTable lists the backends in the order of the API, those with trouble first.
function backendTable({ backends, window_seconds: span }) {
  const shown = backends.slice(0, shownBackends);
  const used = columns.filter(([, value]) => backends.some((b) => value(b) !== undefined));
  if (!used.length) return null;
  const write = (v) => (typeof v === 'number' || v === undefined ? number(v) : v);
  const rest = backends.length - shown.length;
  return [
    scroller(h('table', { class: 'wide' },
      h('caption', { class: 'unseen' }, 'Backends'),
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Backend'), used.map(([label]) => h('th', { scope: 'col', class: label !== 'Ready' && 'numeric' }, label)))),
      h('tbody', null, shown.map((b) => h('tr', null, h('td', { class: 'server' }, b.name),
        used.map(([label, value]) => h('td', { class: label !== 'Ready' && 'numeric' }, write(value(b))))))))),
    h('p', { class: 'small' }, [rest > 0 && `And ${plural(rest, 'backend')} more.`, span > 0 && `Requests, failures, decisions, cooldowns, tokens and TTFT are of the last ${seconds(span)}.`].filter(Boolean).join(' ')),
  ];
}
