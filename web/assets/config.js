// The page of the active configuration, secrets hidden.
import { h } from './dom.js';
import { load, main, setJSON, setTitle, start } from './frame.js';

const path = 'api/v1/config';

function show(text) {
  main.replaceChildren(h('h1', null, 'The active configuration'),
    h('p', { class: 'small' }, 'With all defaults filled in. Secrets are hidden.'),
    h('pre', { class: 'panel', tabindex: 0, 'aria-label': 'Configuration' }, text));
}

start();
setJSON(path);
setTitle('Config');
document.getElementById('json').textContent = 'This page as YAML';
await load(path, show, 'text');
