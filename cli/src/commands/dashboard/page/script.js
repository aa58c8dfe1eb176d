// The dashboard. It shows texts of the cluster as texts only: no text becomes markup, an attribute that runs code, or an address.
"use strict";

const MARKS = { good: "✓", notice: "…", bad: "!" };
// A short loss of the connection is not shown.
const PATIENCE = 3000;

const byId = (id) => document.getElementById(id);
// The keys of the elements of lists. Attributes would show the texts of the cluster twice.
const keys = new WeakMap();
const poolSections = new Map();
let board = null;

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

function describeProtection(protection) {
  const parts = [protection.claim === null ? "protected" : `claimed as ${protection.claim}`];
  parts.push(protection.until === null ? "the end cannot be read" : `until ${new Date(protection.until).toLocaleString()}`);
  if (protection.by !== null) parts.push(`by ${protection.by}`);
  if (protection.reason !== null) parts.push(protection.reason);
  return parts.join(", ");
}

function describeRevision(machine) {
  if (machine.revision === null) return "none";
  const text = machine.current ? `${machine.revision} (current)` : machine.revision;
  return machine.restartPending ? `${text}, needs a restart` : text;
}

function updateTile(tile, machine) {
  tile.dataset.tone = machine.tone;
  setText(tile.querySelector("h4"), machine.name);
  setText(tile.querySelector(".state"), `${MARKS[machine.tone]} ${machine.state === "" ? "no state" : machine.state}`);
  updateFacts(tile.querySelector("dl"), [
    ["Node", machine.node],
    ["Revision", describeRevision(machine)],
    ["Age", machine.created === null ? "" : ageOf(machine.created)],
    ["Protection", machine.protection === null ? "" : describeProtection(machine.protection)],
  ]);
  const problem = tile.querySelector(".problem");
  setText(problem, machine.problem ?? "");
  show(problem, machine.problem !== null);
}

function phaseOf(pool) {
  if (pool.deleting) return "Terminating";
  if (pool.outdated !== null) return pool.phase === "" ? "NotObserved" : `NotObserved (was ${pool.phase})`;
  return pool.phase === "" ? "no status" : pool.phase;
}

function readyOf(pool) {
  return pool.machines.filter((machine) => machine.ready).length;
}

function needsAttention(pool) {
  return pool.tone !== "good" || pool.outdated !== null || pool.machines.some((machine) => machine.tone === "bad");
}

function createPool() {
  const section = byId("pool-template").content.firstElementChild.cloneNode(true);
  const number = poolSections.size;
  const title = section.querySelector("h2");
  title.id = `pool-${number}-${Date.now()}`;
  section.setAttribute("aria-labelledby", title.id);
  section.querySelector(".plan-form").addEventListener("submit", (event) => {
    event.preventDefault();
    showPlan(section);
  });
  return section;
}

function updatePool(section, pool) {
  poolSections.set(keys.get(section), pool);
  setText(section.querySelector("h2"), pool.name);
  const phase = section.querySelector(".phase");
  phase.dataset.tone = pool.tone;
  setText(phase, `${MARKS[pool.tone]} ${phaseOf(pool)}`);
  setText(section.querySelector(".where"), `${pool.title} pool in namespace ${pool.namespace}`);
  const outdated = section.querySelector(".outdated");
  setText(outdated, pool.outdated ?? "");
  show(outdated, pool.outdated !== null);
  setText(section.querySelector(".message"), pool.message);
  updateFacts(section.querySelector(".facts"), [
    ["Desired", String(pool.desired)],
    ["Exist", String(pool.machines.length)],
    ["Ready", String(readyOf(pool))],
    ["Up to date", String(pool.machines.filter((machine) => machine.current).length)],
    ["Protected", String(pool.machines.filter((machine) => machine.protection !== null).length)],
    ["Revision", pool.revision],
    ["Rollout", pool.paused ? "paused" : ""],
  ]);
  show(section.querySelector(".no-machines"), pool.machines.length === 0);
  const createTile = () => byId("tile-template").content.firstElementChild.cloneNode(true);
  updateList(section.querySelector(".tiles"), pool.machines, (machine) => machine.name, createTile, updateTile);
  const input = section.querySelector("input");
  if (input.value === "") input.value = String(pool.desired);
  updateConditions(section.querySelector(".conditions"), pool.conditions);
  updateEvents(section.querySelector(".events"), pool.events);
}

function updateConditions(details, conditions) {
  setText(details.querySelector("summary"), `Conditions (${conditions.length})`);
  updateList(details.querySelector("ul"), conditions, (condition) => condition.type, () => make("li"), (item, condition) => {
    setText(item, `${condition.type}=${condition.status} ${condition.reason}: ${condition.message}`);
  });
}

function updateEvents(details, events) {
  setText(details.querySelector("summary"), `Events (${events.length})`);
  const keyOf = (event) => JSON.stringify([event.time, event.reason, event.message]);
  updateList(details.querySelector("ol"), events, keyOf, () => make("li"), (item, event) => {
    const age = event.time === null ? "" : `${ageOf(event.time)} ago: `;
    setText(item, `${age}${event.warning ? "Warning " : ""}${event.reason}: ${event.message}`);
  });
}

function listOf(name, items, textOf) {
  const list = make(name);
  for (const item of items) list.append(make("li", textOf(item)));
  return list;
}

function commandOf(pool, replicas) {
  return `kubectl vmpool scale ${pool.resource} -n ${pool.namespace} --replicas=${replicas}`;
}

function planElements(pool, plan) {
  const step = (item) => `${item.verb} ${item.object}${item.why === "" ? "" : `: ${item.why}`}`;
  const elements = [make("h3", `Plan: ${plan.replicas} to ${plan.plannedReplicas} replicas`)];
  if (plan.now.length + plan.later.length === 0) elements.push(make("p", "The controller would change nothing."));
  for (const [title, items] of [["Now", plan.now], ["Later, as the disruption budget allows", plan.later]]) {
    if (items.length > 0) elements.push(make("h4", title), listOf("ol", items, step));
  }
  if (plan.blocked.length > 0) elements.push(make("h4", "Blocked"), listOf("ul", plan.blocked, (why) => why));
  if (plan.replicas !== plan.plannedReplicas) {
    elements.push(make("p", "To make this change, run:"), make("code", commandOf(pool, plan.plannedReplicas)));
  }
  return elements;
}

async function showPlan(section) {
  const pool = poolSections.get(keys.get(section));
  const output = section.querySelector(".plan");
  const button = section.querySelector("button");
  const { platform, namespace, name } = pool;
  const replicas = section.querySelector("input").value;
  const query = new URLSearchParams({ platform, namespace, pool: name, replicas });
  button.disabled = true;
  output.replaceChildren(make("p", "Computing the plan"));
  try {
    const response = await fetch(`/api/plan?${query}`);
    const plan = await response.json();
    output.replaceChildren(...(response.ok ? planElements(pool, plan) : [make("p", plan.error)]));
  } catch {
    output.replaceChildren(make("p", "The plan could not be read. Is the command still running?"));
  } finally {
    button.disabled = false;
  }
}

const keyOfPool = (pool) => `${pool.platform}/${pool.namespace}/${pool.name}`;

function isShown(pool) {
  const text = byId("filter").value.trim().toLowerCase();
  const matches = `${pool.namespace}/${pool.name}`.toLowerCase().includes(text);
  return matches && (!byId("attention").checked || needsAttention(pool));
}

function drawBoard() {
  if (board === null) return;
  const pools = board.pools.filter(isShown);
  updateList(byId("pool-list"), pools, keyOfPool, createPool, updatePool);
  const empty = byId("empty");
  setText(empty, board.pools.length === 0 ? "There are no pools." : "No pool matches the filter.");
  show(empty, pools.length === 0);
  const unreadable = byId("unreadable");
  updateList(unreadable.querySelector("ul"), board.unreadable, (why) => why, () => make("li"), setText);
  show(unreadable, board.unreadable.length > 0);
  setText(byId("version"), `kubectl-vmpool ${board.version}`);
  document.documentElement.dataset.board = "shown";
}

// What a user of a screen reader hears of a change.
function announceChanges(before, after) {
  if (before === null) return;
  const known = new Map(before.pools.map((pool) => [keyOfPool(pool), pool]));
  const changes = [];
  for (const pool of after.pools) {
    const old = known.get(keyOfPool(pool));
    known.delete(keyOfPool(pool));
    const text = `pool ${pool.name}: ${phaseOf(pool)}, ${readyOf(pool)} of ${pool.desired} ready`;
    if (old === undefined) changes.push(`new ${text}`);
    else if (phaseOf(old) !== phaseOf(pool) || readyOf(old) !== readyOf(pool) || old.desired !== pool.desired) changes.push(text);
  }
  for (const gone of known.values()) changes.push(`pool ${gone.name} is gone`);
  if (changes.length > 0) setText(byId("announcements"), changes.join("; "));
}

function setConnection(tone, text) {
  const connection = byId("connection");
  connection.dataset.tone = tone;
  setText(connection, text);
}

function followBoard() {
  const source = new EventSource("/api/changes");
  let lost = null;
  source.addEventListener("open", () => {
    clearTimeout(lost);
    setConnection("good", "Live");
  });
  source.addEventListener("board", (event) => {
    const next = JSON.parse(event.data);
    announceChanges(board, next);
    board = next;
    drawBoard();
  });
  source.addEventListener("error", () => {
    clearTimeout(lost);
    lost = setTimeout(() => {
      const text = source.readyState === EventSource.CLOSED
        ? "Ended: run the command again, and open its new address"
        : "Connection lost: is the command still running?";
      setConnection("bad", text);
    }, PATIENCE);
  });
}

byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filter").addEventListener("input", drawBoard);
byId("attention").addEventListener("change", drawBoard);
// Ages change without an event.
setInterval(drawBoard, 15000);
followBoard();
