// The charts of a series: time to first token and time per output token over the
// kept history, with the outcomes below on the same axis of time. The library
// draws; it is loaded as a plain script.
import { h, setText } from './dom.js';
import { clockTime, plural, seconds } from './format.js';
import { median, seriesKey } from './series.js';
import { outcomeWord } from './words.js';

const chartHeight = 150;
const outcomesHeight = 48;
const axisWidth = 62;

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// Charts shows the history of one series at a time.
export class Charts {
  constructor() {
    this.readout = h('p', { class: 'small readout' });
    this.box = h('div');
    this.element = h('div', { class: 'charts' }, this.readout, this.box);
    this.plots = [];
    // Sizes come after the layout, and the chart is part of it.
    new ResizeObserver(() => requestAnimationFrame(() => this.resize())).observe(this.element);
    document.documentElement.addEventListener('themechange', () => this.series && this.show(this.series, true));
  }

  // show draws a series, where it has new points or the colours are others.
  show(series, reset = false) {
    const drawn = `${seriesKey(series)} ${series.history.at.length} ${series.history.at.at(-1)}`;
    this.series = series;
    if (drawn === this.drawn && !reset) return;
    this.drawn = drawn;
    for (const plot of this.plots) plot.destroy();
    this.plots = [];
    this.history = byTime(series.history);
    const { at, ttft_seconds: ttft, tpot_seconds: tpot, outcome } = this.history;
    if (at.length === 0) {
      this.box.replaceChildren(h('p', { class: 'note' }, 'No probe has ended yet.'));
      setText(this.readout, '');
      return;
    }
    const cursor = { sync: { key: 'history' }, y: false, drag: { x: false, y: false } };
    const hooks = { setCursor: [(u) => this.read(u.cursor.idx)] };
    const make = (title, values, name, threshold) => {
      const box = figure(title, summary(at, values, threshold));
      this.box.append(box);
      if (values.some((v) => v !== null)) this.plots.push(new uPlot(lineOptions(this.width(), color(name), threshold, cursor, hooks), [at, values], box.lastChild));
      else box.lastChild.append(h('p', { class: 'note' }, 'Not measured.'));
    };
    this.box.replaceChildren();
    this.read(null);
    make('TTFT', ttft, 'ttft', series.slo?.ttft_seconds);
    make('TPOT', tpot, 'tpot', series.slo?.tpot_seconds);
    const bad = outcome.filter((o) => o !== 'success').length;
    const box = figure('Outcomes', `${plural(bad, 'failure')} among ${plural(outcome.length, 'probe')}`);
    this.box.append(box);
    this.plots.push(new uPlot(outcomeOptions(this.width(), outcome, cursor, hooks), [at, outcome.map((o) => (o === 'success' ? 1 : 2))], box.lastChild));
  }

  // read writes what the pointer is at.
  read(i) {
    const { at, ttft_seconds: ttft, tpot_seconds: tpot, outcome } = this.history;
    setText(this.readout, i === null || i === undefined || i >= at.length
      ? 'Point at a chart to read a probe.'
      : `${clockTime(at[i])}  ${outcomeWord(outcome[i])}, TTFT ${seconds(ttft[i])}, TPOT ${seconds(tpot[i])}`);
  }

  width() { return Math.max(240, this.element.clientWidth); }

  resize() {
    for (const plot of this.plots) {
      if (plot.width !== this.width()) plot.setSize({ width: this.width(), height: plot.height });
    }
  }
}

// byTime puts a history in the order of time, which the library needs: after a
// step of the clock back it is not in it.
function byTime(history) {
  const { at } = history;
  if (at.every((t, i) => i === 0 || t >= at[i - 1])) return history;
  const order = at.map((_, i) => i).sort((a, b) => at[a] - at[b]);
  return Object.fromEntries(Object.entries(history).map(([name, column]) => [name, order.map((i) => column[i])]));
}

function figure(title, text) {
  return h('figure', { class: 'chart' },
    h('figcaption', null, h('b', null, title), ` ${text}`), h('div', { role: 'img', 'aria-label': `${title}: ${text}` }));
}

function summary(at, values, threshold) {
  const known = values.filter((v) => v !== null);
  if (known.length === 0) return '';
  const over = threshold === undefined ? '' : `, ${known.filter((v) => v > threshold).length} over the threshold of ${seconds(threshold)}`;
  return `median ${seconds(median(known))}, ${seconds(Math.min(...known))} to ${seconds(Math.max(...known))} in ${plural(known.length, 'probe')} since ${clockTime(at[0])}${over}`;
}

const padding = [8, 26, 0, 0]; // the same for all, so that they are aligned
const legend = { show: false };
const axisFont = '12px system-ui, sans-serif';

function axes(label) {
  const line = { stroke: color('line'), width: 1 };
  return [
    { stroke: color('muted'), font: axisFont, grid: line, ticks: line, space: 70, size: 34, values: times, incrs: [10, 20, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400] },
    { stroke: color('muted'), font: axisFont, grid: line, ticks: line, size: axisWidth, values: label },
  ];
}

// times labels the axis of time, with seconds only where they matter.
function times(_, splits, __, ___, step) {
  return splits.map((v) => (step < 60 ? clockTime(v) : clockTime(v).slice(0, -3)));
}

function lineOptions(width, stroke, threshold, cursor, hooks) {
  return {
    width, height: chartHeight, cursor, padding, legend,
    axes: axes((_, splits) => splits.map((v) => (v === 0 ? '0' : seconds(v)))),
    scales: { x: { range: timeRange }, y: { range: (_, __, max) => [0, top(max, threshold)] } },
    series: [{}, { stroke, width: 1.5, points: { show: (u) => u.data[0].length < 240, size: 4, fill: stroke } }],
    hooks: { ...hooks, draw: [(u) => drawThreshold(u, threshold)] },
  };
}

// top leaves room for the threshold where that does not make the line flat.
function top(max, threshold) {
  const highest = threshold !== undefined && threshold < max * 3 ? Math.max(max, threshold) : max;
  return (highest || 1) * 1.12;
}

// timeRange gives a single point some room.
function timeRange(_, min, max) {
  return max - min < 60 ? [max - 60, max] : [min, max];
}

// drawThreshold draws the line of what is promised; above the chart there is
// none, and the caption says so.
function drawThreshold(u, threshold) {
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

// drawLabel writes a text that can be read above lines.
function drawLabel(ctx, text, x, y) {
  ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = 'right';
  ctx.textBaseline = 'bottom';
  ctx.setLineDash([]);
  ctx.strokeStyle = color('panel');
  ctx.lineWidth = 4 * devicePixelRatio;
  ctx.strokeText(text, x, y);
  ctx.fillText(text, x, y);
}

function outcomeOptions(width, outcome, cursor, hooks) {
  return {
    width, height: outcomesHeight, cursor, padding, legend,
    axes: axes(() => []).map((axis, i) => ({ ...axis, grid: { show: false }, ...(i === 0 ? { show: false } : { ticks: { show: false } }) })),
    scales: { x: { range: timeRange }, y: { range: () => [0, 2.1] } },
    series: [{}, { stroke: color('text'), paths: () => null, points: { show: false } }],
    hooks: { ...hooks, draw: [(u) => drawOutcomes(u, outcome)] },
  };
}

// drawOutcomes draws a low bar for a success and a high one for a failure.
function drawOutcomes(u, outcome) {
  const { ctx } = u;
  const width = Math.max(1, Math.min(4 * devicePixelRatio, u.bbox.width / outcome.length * 0.7));
  const bottom = u.valToPos(0, 'y', true);
  ctx.save();
  outcome.forEach((o, i) => {
    const good = o === 'success';
    ctx.fillStyle = color(good ? 'good-bar' : 'bad-bar');
    const y = u.valToPos(good ? 1 : 2, 'y', true);
    ctx.fillRect(u.valToPos(u.data[0][i], 'x', true) - width / 2, y, width, bottom - y);
  });
  ctx.restore();
}
