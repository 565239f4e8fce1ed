// The page under the hands: replaces its live parts without moving what a person points at or types in, and lets keys
// press the buttons and links that stand on the page.

// Puts live parts of a fresh page in the place of the old ones; without `parts` all of them.
export function morph(fresh, parts = document.querySelectorAll("[data-live]")) {
  document.title = fresh.title;
  for (const old of parts) {
    const part = fresh.getElementById(old.id);
    if (part) put(old, part);
  }
}

const isBusy = (element) => element.matches(":hover") || element.contains(document.activeElement);
const isWritten = (element) => [...element.querySelectorAll("textarea")].some((field) => field.value !== field.defaultValue);
const held = new Map();
// Parts with data-waits, and what they become when nobody points at them, holds the focus in them or writes in them.
const late = new Map();
const isUsed = (part) => isBusy(part) || part.querySelector("details[open]") || isWritten(part);

function put(old, part) {
  late.delete(old);
  if ("waits" in old.dataset && isUsed(old)) late.set(old, part);
  else if (part.outerHTML !== old.outerHTML) become(old, part);
}

const settleLate = () => [...late].forEach(([old, part]) => put(old, part));
for (const left of ["pointerover", "focusout", "toggle"]) {
  document.addEventListener(left, () => late.size && setTimeout(settleLate), { capture: true });
}

// Makes `old` equal to `fresh`, element by element, so that focus, open details and half-written fields stay.
function become(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.dataset?.keep !== fresh.dataset?.keep && (isBusy(old) || isWritten(old))) return;
  if (old.nodeType !== 1 || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh.cloneNode(true));
  if (old.matches("input, textarea, select") && old === document.activeElement) return;
  const stays = (name) => (name === "open" && old.matches("details")) || (name === "value" && old.value !== old.defaultValue);
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !stays(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !stays(name)) old.setAttribute(name, value);
  }
  if ("rows" in old.dataset && (isBusy(old) || old.dataset.rows === "wait")) return hold(old, fresh);
  unhold(old);
  children(old, fresh);
}

function children(old, fresh) {
  const known = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
  let place = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    let match = next.id ? known.get(next.id) : place;
    if (match && !next.id && (match.id || match.nodeName !== next.nodeName)) match = null;
    if (match && match.nodeName === next.nodeName) {
      if (match !== place) old.insertBefore(match, place);
      else place = place.nextSibling;
      become(match, next);
    } else {
      const added = document.importNode(next, true);
      if (added.id) added.classList.add("is-fresh");
      old.insertBefore(added, place);
    }
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    gone.remove();
  }
}

// A list under the pointer or with focus inside does not move: rows change in place, rows that left are dimmed and say
// why, and new rows wait behind a button. In a list with data-rows="wait" they always do.
function hold(list, fresh) {
  const waits = list.dataset.rows === "wait";
  const rows = new Map([...fresh.children].filter((row) => row.id).map((row) => [row.id, row]));
  let known = 0;
  for (const row of list.children) {
    const next = rows.get(row.id);
    // The last rows of a long list fall off at its end.
    const isGone = Boolean(row.id) && !next && !waits;
    if (isGone && !row.classList.contains("is-gone")) explain(row);
    row.classList.toggle("is-gone", isGone);
    if (next) {
      known += 1;
      become(row, next);
    }
  }
  const count = rows.size - known;
  unhold(list);
  const settle = () => {
    if (held.get(list)?.fresh !== fresh) return;
    unhold(list);
    children(list, fresh);
  };
  const leave = () => waits || isBusy(list) || settle();
  list.addEventListener("pointerleave", leave);
  list.addEventListener("focusout", () => queueMicrotask(leave), { once: true });
  const button = document.createElement("button");
  if (count > 0) {
    button.type = "button";
    button.className = "held";
    button.dataset.key = "s";
    button.textContent = `${count} new`;
    button.addEventListener("click", settle);
    list.before(button);
  }
  held.set(list, { fresh, button, leave, settle });
}

// Writes into a row that left what happened to its task last: "ana approved it".
async function explain(row) {
  const about = row.dataset.about ?? row.querySelector("[data-row]")?.getAttribute("href");
  if (!about?.startsWith("/tasks/")) return;
  const answer = await fetch(about).catch(() => null);
  if (!answer?.ok || !row.classList.contains("is-gone")) return;
  const task = new DOMParser().parseFromString(await answer.text(), "text/html");
  const words = task.querySelector("#activity .feed > li > span:nth-child(2)")?.textContent;
  if (!words) return;
  const said = document.createElement("p");
  said.className = "left";
  said.textContent = words;
  row.append(said);
}

function unhold(list) {
  const kept = held.get(list);
  if (!kept) return;
  held.delete(list);
  kept.button.remove();
  list.removeEventListener("pointerleave", kept.leave);
}

// Shows everything that waits.
export function release() {
  for (const { settle } of [...held.values()]) settle();
}

// ---- keys

const isTyping = (target) => target.closest("input, textarea, select, [contenteditable]");
let went = 0;

document.addEventListener("keydown", (event) => {
  if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    return press("/");
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (document.body.dataset.keys === "off") return;
  const chord = Date.now() - went < 1500 ? `g ${event.key}` : event.key;
  went = event.key === "g" ? Date.now() : 0;
  if (event.key === "j" || event.key === "k") return step(event.key === "j" ? 1 : -1, event);
  if (event.key === "h" || event.key === "l") return across(event.key === "l" ? 1 : -1, event);
  const own = document.activeElement.closest("li")?.querySelector(`[data-row-key="${CSS.escape(event.key)}"]`);
  if (own) {
    event.preventDefault();
    return own.click();
  }
  // A key of the page goes before the frame's.
  if (press(chord, "main ") || press(chord)) event.preventDefault();
});

// Presses the first visible button or link with this key.
function press(key, inside = "") {
  const found = [...document.querySelectorAll(`${inside}[data-key="${CSS.escape(key)}"]`)].find(
    (element) => element.checkVisibility() && !element.disabled,
  );
  if (found) push(found);
  return Boolean(found);
}

function push(element) {
  element.focus({ preventScroll: false });
  element.click();
  // At once: the next key may already be a letter of the text.
  if (element.matches("details.menu > summary")) begin(element.parentElement);
  if (element.popoverTargetElement?.matches(".panel")) begin(element.popoverTargetElement);
}

// Puts the focus into the first field of a panel that is open.
function begin(panel) {
  const first = "textarea, select, input:not([type=hidden]), form button, div a, :scope > div > details > summary";
  if (panel.open || panel.matches(":popover-open")) [...panel.querySelectorAll(first)].find((field) => field.checkVisibility())?.focus();
}

// Moves the focus along the rows of the page.
function step(by, event) {
  const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.checkVisibility());
  if (rows.length === 0) return;
  event.preventDefault();
  const at = rows.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by));
  rows[next].focus();
}

// Moves the focus to the first row of the next list that has one.
function across(by, event) {
  const lists = [...document.querySelectorAll("[data-rows]")].filter((list) => list.querySelector("[data-row]"));
  const at = lists.indexOf(document.activeElement.closest("[data-rows]"));
  const next = lists[Math.min(lists.length - 1, Math.max(0, at + by))];
  if (!next) return;
  event.preventDefault();
  next.querySelector("[data-row]").focus();
}

// ---- forms

const SLOW_MS = 10_000;

// A button that was pressed says so and cannot be pressed twice.
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (event.defaultPrevented || !button || event.target.method !== "post") return;
  setTimeout(() => {
    button.disabled = true;
    button.dataset.pressed = button.textContent;
    if (button.dataset.busy) button.textContent = button.dataset.busy;
    setTimeout(() => (button.textContent += ": the server still works on it"), SLOW_MS);
  });
});
// A page that the browser kept and shows again has buttons that were pressed before.
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("[data-pressed]")) {
    button.disabled = false;
    if (button.dataset.busy) button.textContent = button.dataset.pressed;
    delete button.dataset.pressed;
  }
});

// A panel that opens is ready to be written in; Escape closes it, and Ctrl Enter sends it.
document.addEventListener(
  "toggle",
  ({ target }) => target.matches("details.menu, .panel") && !target.lastElementChild.contains(document.activeElement) && begin(target),
  { capture: true },
);
document.addEventListener("keydown", (event) => {
  const panel = event.target.closest("details.menu[open]");
  if (event.key === "Escape" && panel) {
    panel.open = false;
    panel.querySelector("summary").focus();
  }
  const form = event.target.closest("form");
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && form?.method === "post") form.requestSubmit(form.querySelector("button"));
});
document.addEventListener("pointerdown", ({ target }) => {
  for (const panel of document.querySelectorAll("details.menu[open]")) if (!panel.contains(target)) panel.open = false;
});

// ---- palette

const ROWS_SHOWN = 8;
const VERBS_SHOWN = 3;
const palette = document.getElementById("palette");
const field = palette?.querySelector("input");
const here = palette?.querySelector("[data-here]");
const found = palette?.querySelector("[data-found]");
let wait = 0;

// The visible buttons of this page by their words, those with a key first.
function verbs(words) {
  const named = new Map();
  const all = [...document.querySelectorAll("main :is(button, a.button, summary.button), .top a.button")];
  const keyed = all.filter((element) => element.dataset.key);
  for (const element of [...keyed, ...all]) {
    if (element.disabled || !element.checkVisibility()) continue;
    const copy = element.cloneNode(true);
    for (const part of copy.querySelectorAll("kbd, svg, .tag, [aria-hidden]")) part.remove();
    const name = copy.textContent.trim();
    if (name.toLowerCase().includes(words) && name && !named.has(name)) named.set(name, element);
  }
  return [...named].slice(0, VERBS_SHOWN);
}

// Leaves as many rows as the palette has room for; the longest list gives way.
function trim() {
  const lists = [...palette.querySelectorAll("[data-here] ul, [data-found] ul")];
  const count = () => lists.reduce((sum, list) => sum + list.children.length, 0);
  while (count() > ROWS_SHOWN) lists.reduce((longest, list) => (list.children.length > longest.children.length ? list : longest)).lastElementChild.remove();
}

// Each row presses the real button of the page, after the palette is closed.
function showVerbs() {
  const rows = verbs(field.value.trim().toLowerCase()).map(([name, element]) => {
    const [row, button, title] = ["li", "button", "span"].map((tag) => document.createElement(tag));
    button.type = "button";
    title.textContent = name;
    button.append(title);
    if (element.dataset.key) {
      const [side, key] = ["span", "kbd"].map((tag) => document.createElement(tag));
      key.textContent = element.dataset.key;
      side.append(key);
      button.append(side);
    }
    button.addEventListener("click", () => {
      palette.hidePopover();
      push(element);
    });
    row.append(button);
    return row;
  });
  const [head, list] = ["h2", "ul"].map((tag) => document.createElement(tag));
  head.textContent = "Here";
  list.append(...rows);
  here.replaceChildren(...(rows.length ? [head, list] : []));
  trim();
}

// Before the palette opens: once it is open, the first letter of a quick typist would be selected, and lost.
palette?.addEventListener("beforetoggle", ({ newState }) => {
  if (newState !== "open") return;
  field.select();
  showVerbs();
  look();
});
field?.addEventListener("input", () => {
  clearTimeout(wait);
  showVerbs();
  wait = setTimeout(look, 80);
});

// What fits the words of the field. An answer that is late for other words is dropped.
async function look() {
  const words = field.value;
  const answer = await fetch(`/search?part=1&q=${encodeURIComponent(words)}`);
  if (!answer.ok || words !== field.value) return;
  const part = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!found.contains(document.activeElement)) found.replaceChildren(...part.querySelector("[data-found]").childNodes);
  trim();
}
palette?.addEventListener("keydown", (event) => {
  const rows = [...palette.querySelectorAll("[data-here] button, [data-found] a")];
  const at = rows.indexOf(document.activeElement);
  // Without words, Enter presses no verb by accident.
  const first = field.value.trim() ? rows[0] : found.querySelector("a");
  if (event.key === "ArrowDown") rows[Math.min(at + 1, rows.length - 1)]?.focus();
  else if (event.key === "ArrowUp") (rows[at - 1] ?? field).focus();
  else if (event.key === "Enter" && at < 0 && first) first.click();
  else return;
  event.preventDefault();
});
