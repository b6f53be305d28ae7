// Elements. Text is set by textContent alone, so no name in a report becomes markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.setAttribute("class", value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) node.style.setProperty(key, one);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const hidden = (text) => el("span", { class: "visually-hidden" }, text);
const byId = (id) => document.getElementById(id);

// A text in which characters that cannot be seen, or that turn the direction of others, are written as U+202E.
const visible = (text) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (one) => `U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`);

// A name of any length: the page shows its beginning and its end, and the whole as a tooltip.
function nameOf(name, longest = 48) {
  const text = visible(name);
  const shown = text.length > longest ? `${text.slice(0, longest - 14)}…${text.slice(-12)}` : text;
  return el("bdi", shown === text ? {} : { title: text }, shown === "" ? "–" : shown);
}

// One stop for the Tab key among many elements; arrow keys move between them.
function roving(container, selector, { vertical = true } = {}) {
  const all = () => [...container.querySelectorAll(selector)];
  const choose = (node) => {
    for (const one of all()) one.tabIndex = one === node ? 0 : -1;
  };
  const start = all().find((one) => one.tabIndex === 0 && one.dataset.current) ?? all()[0];
  if (start) choose(start);
  container.addEventListener("focusin", (event) => {
    const node = event.target.closest(selector);
    if (node) choose(node);
  });
  container.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const nodes = all();
    const at = nodes.indexOf(event.target.closest(selector));
    if (at < 0) return;
    const step = { ArrowDown: 1, ArrowUp: -1, ...(vertical ? {} : { ArrowRight: 1, ArrowLeft: -1 }) }[event.key];
    const to = step ? at + step : event.key === "Home" ? 0 : event.key === "End" ? nodes.length - 1 : -1;
    if (to < 0 || to >= nodes.length) return;
    event.preventDefault();
    nodes[to].focus();
  });
}
