// The charts of a series: time to first token and time per output token over the
// kept history, with the outcomes below on the same axis of time. The library
// draws; it is loaded as a plain script.
import { h, setText, unlessSame } from './dom.js';
import { age, clockTime, number, plural, ratio, seconds, timeOfDay } from './format.js';
import { byTime, latest, withGaps } from './history.js';
import { median, seriesKey } from './series.js';
import { over } from './values.js';
import { outcomeWord } from './words.js';

export const chartHeight = 150;
const outcomesHeight = 48;
const axisWidth = 62;

export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// The ranges of time to choose from, in seconds; those are shown that are shorter
// than what is kept.
const ranges = [900, 3600, 4 * 3600, 86400, 7 * 86400, 30 * 86400];

const metrics = { ttft: 'TTFT', tpot: 'TPOT', failures: 'Failures' };

// Charts shows the history of one series at a time.
export class Charts {
  constructor() {
    this.readout = h('p', { class: 'small readout' });
    this.range = h('select', { 'aria-label': 'Time range', change: () => this.show(this.series, true) });
    this.box = h('div');
    this.steps = h('ol', { class: 'steps' });
    this.element = h('div', { class: 'charts' }, h('div', { class: 'reading' }, this.readout, this.range), this.box, this.steps);
    this.plots = [];
    // Sizes come after the layout, and the chart is part of it.
    new ResizeObserver(() => requestAnimationFrame(() => this.resize())).observe(this.element);
    document.documentElement.addEventListener('themechange', () => this.series && this.show(this.series, true));
  }

  // show draws a series, where it has new points or the colours are others.
  show(series, reset = false) {
    const drawn = `${seriesKey(series)} ${series.history.at.length} ${series.history.at.at(-1)} ${JSON.stringify(series.steps)}`;
    this.series = series;
    if (drawn === this.drawn && !reset) return;
    this.drawn = drawn;
    for (const plot of this.plots) plot.destroy();
    this.plots = [];
    const kept = byTime(series.history);
    this.offer(kept.at);
    unlessSame(this.steps, series.steps ?? [], () => (series.steps ?? []).map(step));
    this.history = withGaps(latest(kept, Number(this.range.value)), series.interval_seconds);
    if (kept.at.length === 0) {
      this.box.replaceChildren(h('p', { class: 'note' }, 'No probe has ended yet.'));
      setText(this.readout, '');
      return;
    }
    this.box.replaceChildren();
    this.read(null);
    this.draw(series);
  }

  // draw makes the charts of what is chosen of a series.
  draw({ slo, steps }) {
    const { at, ttft_seconds: ttft, tpot_seconds: tpot, outcome } = this.history;
    const cursor = { sync: { key: 'history' }, y: false, drag: { x: false, y: false } };
    const hooks = (metric) => ({
      setCursor: [(u) => this.read(u.cursor.idx)], draw: [(u) => drawSteps(u, (steps ?? []).filter((s) => s.metric === metric))],
    });
    const make = (title, values, name, threshold) => {
      const box = figure(title, summary(at, values, threshold));
      this.box.append(box);
      if (values.some((v) => v !== null)) this.plots.push(new uPlot(lineOptions(this.width(), color(name), threshold, cursor, hooks(name)), [at, values], box.lastChild));
      else box.lastChild.append(h('p', { class: 'note' }, 'Not measured.'));
    };
    make('TTFT', ttft, 'ttft', slo?.ttft_seconds);
    make('TPOT', tpot, 'tpot', slo?.tpot_seconds);
    const runs = outcome.map((o, i) => kind(o, over(ttft[i] ?? undefined, slo?.ttft_seconds) || over(tpot[i] ?? undefined, slo?.tpot_seconds)));
    const box = figure('Outcomes', counts(runs));
    this.box.append(box);
    this.plots.push(new uPlot(outcomeOptions(this.width(), runs, cursor, hooks('failures')), [at, runs.map((r) => (r ? heights[r] : null))], box.lastChild));
  }

  // offer lists the ranges that are shorter than what is kept.
  offer(at) {
    const span = at.length > 0 ? at.at(-1) - at[0] : 0;
    const shorter = ranges.filter((r) => r < span);
    const chosen = shorter.includes(Number(this.range.value)) ? this.range.value : '0';
    this.range.hidden = shorter.length === 0;
    unlessSame(this.range, [shorter, age(span)], () => [
      ...shorter.map((r) => h('option', { value: r }, `last ${r < 86400 ? age(r).replace(/ 0 min$/, '') : plural(r / 86400, 'day')}`)),
      h('option', { value: 0 }, `all that is kept: ${age(span)}`),
    ]);
    this.range.value = chosen;
  }

  // read writes what the pointer is at.
  read(i) {
    const { at, ttft_seconds: ttft, tpot_seconds: tpot, outcome } = this.history;
    if (i === null || i === undefined || i >= at.length) setText(this.readout, 'Point at a chart to read a probe.');
    else if (outcome[i] === null) setText(this.readout, `${clockTime(at[i])}  no probe ran`);
    else setText(this.readout, `${clockTime(at[i])}  ${outcomeWord(outcome[i])}, TTFT ${seconds(ttft[i])}, TPOT ${seconds(tpot[i])}`);
  }

  width() { return Math.max(240, this.element.clientWidth); }

  resize() {
    for (const plot of this.plots) {
      if (plot.width !== this.width()) plot.setSize({ width: this.width(), height: plot.height });
    }
  }
}

// step is a change of level, and what changed beside it.
function step({ at, metric, before, after, lower, upper, beside }) {
  const write = metric === 'failures' ? ratio : seconds;
  const factor = before > 0 ? `, × ${number(after / before)}` : '';
  const bounds = lower !== undefined && upper !== undefined ? ` (${number(lower)} to ${number(upper)}, 95 % confidence)` : '';
  return h('li', null, h('b', null, `${clockTime(at)}  ${metrics[metric] ?? metric} ${after > before ? 'rose' : 'fell'} from ${write(before)} to ${write(after)}${factor}${bounds}`),
    beside?.length > 0 && h('ul', null, beside.map((text) => h('li', null, text))));
}

export function figure(title, text) {
  return h('figure', { class: 'chart' },
    h('figcaption', null, h('b', null, title), ` ${text}`), h('div', { role: 'img', 'aria-label': `${title}: ${text}` }));
}

function summary(at, values, threshold) {
  const known = values.filter((v) => v !== null);
  if (known.length === 0) return '';
  const late = threshold === undefined ? '' : `, ${known.filter((v) => v > threshold).length} over the threshold of ${seconds(threshold)}`;
  return `median ${seconds(median(known))}, ${seconds(Math.min(...known))} to ${seconds(Math.max(...known))} in ${plural(known.length, 'probe')} since ${clockTime(at[0])}${late}`;
}

export const padding = [8, 26, 0, 0]; // the same for all, so that they are aligned
export const legend = { show: false };
const axisFont = '12px system-ui, sans-serif';

export function axes(label) {
  const line = { stroke: color('line'), width: 1 };
  return [
    { stroke: color('muted'), font: axisFont, grid: line, ticks: line, space: 70, size: 34, values: times, incrs: [10, 20, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800] },
    { stroke: color('muted'), font: axisFont, grid: line, ticks: line, size: axisWidth, values: label },
  ];
}

// times labels the axis of time, with seconds only where they matter.
function times(_, splits, __, ___, step) {
  return splits.map((v) => timeOfDay(v, step < 60));
}

function lineOptions(width, stroke, threshold, cursor, hooks) {
  return {
    width, height: chartHeight, cursor, padding, legend, tzDate: (v) => uPlot.tzDate(new Date(v * 1000), 'UTC'),
    axes: axes((_, splits) => splits.map((v) => (v === 0 ? '0' : seconds(v)))),
    scales: { x: { range: timeRange }, y: { range: (_, __, max) => [0, top(max, threshold)] } },
    series: [{}, { stroke, width: 1.5, points: { show: (u) => u.data[0].length < 240, size: 4, fill: stroke } }],
    hooks: { ...hooks, draw: [(u) => drawThreshold(u, threshold), ...hooks.draw] },
  };
}

// top leaves room for the threshold where that does not make the line flat.
export function top(max, threshold) {
  const highest = threshold !== undefined && threshold < max * 3 ? Math.max(max, threshold) : max;
  return (highest || 1) * 1.12;
}

// timeRange gives a single point some room.
function timeRange(_, min, max) {
  return max - min < 60 ? [max - 60, max] : [min, max];
}

// drawThreshold draws the line of what is promised; above the chart there is
// none, and the caption says so.
export function drawThreshold(u, threshold) {
  if (threshold === undefined || threshold > u.scales.y.max) return;
  const { ctx } = u;
  const scale = devicePixelRatio;
  const y = u.valToPos(threshold, 'y', true);
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = color('down');
  ctx.setLineDash([6 * scale, 4 * scale]);
  ctx.beginPath();
  ctx.moveTo(u.bbox.left, y);
  ctx.lineTo(u.bbox.left + u.bbox.width, y);
  ctx.stroke();
  drawLabel(ctx, `threshold ${seconds(threshold)}`, u.bbox.left + u.bbox.width - 4 * scale, y - 2 * scale);
  ctx.restore();
}

// drawSteps marks when the level changed.
function drawSteps(u, steps) {
  for (const { at, before, after } of steps) {
    if (at >= u.scales.x.min && at <= u.scales.x.max) drawMark(u, at, before > 0 ? `× ${number(Number((after / before).toPrecision(2)))}` : 'step');
  }
}

// drawMark draws an upright line at a value of the axis below, with a text.
export function drawMark(u, at, text) {
  const { ctx } = u;
  const scale = devicePixelRatio;
  const x = u.valToPos(at, 'x', true);
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = color('mark');
  ctx.lineWidth = 2 * scale;
  ctx.beginPath();
  ctx.moveTo(x, u.bbox.top);
  ctx.lineTo(x, u.bbox.top + u.bbox.height);
  ctx.stroke();
  const room = x - u.bbox.left > 60 * scale;
  drawLabel(ctx, text, x + (room ? -4 : 4) * scale, u.bbox.top + 13 * scale, room ? 'right' : 'left');
  ctx.restore();
}

// drawLabel writes a text that can be read above lines.
function drawLabel(ctx, text, x, y, align = 'right') {
  ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = align;
  ctx.textBaseline = 'bottom';
  ctx.setLineDash([]);
  ctx.strokeStyle = color('panel');
  ctx.lineWidth = 4 * devicePixelRatio;
  ctx.strokeText(text, x, y);
  ctx.fillText(text, x, y);
}

// What a run came to, and how high its bar is; a gap has none.
const heights = { good: 1, late: 1.5, bad: 2 };

const kind = (outcome, late) => (outcome === null ? null : outcome !== 'success' ? 'bad' : late ? 'late' : 'good');

function counts(runs) {
  const of = (kind) => runs.filter((r) => r === kind).length;
  const late = of('late') ? `, ${number(of('late'))} over the objective` : '';
  const gaps = of(null) ? `, ${plural(of(null), 'gap')} in which no probe ran` : '';
  return `${plural(of('bad'), 'failure')} among ${plural(runs.length - of(null), 'probe')}${late}${gaps}`;
}

function outcomeOptions(width, runs, cursor, hooks) {
  return {
    width, height: outcomesHeight, cursor, padding, legend,
    axes: axes(() => []).map((axis, i) => ({ ...axis, grid: { show: false }, ...(i === 0 ? { show: false } : { ticks: { show: false } }) })),
    scales: { x: { range: timeRange }, y: { range: () => [0, 2.1] } },
    series: [{}, { stroke: color('text'), paths: () => null, points: { show: false } }],
    hooks: { ...hooks, draw: [(u) => drawOutcomes(u, runs), ...hooks.draw] },
  };
}

// drawOutcomes draws a low bar for a success, a middle one for a success over the
// objective and a high one for a failure: the higher ones last, so that none is
// hidden where bars are closer than pixels.
function drawOutcomes(u, runs) {
  const { ctx } = u;
  const width = Math.max(1, Math.min(4 * devicePixelRatio, u.bbox.width / runs.length * 0.7));
  const bottom = u.valToPos(0, 'y', true);
  ctx.save();
  for (const kind of ['good', 'late', 'bad']) {
    ctx.fillStyle = color(`${kind}-bar`);
    const y = u.valToPos(heights[kind], 'y', true);
    runs.forEach((run, i) => run === kind && ctx.fillRect(u.valToPos(u.data[0][i], 'x', true) - width / 2, y, width, bottom - y));
  }
  ctx.restore();
}
