// The stream of news: opened, watched, opened again, and closed while nobody
// looks.
import { now } from './clock.js';
import { showConnection, showStale } from './frame.js';

// After so many seconds without news an open stream is opened again: that shows
// whether the server is there, and replaces a connection that died silently.
const quietLimit = 10;
// After so many seconds without any sign of the server the page is stale.
const staleLimit = 15;
// Seconds between attempts to open a stream, the first and the longest.
const firstRetry = 1;
const longestRetry = 5;

const monotonic = () => performance.now() / 1000;

// follow keeps a stream open. url() names it; its events of the given names go
// to onEvent as parsed JSON. onOpen is called when it is open again after a break,
// and onLost when an attempt has failed. What it returns has a method sign, to be
// called when the server was heard in another way.
export function follow(options) {
  const f = new Follower(options);
  document.addEventListener('visibilitychange', () => f.visible(!document.hidden));
  setInterval(() => f.watch(), 1000);
  f.visible(!document.hidden);
  return f;
}

class Follower {
  constructor(options) {
    Object.assign(this, options);
    this.opened = false; // it was open once
    this.source = null;
    this.retry = firstRetry;
    this.timer = 0;
    this.broken = false; // the stream was lost and is not open again
    this.lastSign = now(); // of the server, by whatever came from it
    this.waitFrom = monotonic(); // from when the wait for a sign counts
  }

  visible(yes) {
    if (!yes) {
      this.close();
      showConnection('paused');
      return;
    }
    this.waitFrom = monotonic();
    this.open();
  }

  open() {
    this.close();
    const source = new EventSource(this.url());
    this.source = source;
    source.onopen = () => this.connected();
    source.onerror = () => this.lost();
    const take = (event) => {
      this.sign();
      this.onEvent(JSON.parse(event.data));
    };
    for (const name of this.names) source.addEventListener(name, take);
    source.addEventListener('ping', () => this.sign());
  }

  close() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.source?.close();
    this.source = null;
  }

  sign() {
    this.lastSign = now();
    this.waitFrom = monotonic();
    this.retry = firstRetry;
    showStale(false);
  }

  connected() {
    this.sign();
    showConnection('live');
    this.broken = false;
    if (this.opened) this.onOpen?.();
    this.opened = true;
  }

  // lost waits longer after each attempt that fails. The browser's own retries
  // stop at a status such as 503, so they are not used.
  lost() {
    this.close();
    this.broken = true;
    showConnection('reconnecting', this.lastSign);
    this.timer = setTimeout(() => this.open(), this.retry * 1000);
    this.retry = Math.min(this.retry * 2, longestRetry);
    this.onLost?.();
  }

  watch() {
    if (document.hidden) return;
    const quiet = monotonic() - this.waitFrom;
    if (quiet > staleLimit) {
      showStale(true, this.lastSign);
      if (!this.broken) showConnection('reconnecting', this.lastSign);
    }
    if (quiet > quietLimit && this.source?.readyState === EventSource.OPEN) this.open();
  }
}
