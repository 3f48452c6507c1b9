// What all pages share: theme, title, the state of the connection, the banner of
// a page that has gone stale, the footer, and asking the API.
import { age, clockTime } from './format.js';
import { h, setText } from './dom.js';
import { now, tick } from './clock.js';

// How long an answer of the API may take, in milliseconds, and after how many
// seconds without one the page is stale.
const answerLimit = 30_000;
const staleLimit = 15;

const product = 'inference_exporter';

// root leads from this page to the top of the site: "" or "../".
export const root = document.documentElement.dataset.root;

// main is where a page puts its content.
export const main = document.getElementById('main');

// here is the address of the page without the name and password that it may
// have been opened with: browsers refuse to ask with those in an address, and
// send them by themselves.
const here = location.origin + location.pathname;

// get asks the API. Errors say what was asked and what came back.
export async function get(path, as = 'json') {
  const response = await fetch(new URL(root + path, here), { cache: 'no-store', signal: AbortSignal.timeout(answerLimit) });
  if (!response.ok) {
    const body = await response.json().catch(() => ({}));
    const error = new Error(body.error ?? `${path}: status ${response.status}`);
    error.status = response.status;
    throw error;
  }
  return as === 'text' ? response.text() : response.json();
}

// send asks the exporter to do something and returns its text. A refusal is an
// error in its words.
export async function send(path, method, body) {
  const response = await fetch(new URL(root + path, here), {
    method, cache: 'no-store', body: body && JSON.stringify(body), headers: body ? { 'Content-Type': 'application/json' } : {},
  });
  const text = await response.text();
  if (!response.ok) throw new Error(refusal(text) || `${method} ${path}: status ${response.status}`);
  return text;
}

function refusal(text) {
  try {
    return JSON.parse(text).error;
  } catch {
    return text.trim();
  }
}

// setTitle puts what matters first, for a row of tabs.
export function setTitle(text) {
  document.title = text ? `${text} – ${product}` : product;
}

// setJSON sets the link to this page as JSON.
export function setJSON(path) {
  document.getElementById('json').href = root + path;
}

// showConnection shows the state of the connection; since is when that
// began, in seconds since 1970.
export function showConnection(state, since) {
  const element = document.getElementById('link');
  element.dataset.state = state;
  setText(element, {
    live: 'Live', paused: 'Paused', reconnecting: `Reconnecting since ${clockTime(since)}`,
  }[state]);
}

// showStale shows or takes away the banner of a page without news; since is
// the time of the last data.
export function showStale(stale, since) {
  const banner = document.getElementById('stale');
  if (stale) setText(banner, `This page is stale: no data since ${clockTime(since)}, ${age(now() - since)} ago. What you see may have changed.`);
  if (banner.hidden === stale) banner.hidden = !stale;
  document.documentElement.classList.toggle('is-stale', stale);
}

// showError says in the place of the content why there is none.
export function showError(error) {
  main.replaceChildren(h('div', { class: 'panel problem', role: 'alert' },
    h('h1', null, 'This page has no data'), h('p', null, error.message)));
}

// load shows what a question to the API brings and tries again until it does.
// It returns whether it did: what does not exist is not requested again.
export async function load(path, show, as) {
  for (let wait = 1; ; wait = Math.min(wait * 2, 10)) {
    try {
      show(await get(path, as));
      return true;
    } catch (error) {
      showError(error);
      if (error.status >= 400 && error.status < 500) return false;
    }
    await new Promise((resolve) => setTimeout(resolve, wait * 1000));
  }
}

// repeat shows fresh data every so many seconds while the page is looked at.
export function repeat(path, show, period, as) {
  let last = now();
  let waiting = false; // an answer is due, or did not come
  setInterval(async () => {
    if (document.hidden) return;
    if (waiting) showStale(now() - last > staleLimit, last);
    waiting = true;
    try {
      show(await get(path, as));
      last = now();
      waiting = false;
      showConnection('live');
      showStale(false);
    } catch {
      showConnection('reconnecting', last);
    }
  }, period * 1000);
  showConnection('live');
}

const themes = ['auto', 'light', 'dark'];

function themeButton() {
  const button = document.getElementById('theme');
  const page = document.documentElement;
  const current = () => page.dataset.theme ?? 'auto';
  const say = () => setText(button, `Theme: ${current()}`);
  button.addEventListener('click', () => {
    const next = themes[(themes.indexOf(current()) + 1) % themes.length];
    if (next === 'auto') delete page.dataset.theme;
    else page.dataset.theme = next;
    try {
      localStorage.setItem('theme', next);
    } catch { /* the choice lasts as long as the page */ }
    say();
    page.dispatchEvent(new Event('themechange'));
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => page.dispatchEvent(new Event('themechange')));
  say();
}

async function showVersion() {
  const { info } = await get('api/v1/self').catch(() => ({}));
  if (info?.version) setText(document.getElementById('version'), `${product} ${info.version}`);
}

// searchKeys makes "/" lead to a field for searching, and Esc call what clears it.
export function searchKeys(field, clear) {
  document.addEventListener('keydown', (event) => {
    if (event.key === '/' && !event.target.closest('input, select, textarea') && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      field.focus();
    } else if (event.key === 'Escape') {
      clear();
    }
  });
}

// start sets up what all pages share.
export function start() {
  themeButton();
  setInterval(tick, 1000);
  void showVersion();
}
