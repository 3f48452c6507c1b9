// What a reader may do to an endpoint: probe it now, mute it until an end, and take the recordings of its incidents along.
// The exporter says which of these it allows.
import { h, setText, unlessSame } from './dom.js';
import { hourMinute } from './format.js';
import { get, root, send } from './frame.js';
import { mute } from './state.js';

const { probe: mayProbe, mute: mayMute, incidents: areRecorded } = document.documentElement.dataset;

// How long a mute may last, in minutes.
const lengths = [[15, '15 min'], [60, '1 h'], [240, '4 h'], [1440, '24 h'], [4320, '3 days']];

// Actions are those of the endpoint whose JSON is at a path.
export class Actions {
  constructor(path) {
    this.path = path;
    this.buttons = h('div', { class: 'buttons' });
    this.recordings = h('div', { class: 'buttons' });
    this.answer = h('div', { class: 'answer', role: 'status' });
    this.element = h('section', { class: 'actions', 'aria-label': 'Actions' }, this.buttons, this.recordings, this.answer);
  }

  // record offers the latest recordings of incidents, each as a file.
  async record() {
    if (areRecorded === undefined) return;
    const { incidents } = await get(`${this.path}/incidents`);
    unlessSame(this.recordings, incidents, () => incidents.slice(-3).reverse().map(({ start, end, kind }) => h('a', {
      class: 'button', href: `${root}${this.path}/incidents/${start}?format=html`, title: `What was there around it, in one file (${kind})`,
    }, end ? `Recording of the incident of ${hourMinute(Date.parse(start) / 1000)}` : 'Recording of this incident')));
  }

  // show offers what is allowed for a row and the module of a series.
  show(row, series) {
    const module = series?.module;
    unlessSame(this.buttons, [row.name, module, row.muted], () => [
      mayProbe !== undefined && module && this.button(`Probe now: ${module}`, 'Sends a request, which may cost tokens', () => this.probe(row.name, module)),
      mayMute !== undefined && (row.muted ? this.button('End the mute', mute(row), () => this.unmute()) : this.muteForm()),
    ]);
  }

  // button runs what it does once at a time.
  button(text, title, run) {
    const button = h('button', { type: 'button', title, click: async () => {
      button.disabled = true;
      await this.attempt(run);
      button.disabled = false;
    } }, text);
    return button;
  }

  async attempt(run) {
    try {
      await run();
    } catch (error) {
      this.answer.replaceChildren(h('p', { class: 'refused' }, error.message));
    }
  }

  async probe(target, module) {
    this.answer.replaceChildren(h('p', { class: 'small' }, `Probing ${module} …`));
    const text = await send(`probe?${new URLSearchParams({ target, module, debug: 'true' })}`, 'POST');
    const close = h('button', { type: 'button', class: 'quiet', click: () => this.answer.replaceChildren() }, 'Close');
    this.answer.replaceChildren(h('pre', { tabindex: 0, 'aria-label': 'Result of the probe' }, text.replace(/\n+Metrics\n[^]*$/, '\n')), close);
  }

  muteForm() {
    const minutes = h('select', { 'aria-label': 'For how long' }, lengths.map(([value, text]) => h('option', { value }, text)));
    const reason = h('input', { 'aria-label': 'Reason', placeholder: 'Reason', maxlength: 200, autocomplete: 'off' });
    const form = h('details', { class: 'mute' }, h('summary', null, 'Mute'), h('div', { class: 'fields' }, minutes, reason,
      this.button('Mute', 'Probes go on, alerts are silent', async () => {
        if (!reason.value.trim()) {
          reason.focus();
          throw new Error('A mute needs a reason.');
        }
        await send(`${this.path}/mute`, 'POST', { minutes: Number(minutes.value), reason: reason.value.trim() });
        form.open = false;
        setText(this.answer, '');
      })));
    return form;
  }

  async unmute() {
    await send(`${this.path}/mute`, 'DELETE');
    setText(this.answer, '');
  }
}
