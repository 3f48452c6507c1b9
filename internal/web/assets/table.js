// The table of endpoints. Only a window of the rows is on the page, and of these
// only what has changed is drawn again.
import { columns } from './columns.js';
import { h, scroller, setText } from './dom.js';
import { plural, unknown } from './format.js';

const windowSize = 100;

// places are the columns as they are seen: one that is under another is in its cells.
const places = columns.filter((c) => !c.under).map((c) => [c, ...columns.filter((other) => other.under === c.id)]);

// Table shows entries; onSort is called with the column whose heading was used.
export class Table {
  constructor(onSort) {
    this.drawn = new Map(); // by name: the tr, and the row that it shows
    this.entries = [];
    this.limit = windowSize;
    this.headings = places.map((place) => heading(place, onSort));
    this.body = h('tbody');
    this.table = h('table', { class: 'fleet' },
      h('caption', { class: 'unseen' }, 'Endpoints'), h('thead', null, h('tr', null, this.headings)), this.body);
    this.more = h('button', { type: 'button', click: () => this.showMore() });
    this.rest = h('p', { class: 'rest' });
    this.element = h('div', null, scroller(this.table), this.rest);
    this.body.addEventListener('click', followRow);
    for (const quiet of ['mouseleave', 'focusout']) this.body.addEventListener(quiet, () => queueMicrotask(() => this.arrange()));
  }

  // show draws entries; a new choice of the reader begins at the first window.
  show(entries, choice, reset) {
    this.entries = entries;
    if (reset) this.limit = windowSize;
    const direction = choice.direction > 0 ? 'ascending' : 'descending';
    places.forEach((place, i) => {
      if (place.includes(choice.column)) this.headings[i].setAttribute('aria-sort', direction);
      else this.headings[i].removeAttribute('aria-sort');
      place.forEach((c, j) => this.headings[i].children[j].setAttribute('aria-pressed', String(c === choice.column)));
    });
    this.arrange(reset);
  }

  showMore() {
    const next = this.limit;
    this.limit += windowSize;
    this.arrange(true);
    this.body.children[next]?.querySelector('a')?.focus();
  }

  // arrange brings rows into their order. While the reader points at a row or
  // has it in focus nothing moves under the hand: values change in place.
  arrange(now) {
    const wanted = this.entries.slice(0, this.limit);
    const busy = !now && this.drawn.size > 0 && (this.body.matches(':hover') || this.body.contains(document.activeElement));
    const names = new Set(wanted.map((e) => e.row.name));
    for (const [name, drawn] of this.drawn) {
      if (names.has(name)) continue;
      drawn.tr.remove();
      this.drawn.delete(name);
    }
    let at = this.body.firstElementChild;
    for (const { row } of wanted) {
      const tr = this.draw(row);
      if (busy && tr.parentNode) continue;
      if (tr === at) at = at.nextElementSibling;
      else this.body.insertBefore(tr, busy ? null : at);
    }
    this.showRest();
  }

  showRest() {
    const left = this.entries.length - this.limit;
    this.rest.replaceChildren();
    if (left <= 0) return;
    setText(this.more, `Show ${Math.min(left, windowSize)} more`);
    this.rest.append(`${plural(this.limit, 'endpoint')} of ${this.entries.length.toLocaleString('en')} shown. `, this.more);
  }

  draw(row) {
    let drawn = this.drawn.get(row.name);
    if (drawn?.row === row) return drawn.tr;
    if (!drawn) {
      drawn = { tr: h('tr', null, places.map(([c]) => h('td', { class: `c-${c.id}${c.numeric ? ' numeric' : ''}`, 'data-label': c.short ?? c.label }))) };
      this.drawn.set(row.name, drawn);
    }
    drawn.row = row;
    drawn.tr.dataset.state = row.state;
    places.forEach((place, i) => update(drawn.tr.children[i], place.flatMap((c) => c.cells(row))));
    return drawn.tr;
  }
}

// update fills a cell unless it shows the same already: a link in focus stays
// the same element.
function update(cell, content) {
  const filled = cell.cloneNode(false);
  filled.append(...content.flat().filter(Boolean));
  filled.classList.toggle('unknown', filled.textContent === unknown);
  if (cell.isEqualNode(filled)) return;
  cell.className = filled.className;
  cell.replaceChildren(...filled.childNodes);
}

function heading(place, onSort) {
  return h('th', { scope: 'col', class: `c-${place[0].id}${place[0].numeric ? ' numeric' : ''}` }, place.map((column) => (
    h('button', { type: 'button', title: column.hint, click: () => onSort(column) }, column.label, h('span', { class: 'arrow', 'aria-hidden': 'true' })))));
}

// followRow makes the whole row lead where its link leads.
function followRow(event) {
  if (event.target.closest('a, button') || String(getSelection())) return;
  event.target.closest('tr')?.querySelector('a.name')?.click();
}
