// The curves of a module over its rungs: TTFT and output over the requests at
// once, or TTFT over the length of the prompt with the fitted line.
import { axes, chartHeight, color, drawMark, drawThreshold, figure, legend, padding, top } from './charts.js';
import { h } from './dom.js';
import { number, plural, seconds } from './format.js';
import { median, rung, rungName } from './series.js';

// Curves shows the curves of one thing at a time, beside each other.
export class Curves {
  constructor() {
    this.element = h('section', { class: 'panel charts curves', hidden: true });
    this.plots = [];
    new ResizeObserver(() => requestAnimationFrame(() => this.resize())).observe(this.element);
    document.documentElement.addEventListener('themechange', () => this.curves && this.draw());
  }

  // show draws curves unless it shows the same ones already; below are elements beneath them.
  show(title, curves, below = []) {
    const shown = JSON.stringify([title, curves, below.map((e) => e.textContent)]);
    if (shown === this.shown) return;
    Object.assign(this, { shown, title, curves, below });
    this.draw();
  }

  draw() {
    for (const plot of this.plots) plot.destroy();
    this.plots = [];
    this.element.hidden = this.curves.length + this.below.length === 0;
    this.element.replaceChildren();
    if (this.element.hidden) return;
    const boxes = h('div', { class: 'pair' });
    this.element.append(h('h2', null, this.title), boxes, ...this.below);
    for (const c of this.curves) {
      const box = figure(c.title, c.text);
      boxes.append(box);
      this.plots.push(new uPlot(options(this.width(box), c), c.data, box.lastChild));
    }
  }

  width(box) { return Math.max(240, box.clientWidth); }

  resize() {
    for (const plot of this.plots) {
      const width = this.width(plot.root.parentNode);
      if (plot.width !== width) plot.setSize({ width, height: plot.height });
    }
  }
}

// showRungs draws those of a group of series; findings are those of its module.
export function showRungs(curves, list, findings = {}) {
  curves.show(`By ${list.length > 1 ? rungName(list).toLowerCase() : 'prompt tokens'}`,
    list.length > 1 ? curvesOf(list, findings) : list.flatMap((s) => scatterOf(s, findings)));
}

// curvesOf returns what there is to draw of a group.
function curvesOf(list, findings) {
  const xs = list.map(rung);
  const ttft = list.map((s) => median(s.history.ttft_seconds) ?? null);
  const curves = [];
  if (ttft.filter((v) => v !== null).length > 1) curves.push(ofTTFT(list, xs, ttft, findings));
  const output = new Map((findings.bursts ?? []).map((b) => [b.concurrency, b.output_tokens_per_second]));
  const rates = xs.map((x) => output.get(x) ?? null);
  if (rates.filter((v) => v !== null).length > 1) {
    curves.push({ title: 'Output of a burst', text: pairsText(xs, rates, (v) => `${number(Math.round(v))} tokens/s`), data: [xs, rates], write: (v) => number(v), stroke: 'tpot', burst: true, ...knee(findings) });
  }
  return curves;
}

const knee = ({ burst_knee_concurrency: at }) => (at ? { mark: at, markText: `knee: ${number(at)}` } : {});

function ofTTFT(list, xs, ttft, findings) {
  const burst = Boolean(list[0].concurrency);
  const fit = burst ? null : fitted(xs, findings);
  return {
    title: 'TTFT, median', text: pairsText(xs, ttft, seconds) + (fit ? `; ${fit.text}` : ''), data: [xs, ttft, ...(fit ? [fit.line] : [])],
    write: ofSeconds, stroke: 'ttft', threshold: list[0].slo?.ttft_seconds, burst, ...(burst ? knee(findings) : {}),
  };
}

// scatterOf draws the latest probes of a series over the tokens that the server had to
// compute, where the prefill rate is known.
function scatterOf(series, findings) {
  const points = series.probes.filter((p) => p.outcome === 'success' && p.ttft_seconds !== undefined && p.prompt_tokens !== undefined)
    .map((p) => [p.prompt_tokens - (p.cached_prompt_tokens ?? 0), p.ttft_seconds]).sort((a, b) => a[0] - b[0]);
  const xs = points.map(([x]) => x);
  const fit = fitted(xs, findings);
  if (!fit || new Set(xs).size < 2) return [];
  return [{
    title: 'TTFT', text: `${plural(xs.length, 'probe')} over the prompt tokens that were not cached; ${fit.text}`, data: [xs, points.map(([, y]) => y), fit.line],
    write: ofSeconds, stroke: 'ttft', scatter: true,
  }];
}

export const ofSeconds = (v) => (v === 0 ? '0' : seconds(v));

// fitted is the line of the prefill rate and what it says; null where it is not known.
function fitted(xs, { prefill_tokens_per_second: rate, ttft_fixed_seconds: fixed }) {
  if (!(rate?.estimate > 0) || !fixed) return null;
  const whole = (v) => number(Math.round(v));
  return {
    line: xs.map((x) => fixed.estimate + x / rate.estimate),
    text: `${whole(rate.estimate)} tokens/s (${whole(rate.lower)} to ${whole(rate.upper)}), dashed`,
  };
}

const pairsText = (xs, ys, write) => xs.map((x, i) => `${number(x)}: ${write(ys[i])}`).join(', ');

function options(width, c) {
  const [below, left] = axes((_, splits) => splits.map(c.write));
  const stroke = color(c.stroke);
  const distance = c.burst ? { distr: 3, log: 2 } : {};
  const [least, most] = [c.data[0][0], c.data[0].at(-1)];
  return {
    width, height: chartHeight, padding, legend, cursor: { show: false },
    axes: [{ ...below, ...(c.scatter ? {} : { splits: () => c.data[0] }), values: (_, splits) => splits.map((v) => number(v)), incrs: undefined, space: c.scatter ? 70 : 20 }, left],
    scales: {
      x: { time: false, ...distance, range: () => (c.burst ? [least / 1.3, most * 1.3] : [least - (most - least) * 0.05, most + (most - least) * 0.05]) },
      y: { range: (_, __, max) => [0, top(max, c.threshold)] },
    },
    series: [{}, { stroke, width: 1.5, ...(c.scatter ? { paths: () => null } : {}), points: { show: true, size: 7, fill: stroke } }, ...c.data.slice(2).map(() => ({ stroke: color('muted'), width: 1.5, dash: [6, 4], points: { show: false } }))],
    hooks: { draw: [(u) => drawThreshold(u, c.threshold), (u) => c.mark && drawMark(u, c.mark, c.markText)] },
  };
}
