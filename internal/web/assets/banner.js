// The banner of an endpoint that is not well: since when, why, the most likely
// cause with its evidence, what to do, and where to read on.
import { ago } from './clock.js';
import { probeIt, withCommands } from './command.js';
import { h, unlessSame } from './dom.js';
import { runbook, runbookOf } from './links.js';
import { counts, mute, otherModel, pages, since } from './state.js';
import { outcomeWord, stateWord } from './words.js';

// Banner shows a row, and what is the cause of its state where that is known.
export class Banner {
  constructor() {
    this.element = h('section', { class: 'panel problem', 'aria-label': 'State', hidden: true });
    this.over = h('section', { class: 'panel problem over', 'aria-label': 'Last failure', hidden: true });
  }

  // show draws a row; causes are those that explain its state, or undefined.
  show(row, causes) {
    const { state, since: from, why, failure, failing, muted } = row;
    const wrong = isWrong(row);
    const fails = failing?.length > 0;
    this.element.hidden = !wrong;
    this.element.className = `panel problem ${isBad(row) ? state : 'slow'}`;
    this.over.hidden = !failure || fails && wrong;
    unlessSame(this.element, [wrong, state, from, isCorrupted(row), counts(row), why, failure, failing, muted, causes, runbookOf(row), row.url, row.model, pages(row), otherModel(row)], () => (wrong ? [
      headline(row), ...[muted && mute(row), pages(row), otherModel(row)].map((text) => text && h('p', null, text)), why && h('p', { class: 'reason' }, why), cause(row, causes?.[0]), fails && said(failure),
      fails && failure?.advice && !causes?.[0]?.do?.length && h('p', null, h('b', null, 'Check next: '), failure.advice),
      fails && h('p', { class: 'small' }, `Failing modules: ${failing.join(', ')}`), others(row, causes?.slice(1)),
      fails && !causes?.[0]?.do?.some((text) => text.includes('`')) && h('p', null, probeIt(row)),
      h('p', { class: 'away' }, runbook(causes?.[0]?.runbook ?? runbookOf(row)), h('a', { href: '#changes' }, 'What changed')),
    ] : []));
    unlessSame(this.over, failure, () => (failure ? [
      h('h2', null, 'Last failure, over now: ', outcomeWord(failure.outcome), h('small', null, ` in ${failure.module}, `, ago(failure.at))),
      said(failure), failure.advice && h('p', null, h('b', null, 'Check next: '), failure.advice),
    ] : []));
  }
}

// isWrong reports whether a row asks for a look.
export const isWrong = (row) => isBad(row) || isCorrupted(row) || row.model_changed !== undefined;

const isBad = ({ state }) => !['up', 'waiting', 'asleep'].includes(state);

// isCorrupted reports whether more answers than usual have a sign of corruption.
const isCorrupted = ({ findings }) => (findings ?? []).some((f) => Object.values(f.integrity?.findings ?? {}).some((sign) => sign.since > 0));

function headline(row) {
  if (!isBad(row)) return h('h2', null, `${stateWord(row.state)}, with ${isCorrupted(row) ? 'corrupted answers' : 'another model'}`);
  const said = counts(row);
  return h('h2', null, stateWord(row.state), ' ', row.since > 0 && since(row), said && `: ${said}`);
}

function said(failure) {
  return failure && [
    h('p', { class: 'small' }, h('b', null, outcomeWord(failure.outcome)), ` in ${failure.module}, `, ago(failure.at)),
    failure.message && h('pre', { class: 'said' }, failure.message),
  ];
}

const points = (list) => list?.length > 0 && h('ul', null, list.map((text) => h('li', null, text)));

function cause(row, found) {
  return found && h('div', { class: 'cause' }, h('h3', null, found.cause === 'unknown' ? 'No cause stands out: ' : 'Most likely: ', found.title), points(found.evidence),
    found.do?.length > 0 && [h('h3', null, 'What to do'), h('ol', null, found.do.map((text) => h('li', null, withCommands(text, row))))],
    found.against?.length > 0 && [h('h3', null, 'What would refute it'), points(found.against)]);
}

function others(row, causes) {
  return causes?.length > 0 && h('details', null, h('summary', null, 'Other causes'), causes.map((c) => h('div', { class: 'cause' },
    h('h3', null, c.title), points(c.evidence), points((c.do ?? []).map((text) => withCommands(text, row))), h('p', null, runbook(c.runbook)))));
}
