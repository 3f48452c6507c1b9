// Copying a text to the clipboard, also on a page without TLS.
import { h, setText } from './dom.js';

// copyable shows a text with a button that copies it.
export function copyable(text) {
  const code = h('code', null, text);
  const button = h('button', { type: 'button', class: 'quiet', 'aria-label': `Copy ${text}`, click: async () => {
    setText(button, await copy(text, code) ? 'Copied' : 'Selected: copy it with the keyboard');
    setTimeout(() => setText(button, 'Copy'), 2000);
  } }, 'Copy');
  return h('span', { class: 'copyable' }, code, button);
}

// copy returns whether it worked; else the text is selected.
async function copy(text, element) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { /* no clipboard without TLS: the old way */ }
  getSelection().selectAllChildren(element);
  return document.execCommand('copy');
}
