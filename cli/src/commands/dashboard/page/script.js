// The dashboard. It shows texts of the cluster as texts only: no text becomes markup, an attribute that runs code, or an address.
"use strict";

const MARKS = { good: "✓", notice: "…", bad: "!" };
// A short loss of the connection is not shown.
const PATIENCE = 3000;
// How many tiles of a pool are shown until the user asks for all. Machines that are not ready come first, and all of those are shown.
const TILES = 12;
const RANKS = { bad: 0, notice: 1, good: 2 };

const poolSections = new Map();
let board = null;

function describeProtection(protection) {
  const parts = [protection.claim === null ? "protected" : `claimed as ${protection.claim}`];
  parts.push(protection.until === null ? "the end cannot be read" : `until ${new Date(protection.until).toLocaleString()}`);
  if (protection.by !== null) parts.push(`by ${protection.by}`);
  if (protection.reason !== null) parts.push(protection.reason);
  return parts.join(", ");
}

// The pool shows the id of the current revision, so that the tile does not repeat it.
function describeRevision(machine) {
  if (machine.revision === null) return "none";
  const text = machine.current === true ? "current" : machine.current === false ? `${machine.revision}, outdated` : machine.revision;
  return machine.restartPending ? `${text}, needs a restart` : text;
}

// A state with a mark, which screen readers do not read.
function setState(element, tone, text) {
  setText(element.querySelector(".mark"), MARKS[tone]);
  setText(element.querySelector(".text"), text);
}

function updateTile(tile, machine) {
  tile.dataset.tone = machine.tone;
  setText(tile.querySelector("h4"), machine.name);
  setState(tile.querySelector(".state"), machine.tone, machine.state === "" ? "no state" : machine.state);
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

function countCurrent(pool) {
  if (pool.machines.some((machine) => machine.current === null)) return "unknown";
  return String(pool.machines.filter((machine) => machine.current).length);
}

function countTone(pool, tone) {
  return pool.machines.filter((machine) => machine.tone === tone).length;
}

// A pool that is scaling or rolling out needs none: its state changes by itself.
function needsAttention(pool) {
  return toneOf(pool) === "bad" || pool.outdated !== null;
}

// The worst of the states of a pool and its machines.
function toneOf(pool) {
  if (pool.tone === "bad" || countTone(pool, "bad") > 0) return "bad";
  return pool.tone === "good" && pool.outdated === null ? "good" : "notice";
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
  // A number that the user has typed stays, and otherwise the desired number is shown.
  section.querySelector("input").addEventListener("input", (event) => { event.target.dataset.typed = ""; });
  section.querySelector(".more").addEventListener("click", (event) => {
    const isExpanded = event.target.getAttribute("aria-expanded") === "true";
    event.target.setAttribute("aria-expanded", String(!isExpanded));
    drawBoard();
  });
  return section;
}

function updateTiles(section, machines) {
  const more = section.querySelector(".more");
  const sorted = [...machines].sort((a, b) => RANKS[a.tone] - RANKS[b.tone]);
  const unready = machines.filter((machine) => machine.tone !== "good").length;
  const limit = Math.max(TILES, unready);
  const isExpanded = more.getAttribute("aria-expanded") === "true";
  const shown = isExpanded ? sorted : sorted.slice(0, limit);
  const createTile = () => byId("tile-template").content.firstElementChild.cloneNode(true);
  updateList(section.querySelector(".tiles"), shown, (machine) => machine.name, createTile, updateTile);
  setText(more, isExpanded ? "Show fewer machines" : `Show all ${machines.length} machines`);
  show(more, machines.length > limit);
}

function updateBar(bar, pool) {
  for (const part of bar.children) {
    const count = countTone(pool, part.dataset.tone);
    part.style.flexGrow = String(count);
    show(part, count > 0);
  }
  show(bar, pool.machines.length > 0);
}

function updatePool(section, pool) {
  poolSections.set(keys.get(section), pool);
  setText(section.querySelector("h2"), pool.name);
  const phase = section.querySelector(".phase");
  phase.dataset.tone = pool.tone;
  setState(phase, pool.tone, phaseOf(pool));
  setText(section.querySelector(".where"), `${pool.title} pool in namespace ${pool.namespace}`);
  const outdated = section.querySelector(".outdated");
  setText(outdated, pool.outdated ?? "");
  show(outdated, pool.outdated !== null);
  setText(section.querySelector(".message"), pool.message);
  updateFacts(section.querySelector(".facts"), [
    ["Desired", String(pool.desired)],
    ["Exist", String(pool.machines.length)],
    ["Ready", String(readyOf(pool))],
    ["Up to date", countCurrent(pool)],
    ["Protected", String(pool.machines.filter((machine) => machine.protection !== null).length)],
    ["Revision", pool.revision],
    ["Rollout", pool.paused ? "paused" : ""],
  ]);
  show(section.querySelector(".no-machines"), pool.machines.length === 0);
  updateBar(section.querySelector(".bar"), pool);
  updateTiles(section, pool.machines);
  const input = section.querySelector("input");
  if (input.dataset.typed === undefined) input.value = String(pool.desired);
  updateConditions(section.querySelector(".conditions"), pool.conditions);
  updateEvents(section.querySelector(".events"), pool.events);
}

function createLine() {
  const item = make("li");
  item.append(make("strong"), make("span"));
  return item;
}

function updateConditions(details, conditions) {
  setText(details.querySelector("summary"), `Conditions (${conditions.length})`);
  updateList(details.querySelector("ul"), conditions, (condition) => condition.type, createLine, (item, condition) => {
    setText(item.firstElementChild, `${condition.type}=${condition.status}`);
    setText(item.lastElementChild, ` ${condition.reason}: ${condition.message}`);
  });
}

function updateEvents(details, events) {
  setText(details.querySelector("summary"), `Events (${events.length})`);
  const keyOf = (event) => JSON.stringify([event.time, event.reason, event.message]);
  updateList(details.querySelector("ol"), events, keyOf, createLine, (item, event) => {
    const when = event.time === null ? "" : ` ${ageOf(event.time)} ago`;
    item.className = event.warning ? "warning" : "";
    setText(item.firstElementChild, event.warning ? `Warning ${event.reason}` : event.reason);
    setText(item.lastElementChild, `${when}: ${event.message}`);
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

function moveToPool(event) {
  const key = keys.get(event.currentTarget.closest("li"));
  const section = [...byId("pool-list").children].find((known) => keys.get(known) === key);
  if (section === undefined) return;
  event.preventDefault();
  const title = section.querySelector("h2");
  title.focus({ preventScroll: true });
  title.scrollIntoView();
}

function createLink() {
  const item = byId("link-template").content.firstElementChild.cloneNode(true);
  item.firstElementChild.addEventListener("click", moveToPool);
  return item;
}

function updateLink(item, pool) {
  const link = item.firstElementChild;
  const tone = toneOf(pool);
  link.dataset.tone = tone;
  link.href = "#pools";
  setText(link.querySelector(".mark"), MARKS[tone]);
  setText(link.querySelector(".name"), `${pool.namespace}/${pool.name}`);
  setText(link.querySelector(".count"), `${readyOf(pool)} of ${pool.desired} ready, ${phaseOf(pool)}`);
}

function describeTotals(pools) {
  const sum = (numberOf) => pools.reduce((total, pool) => total + numberOf(pool), 0);
  const needy = pools.filter(needsAttention).length;
  const attention = needy === 0 ? "none needs attention" : `${needy} ${needy === 1 ? "needs" : "need"} attention`;
  const machines = `${sum(readyOf)} of ${sum((pool) => pool.machines.length)} machines ready`;
  return `${pools.length} ${pools.length === 1 ? "pool" : "pools"}, ${attention}; ${machines}`;
}

function drawOverview(pools) {
  const overview = byId("overview");
  setText(byId("totals"), describeTotals(pools));
  const sorted = [...pools].sort((a, b) => RANKS[toneOf(a)] - RANKS[toneOf(b)]);
  updateList(overview.querySelector("ul"), sorted, keyOfPool, createLink, updateLink);
  show(overview, pools.length > 0);
}

function drawBoard() {
  if (board === null) return;
  const pools = board.pools.filter(isShown);
  drawOverview(pools);
  updateList(byId("pool-list"), pools, keyOfPool, createPool, updatePool);
  const empty = byId("empty");
  setText(empty.firstElementChild, board.pools.length === 0 ? "There are no pools." : "No pool matches the filter.");
  show(byId("empty-hint"), board.pools.length === 0);
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
