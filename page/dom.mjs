// How the page is changed. Text stays text: nothing here takes markup.

import { timeWords } from "./words.mjs";

/** An element of index.html. @param {string} id @returns {any} */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`expected an element with the id ${id}`);
  return found;
}

/** A descendant that exists. @param {Element} element @param {string} selector */
export function part(element, selector) {
  return /** @type {Element} */ (element.querySelector(selector));
}

/**
 * A new element.
 * @param {string} tag @param {Readonly<Record<string, string>>} attributes @param {readonly (Node | string)[]} children
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Sets the text if it differs, so that screen readers don't repeat it. @param {Element} element @param {string} text */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Text of the server: parts in backticks as code, times in the reader's zone. @param {string} says @returns {(Node | string)[]} */
export function withCode(says) {
  const pieces = says.split("`");
  if (pieces.length % 2 === 0) return withTimes(says);
  return pieces.flatMap((piece, i) => (i % 2 === 0 ? withTimes(piece) : [make("code", {}, piece)]));
}

/** @param {string} says @returns {(Node | string)[]} */
function withTimes(says) {
  return says.split(ISO_TIME).map((piece, i) => (i % 2 === 0 ? piece : timeOf(piece)));
}

const ISO_TIME = /(\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/;

/** A time as text; the exact one on hover. @param {string} iso */
export function timeOf(iso) {
  return make("time", { datetime: iso, title: iso }, timeWords(Date.parse(iso), Date.now()));
}

/** @param {string} says @param {string} text */
export function copyButton(says, text) {
  const button = make("button", { type: "button" }, says);
  button.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(text).catch(() => undefined);
    setText(button, navigator.clipboard === undefined ? "Not allowed here" : "Copied");
    setTimeout(() => setText(button, says), 2_000);
  });
  return button;
}

/** Puts other children in place of those that differ. @param {Element} element @param {readonly (Node | string)[]} children */
export function setChildren(element, children) {
  const made = /** @type {Element} */ (element.cloneNode());
  made.append(...children);
  made.normalize();
  if (!element.isEqualNode(made)) element.replaceChildren(...made.childNodes);
}

/** Sets text of the server if it differs. @param {Element} element @param {string} says */
export function setSaid(element, says) {
  setChildren(element, withCode(says));
}

/** @param {HTMLElement} element @param {boolean} isShown */
export function setShown(element, isShown) {
  if (element.hidden === isShown) element.hidden = !isShown;
}

/**
 * Makes the children follow the items, one each. A child stays as long as its item's key, and keeps the focus.
 * @template T
 * @param {Element} parent
 * @param {readonly T[]} items
 * @param {{ key: (item: T) => string, create: (item: T) => Element, update: (element: Element, item: T) => void }} how
 */
export function keepChildren(parent, items, { key, create, update }) {
  const known = childrenOf.get(parent) ?? new Map();
  /** @type {Map<string, Element>} */
  const kept = new Map();
  items.forEach((item, i) => {
    const id = key(item);
    const child = known.get(id) ?? create(item);
    kept.set(id, child);
    if (parent.children[i] !== child) parent.insertBefore(child, parent.children[i] ?? null);
    update(child, item);
  });
  for (const [id, child] of known) if (!kept.has(id)) child.remove();
  childrenOf.set(parent, kept);
}

/** @type {WeakMap<Element, Map<string, Element>>} */
const childrenOf = new WeakMap();

/**
 * A column of a table: its heading, the class of its cells, and what they show. `parts` fill a new cell; `text` and `draw` update it.
 * @template T
 * @typedef {{ head: string, is?: string, parts?: (item: T) => readonly (Node | string)[], text?: (item: T) => string, draw?: (cell: HTMLElement, item: T) => void }} Column
 */

/**
 * Makes the rows follow the items, and hides a table without rows. The first cell of a row is its heading.
 * @template T
 * @param {HTMLTableElement} table @param {readonly T[]} items @param {(item: T) => string} key @param {readonly Column<T>[]} columns
 */
export function fillTable(table, items, key, columns) {
  if (table.tHead === null) {
    table.append(headOf(columns), make("tbody", { role: "rowgroup" }));
    table.setAttribute("role", "table");
  }
  setShown(table, items.length > 0);
  keepChildren(part(table, "tbody"), items, { key, ...rowsOf(columns) });
}

/** @param {readonly { head: string, is?: string }[]} columns */
export function headOf(columns) {
  const heads = columns.map(({ head, is = "" }) => make("th", { scope: "col", class: is, role: "columnheader" }, head));
  return make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...heads));
}

/**
 * How rows of these columns are made. Roles are said, because cards on a telephone are not laid out as tables.
 * @template T
 * @param {readonly Column<T>[]} columns
 */
export function rowsOf(columns) {
  return {
    create: (/** @type {T} */ item) => {
      const cells = columns.map(({ head, is = "", parts }, i) =>
        make(
          i === 0 ? "th" : "td",
          { class: is, "data-head": head, ...(i === 0 ? { scope: "row", role: "rowheader" } : { role: "cell" }) },
          ...(parts?.(item) ?? []),
        ),
      );
      return make("tr", { role: "row" }, ...cells);
    },
    update: (/** @type {Element} */ row, /** @type {T} */ item) => {
      columns.forEach(({ text, draw }, i) => {
        const cell = /** @type {HTMLElement} */ (row.children[i]);
        if (text !== undefined) setText(cell, text(item));
        draw?.(cell, item);
      });
    },
  };
}
