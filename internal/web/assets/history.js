// The history of a series in columns, as the charts need it.

// byTime puts a history in the order of time, which charts need: after a step of
// the clock back it is not in it.
export function byTime(history) {
  const { at } = history;
  if (at.every((t, i) => i === 0 || t >= at[i - 1])) return history;
  const order = at.map((_, i) => i).sort((a, b) => at[a] - at[b]);
  return columns(history, (column) => order.map((i) => column[i]));
}

// latest returns the last so many seconds of a history; 0 is all of it.
export function latest(history, span) {
  const { at } = history;
  const first = span > 0 ? at.findIndex((t) => t >= at.at(-1) - span) : 0;
  return first > 0 ? columns(history, (column) => column.slice(first)) : history;
}

// withGaps puts an empty point where two runs or more were missed: lines end there.
export function withGaps(history, interval) {
  const { at } = history;
  const missed = (i) => i > 0 && interval > 0 && Math.round((at[i] - at[i - 1]) / interval) > 2;
  if (!at.some((_, i) => missed(i))) return history;
  return columns(history, (column) => column.flatMap((v, i) => (missed(i) ? [column === at ? (at[i - 1] + at[i]) / 2 : null, v] : [v])));
}

const columns = (history, change) => Object.fromEntries(Object.entries(history).filter(([, v]) => Array.isArray(v)).map(([name, column]) => [name, change(column)]));
