// Elements of the page, and lists of them. They show texts of the cluster as texts only: no text becomes markup, an attribute that
// runs code, or an address.
"use strict";

const byId = (id) => document.getElementById(id);
// The keys of the elements of lists. Attributes would show the texts of the cluster twice.
const keys = new WeakMap();

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function show(element, isShown) {
  element.hidden = !isShown;
}

function make(name, text) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  return element;
}

// The elements of a list, of which those with a known key stay, so that the focus stays, too.
function updateList(parent, items, keyOf, create, update) {
  const known = new Map();
  for (const child of [...parent.children]) known.set(keys.get(child), child);
  items.forEach((item, place) => {
    const key = keyOf(item);
    let element = known.get(key);
    // Of equal keys, each has an element of its own.
    known.delete(key);
    if (element === undefined) {
      element = create();
      keys.set(element, key);
    }
    if (parent.children[place] !== element) parent.insertBefore(element, parent.children[place] ?? null);
    update(element, item);
  });
  while (parent.children.length > items.length) parent.lastElementChild.remove();
}

// A list of terms with texts. A term without a text is left out.
function updateFacts(list, facts) {
  const shown = facts.filter(([, text]) => text !== "" && text !== null && text !== undefined);
  const create = () => {
    const pair = make("div");
    pair.append(make("dt"), make("dd"));
    return pair;
  };
  updateList(list, shown, ([term]) => term, create, (pair, [term, text]) => {
    setText(pair.firstElementChild, term);
    setText(pair.lastElementChild, text);
  });
}

function ageOf(time) {
  const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time)) / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 3 * 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}
