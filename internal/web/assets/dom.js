// Building the page. All text goes in as text nodes or attribute values: what a
// server says is never read as HTML.

const svgNamespace = 'http://www.w3.org/2000/svg';

// h makes an HTML element. Properties are attributes, functions listeners; a
// property that is null, undefined or false is left out, and so is such a child.
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

// s makes an SVG element.
export function s(tag, properties, ...children) {
  return fill(document.createElementNS(svgNamespace, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

// scroller holds what may be wider than the screen. While more of it is to the
// right it says so.
export function scroller(...children) {
  const box = h('div', { class: 'scroll', scroll: () => look() }, children);
  const hint = h('p', { class: 'small hint', hidden: true, 'aria-hidden': 'true' }, 'Scroll sideways for more →');
  const look = () => {
    const more = box.scrollWidth - box.clientWidth - box.scrollLeft > 1;
    box.classList.toggle('more', more);
    hint.hidden = !more;
  };
  const sizes = new ResizeObserver(() => requestAnimationFrame(look));
  sizes.observe(box);
  for (const child of box.children) sizes.observe(child);
  return h('div', { class: 'scroller' }, hint, box);
}

// setText changes the text of an element only where it differs, so that nothing
// is laid out again in vain.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const drawn = new WeakMap();

// unlessSame draws what is inside of an element unless it shows the same value
// already: a text that the reader has marked, or a button in focus, stays.
export function unlessSame(element, value, draw) {
  const text = JSON.stringify(value);
  if (drawn.get(element) === text) return;
  drawn.set(element, text);
  element.replaceChildren(...draw().flat().filter(Boolean));
}

// keyed brings the children of a parent in line with a list of [key, make]
// pairs: those that stay are kept as they are, with what the reader has opened
// in them.
export function keyed(parent, wanted) {
  const have = new Map();
  for (const child of parent.children) have.set(child.dataset.key, child);
  let at = parent.firstElementChild;
  for (const [key, make] of wanted) {
    let element = have.get(key);
    if (element) have.delete(key);
    else (element = make()).dataset.key = key;
    if (element === at) at = at.nextElementSibling;
    else parent.insertBefore(element, at);
  }
  for (const gone of have.values()) gone.remove();
}
