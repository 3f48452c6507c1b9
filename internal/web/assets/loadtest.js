// What the load tests of the modules came to: the 99th percentile of TTFT and the output over the load, and the levels.
import { Curves, ofSeconds } from './curve.js';
import { h, scroller } from './dom.js';
import { clockTime, dollars, exactTime, number, plural, ratio, seconds, unknown } from './format.js';

// LoadTests has the curves of each module.
export class LoadTests {
  constructor() {
    this.element = h('div', { class: 'loads' });
    this.modules = new Map();
  }

  show(findings = []) {
    const tests = findings.filter((f) => f.load_test);
    for (const { module, load_test: test } of tests) {
      if (!this.modules.has(module)) {
        this.modules.set(module, new Curves());
        this.element.append(this.modules.get(module).element);
      }
      this.modules.get(module).show(`Load test · ${module}`, curvesOf(test), [h('p', null, latest(test)), table(test)].filter(Boolean));
    }
    for (const [module, curves] of this.modules) {
      if (!tests.some((f) => f.module === module)) curves.show('', []);
    }
  }
}

const words = { users: (n) => plural(n, 'user'), requests_per_second: (n) => `${number(n)} requests/s`, trace_speed: (n) => `${number(n)} × the trace` };
const inWords = (test, level) => (words[test.load] ?? number)(level);

// latest says how the latest run ended, what the target came to, and how much load is good.
function latest(test) {
  const { max_good: good, knee } = test;
  const at = Date.parse(test.at) / 1000;
  const verdict = { met: 'meets the objectives', missed: 'misses the objectives', undecided: 'is undecided' }[test.target_verdict];
  return [
    verdict && `The target, ${inWords(test, test.target)}, ${verdict} at the 99th percentile. `,
    good && `The largest good load is ${inWords(test, good.level)} (${number(good.confidence_ratio * 100)} % confidence). `, knee && `The knee is at ${inWords(test, knee.level)}. `,
    'The latest run, ', h('time', { title: exactTime(at) }, clockTime(at)), `, ended: ${test.end.replaceAll('_', ' ')}${test.text ? ` (${test.text})` : ''}.`,
  ];
}

function curvesOf({ levels = [], knee, ttft_objective_seconds: threshold, load }) {
  const xs = levels.map((l) => l.level);
  const p99 = (key) => levels.map((l) => l.ttft_seconds?.p99?.[key] ?? null);
  const curve = (title, ys, text, more) => ({ title, text: xs.map((x, i) => `${number(x)}: ${text(i)}`).join(', '), data: [xs, ys], burst: true, mark: knee?.level, markText: 'knee', ...more });
  const rates = levels.map((l) => l.output_tokens_per_second ?? null);
  const by = load === 'users' ? 'users at once' : load === 'trace_speed' ? 'speed of the trace' : 'requests per second';
  const bound = (i) => ['lower', 'upper'].map((b) => seconds(p99(b)[i] ?? undefined)).join(' to ');
  return [
    curve(`p99 of TTFT by ${by}`, p99('value'), (i) => `${seconds(p99('value')[i] ?? undefined)} (${bound(i)})`,
      { data: [xs, p99('value'), p99('lower'), p99('upper')], write: ofSeconds, stroke: 'ttft', threshold }),
    curve(`Output by ${by}`, rates, (i) => `${number(rates[i] === null ? undefined : Math.round(rates[i]))} tokens/s`, { write: (v) => number(v), stroke: 'tpot' }),
  ].filter((c) => c.data[1].filter((v) => v !== null).length > 1);
}

function table(test) {
  const { levels = [] } = test;
  const columns = {
    Load: (l) => inWords(test, l.level), Objectives: (l) => l.verdict ?? unknown, Requests: (l) => number(l.requests), Failed: (l) => number(l.failed),
    'In flight': (l) => number(Number(l.in_flight.toPrecision(3))), 'TTFT p50': (l) => seconds(l.ttft_seconds?.p50?.value), 'TTFT p99': (l) => seconds(l.ttft_seconds?.p99?.value),
    'TPOT p50': (l) => seconds(l.tpot_seconds?.p50?.value), 'TPOT p99': (l) => seconds(l.tpot_seconds?.p99?.value), Goodput: (l) => ratio(l.goodput_ratio),
    'Tokens/s': (l) => number(l.output_tokens_per_second === undefined ? undefined : Math.round(l.output_tokens_per_second)),
    '$ per million': (l) => dollars(l.usd_per_million_output_tokens), Measured: (l) => clockTime(Date.parse(l.at) / 1000),
  };
  const rows = Object.entries(columns).filter(([, of]) => levels.some((l) => of(l) !== unknown));
  return levels.length > 0 && scroller(h('table', { class: 'wide' },
    h('caption', { class: 'unseen' }, 'Levels of the load test'),
    h('thead', null, h('tr', null, rows.map(([name]) => h('th', { scope: 'col', class: 'numeric' }, name)))),
    h('tbody', null, levels.map((l) => h('tr', null, rows.map(([, of]) => h('td', { class: 'numeric' }, of(l))))))));
}
