// The series of an endpoint: their names, and the rungs of a module as one.
import { h, scroller } from './dom.js';
import { number, seconds, unknown } from './format.js';

// seriesKey identifies a series.
export function seriesKey(series) {
  return [series.module, series.prefix, series.input_tokens, series.output_tokens, series.concurrency].map((v) => v ?? '').join('|');
}

// groupName names the tab of a series: with its lengths where it is the only one
// of its module and prefix.
function groupName(series, alone) {
  const parts = [series.module, series.prefix];
  if (alone && series.input_tokens) parts.push(`${series.input_tokens} tokens in`);
  if (alone && series.output_tokens) parts.push(`${series.output_tokens} out`);
  return parts.filter(Boolean).join(' · ');
}

// rung is by what the series of a group differ: the requests at once, or the
// tokens of the prompt or the answer.
export const rung = (series) => Number(series.concurrency || series.input_tokens || series.output_tokens || 0);

// rungName says what that is.
export const rungName = ([first]) => (first.concurrency ? 'Requests at once' : first.input_tokens ? 'Prompt tokens' : 'Output tokens');

// groups puts the rungs of a module together, the smallest first: a map from the
// name of the tab to the series.
export function groups(all) {
  const found = new Map();
  for (const series of all) {
    const key = JSON.stringify([series.module, series.prefix]);
    found.set(key, [...(found.get(key) ?? []), series]);
  }
  return new Map([...found.values()].map((list) => {
    list.sort((a, b) => rung(a) - rung(b));
    return [groupName(list[0], list.length === 1), list];
  }));
}

// tabs makes a row of tabs; the arrow keys move between them. Names for which
// isBad is true get a sign.
export function tabs(label, names, chosen, isBad, choose) {
  const list = h('div', { class: 'tabs', role: 'tablist', 'aria-label': label, keydown: (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const buttons = [...list.children];
    const next = buttons[(buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length];
    next.focus();
    next.click();
  } }, names.map((name) => h('button', {
    type: 'button', role: 'tab', 'aria-selected': String(name === chosen), tabindex: name === chosen ? 0 : -1, click: () => choose(name),
  }, isBad(name) && h('span', { class: 'failing', title: 'its latest probe failed' }, '✕ ', h('span', { class: 'unseen' }, 'failing: ')), name)));
  return list;
}

// lastFailed returns whether the latest probe of a series failed.
export const lastFailed = (series) => {
  const outcome = series.history?.outcome?.at(-1);
  return outcome !== undefined && outcome !== 'success';
};

// median is that of the known values; undefined without one.
export function median(values) {
  const sorted = values.filter((v) => v !== null && v !== undefined).sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) / 2)];
}

// rungTable compares the rungs of a group; choose is called with the series that is
// wanted.
export function rungTable(list, chosen, choose) {
  const by = rungName(list);
  const lengths = by === 'Prompt tokens' && list.some((s) => s.output_tokens);
  return scroller(h('table', { class: 'wide' },
    h('caption', { class: 'unseen' }, by),
    h('thead', null, h('tr', null, [by, lengths && 'Output tokens', 'Succeeded', 'TTFT, median', 'TPOT, median', 'Latest TTFT', 'Latest TPOT']
      .filter(Boolean).map((t) => h('th', { scope: 'col', class: 'numeric' }, t)))),
    h('tbody', null, list.map((series) => {
      const { outcome, ttft_seconds: ttft, tpot_seconds: tpot } = series.history;
      const good = outcome.filter((o) => o === 'success').length;
      const current = series === chosen;
      return h('tr', { class: current ? 'chosen' : null },
        h('td', { class: 'numeric' }, h('button', { type: 'button', 'aria-pressed': String(current), click: () => choose(series) }, number(rung(series)))),
        [lengths && (series.output_tokens ?? unknown), outcome.length ? `${good} of ${outcome.length}` : unknown, seconds(median(ttft)), seconds(median(tpot)), seconds(ttft.at(-1)), seconds(tpot.at(-1))]
          .filter(Boolean).map((t) => h('td', { class: 'numeric' }, t)));
    }))));
}
