// The numbers of the chosen series, of its module and of the servers, as tiles.
import { ago } from './clock.js';
import { h } from './dom.js';
import { dollars, number, plural, ratio, seconds, share, unknown } from './format.js';
import { strip } from './outcomes.js';
import { atLeast, between, meter, past, promised } from './values.js';

const tile = (label, ...values) => h('div', null, h('dt', null, label), h('dd', null, values));
const small = (...children) => h('span', { class: 'small' }, ...children);

// tiles draws those of a series, of its module's findings and of the endpoint; the
// series may be undefined.
export function tiles(row, series, findings) {
  return [...latency(series, row.servers), ttftParts(row.ttft_parts), ...ofUsers(row.users, series?.slo), ...quality(series, [...row.figures ?? [], ...findings?.figures ?? []]), ...promise(series), ...cost(series), ...load(row.servers)].filter(Boolean);
}

function latency(series, servers) {
  const { slo, ttft_window: w, runs, history, probes } = series ?? {};
  const last = history?.at.at(-1);
  const good = history?.outcome.at(-1) === 'success';
  return [
    tile('Latest probes', strip(runs, history?.outcome.at(-1)) ?? unknown, last > 0 && small(ago(last, 'last '))),
    tile('TTFT', lately(history, 'ttft_seconds', slo)),
    tile('p50, last hour', promised(w?.p50, slo?.ttft_seconds), w && small(plural(w.samples, 'probe'))),
    tile('p99, last hour', promised(w?.p99, slo?.ttft_seconds), between(w) && small(`${between(w)}, 95 % confidence`)),
    tile('TPOT', lately(history, 'tpot_seconds', slo), speed(probes?.[0], servers)),
    slo?.fluidity_ratio !== undefined && tile('Fluidity', atLeast(series.fluidity_ratio, slo.fluidity_ratio), small('of the token deadlines')),
    tile('Duration', promised(good ? probes[0]?.duration_seconds : undefined, slo?.e2e_seconds)),
  ];
}

// lately shows a time of the latest probe or, where that is not precise, of the latest
// success whose time is. After a failure there is none.
function lately(history, key, slo) {
  const { at, outcome, [key]: times } = history ?? { at: [], outcome: [], [key]: [] };
  const i = times.findLastIndex((v, j) => v !== null || outcome[j] !== 'success');
  if (!(i >= 0) || times[i] === null) return promised(undefined);
  return i === times.length - 1 ? promised(times[i], slo?.[key]) : [past(times[i], slo?.[key]), small(ago(at[i]))];
}

// speed is that of the text of the latest answer, which another tokenizer does not change, and at which load that was.
function speed({ output_characters_per_second: rate, concurrency = 1 } = {}, { running } = {}) {
  if (!(rate > 0)) return undefined;
  return small(`${number(Math.round(rate))} characters/s at ${plural(concurrency, 'request')} at a time${running > 0 ? `, ${number(Math.round(running))} running` : ''}`);
}

// ttftParts divides the mean TTFT of the latest probes of the endpoint, the longest part first.
function ttftParts(p) {
  if (!p) return undefined;
  const longest = Object.entries(p.parts ?? {}).sort((a, b) => b[1] - a[1]).filter(([, v]) => v >= p.ttft_seconds / 100);
  if (!longest.length) return tile('TTFT in parts', unknown, small(`the servers' other requests take ${seconds(p.excess_seconds)} longer`));
  const write = ([part, v]) => `${part.replaceAll('_', ' ')} ${seconds(v)}`;
  return tile('TTFT in parts', write(longest[0]), small([...longest.slice(1).map(write), `of ${seconds(p.ttft_seconds)}, mean of ${plural(p.probes, 'probe')}`].join(', ')));
}

// ofUsers is the TTFT of users' requests, which lies between bounds of the servers' histograms, and how many of them
// missed an objective since the exporter started.
function ofUsers({ slo = {}, ttft_window: { samples, seconds: s = {} } = {} } = {}, { ttft_seconds: limit } = {}) {
  const quantile = (q, ...notes) => {
    const [lower, upper] = [s[`${q}_lower`], s[`${q}_upper`]];
    if (lower === undefined) return tile(`${q} of users, last hour`, unknown, small(...notes));
    const most = upper === undefined ? `> ${seconds(lower)}` : `≤ ${seconds(upper)}`;
    return tile(`${q} of users, last hour`, h('span', { class: limit > 0 && lower >= limit ? 'value over' : 'value' }, most),
      small([upper !== undefined && lower > 0 && `> ${seconds(lower)}`, ...notes].filter(Boolean).join(', ')));
  };
  const missed = ({ eligible, bad, possibly_bad: possible }) => `${bad === possible ? number(bad) : `${number(bad)} – ${number(possible)}`} of ${number(eligible)}`;
  const counts = Object.entries(slo).filter(([, c]) => c.eligible > 0);
  return [
    samples > 0 && quantile('p50', plural(samples, 'request')),
    samples > 0 && quantile('p99'),
    counts.length > 0 && tile('Users missed', ...counts.map(([name, c]) => small(`${name === 'availability' ? name : name.toUpperCase()} ${missed(c)}`))),
  ];
}

// quality is what the answers show, and figures of facts of the endpoint and of the many probes of the module.
function quality(series, figures) {
  const verdicts = (series?.probes ?? []).map((p) => p.answer?.verdict).filter(Boolean);
  const right = verdicts.filter((v) => v === 'correct' || v === 'valid').length;
  return [
    verdicts.length > 0 && tile('Right answers', ratio(right / verdicts.length), small(`${right} of the latest ${verdicts.length}`), ...faults(verdicts)),
    ...figures.map(({ label, value, note, bad }) => tile(
      label[0].toUpperCase() + label.slice(1), h('span', { class: bad ? 'value over' : 'value' }, value), note && small(note))),
  ];
}

// faults lists what the answers came to that are not right, the most frequent first.
function faults(verdicts) {
  const counts = new Map();
  for (const v of verdicts) if (v !== 'correct' && v !== 'valid') counts.set(v, (counts.get(v) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([v, n]) => small(`${number(n)} ${v.replaceAll('_', ' ')}`));
}

// promise is what is left of the error budget, and how much of the time the
// probes succeeded.
function promise(series) {
  const { budget_left: left, uptime } = series ?? {};
  const spans = ['1h', '24h', '7d', '30d'].filter((span) => uptime?.[span] !== undefined);
  return [
    left !== undefined && tile('Error budget left', h('span', { class: left > 0 ? 'value' : 'value over' }, ratio(left)), small('of 30 days')),
    spans.length > 0 && tile('Uptime', h('span', { class: 'spans' },
      spans.map((span) => h('span', null, h('span', { class: 'small' }, span.replace(/\d+/, '$& ')), ' ', share(uptime[span]))))),
  ];
}

// cost is that of the latest probe, and of a day at its interval.
function cost(series) {
  const usd = series?.probes?.find((p) => p.cost_usd !== undefined)?.cost_usd;
  if (usd === undefined) return [];
  const day = series.interval_seconds > 0 && 86400 / series.interval_seconds * usd * Math.max(1, Number(series.concurrency ?? 1));
  return [tile('Cost of a probe', dollars(usd), day && small(`${dollars(day)} a day`))];
}

function load(servers) {
  const queue = servers && (servers.waiting !== undefined || servers.running !== undefined);
  return [
    tile('Queue', queue ? `${number(servers.waiting)} waiting` : unknown, queue && small(`${number(servers.running)} running`),
      queue && servers.up < servers.known && small(`of ${servers.up} of ${plural(servers.known, 'server')}`)),
    tile('KV cache', meter(servers?.kv_cache_usage_ratio, 0.9)),
    tile('Prefix hits', meter(servers?.prefix_cache_hit_ratio)),
  ];
}
