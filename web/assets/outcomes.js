// The strip of the latest outcomes: a low bar is a success, a high one a
// failure.
import { s } from './dom.js';
import { outcomeWord } from './words.js';

const places = 30;
const step = 4;
const height = 16;

// summary says what a strip shows: "28 of 30 succeeded; last: timeout stall".
export function summary(outcomes) {
  const good = outcomes.filter((o) => o === 'success').length;
  return `${good} of ${outcomes.length} succeeded; last: ${outcomeWord(outcomes.at(-1))}`;
}

// strip draws outcomes, the latest at the right.
export function strip(outcomes) {
  if (!outcomes?.length) return null;
  const bars = { good: '', bad: '' };
  const first = Math.max(0, places - outcomes.length);
  outcomes.slice(-places).forEach((outcome, i) => {
    const x = (first + i) * step;
    if (outcome === 'success') bars.good += `M${x} 6h3v10h-3z`;
    else bars.bad += `M${x} 0h3v16h-3z`;
  });
  const text = summary(outcomes);
  return s('svg', { class: 'strip', viewBox: `0 0 ${places * step - 1} ${height}`, width: places * step - 1, height, role: 'img', 'aria-label': text },
    s('title', null, text),
    bars.good && s('path', { class: 'good', d: bars.good }),
    bars.bad && s('path', { class: 'bad', d: bars.bad }));
}
