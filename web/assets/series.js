// The series of an endpoint: their names, and bursts of several sizes as one.
import { h } from './dom.js';
import { number, seconds, unknown } from './format.js';

// seriesKey identifies a series.
export function seriesKey(series) {
  return [series.module, series.prefix, series.input_tokens, series.output_tokens, series.concurrency].map((v) => v ?? '').join('|');
}

// seriesName names a series as its tab does.
export function seriesName(series) {
  const parts = [series.module, series.prefix];
  if (series.input_tokens) parts.push(`${series.input_tokens} tokens in`);
  if (series.output_tokens) parts.push(`${series.output_tokens} out`);
  return parts.filter(Boolean).join(' · ');
}

// groups puts the sizes of a burst together, the smallest first: a map from the
// name to the series.
export function groups(all) {
  const found = new Map();
  for (const series of all) {
    const name = seriesName(series);
    found.set(name, [...(found.get(name) ?? []), series]);
  }
  for (const list of found.values()) list.sort((a, b) => Number(a.concurrency ?? 0) - Number(b.concurrency ?? 0));
  return found;
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

// burstTable compares the sizes of a burst; choose is called with the series of
// the size that is wanted.
export function burstTable(list, chosen, choose) {
  return h('div', { class: 'scroll' }, h('table', { class: 'wide' },
    h('caption', { class: 'unseen' }, 'By concurrency'),
    h('thead', null, h('tr', null, ['Requests at once', 'Succeeded', 'TTFT, median', 'TPOT, median', 'Latest TTFT', 'Latest TPOT']
      .map((t) => h('th', { scope: 'col', class: 'numeric' }, t)))),
    h('tbody', null, list.map((series) => {
      const { outcome, ttft_seconds: ttft, tpot_seconds: tpot } = series.history;
      const good = outcome.filter((o) => o === 'success').length;
      const current = series === chosen;
      return h('tr', { class: current ? 'chosen' : null },
        h('td', { class: 'numeric' }, h('button', { type: 'button', 'aria-pressed': String(current), click: () => choose(series) }, number(Number(series.concurrency)))),
        [outcome.length ? `${good} of ${outcome.length}` : unknown, seconds(median(ttft)), seconds(median(tpot)), seconds(ttft.at(-1)), seconds(tpot.at(-1))]
          .map((t) => h('td', { class: 'numeric' }, t)));
    }))));
}
