// Keeps an open page up to date: listens to the stream of events, fetches the page again and puts the parts that are
// marked data-live in the place of the old ones. Forms that are being written stay. Without this script the pages are
// complete, and a reload updates them.
import { morph, release } from "./page.js";
import "./find.js";

// The pause between two fetches on a busy board.
const PAUSE_MS = 300;
// A server that restarts is back within this time.
const AWAY_MS = 2000;
// A picture that is redrawn too often cannot be read.
const SLOW_MS = 5000;
const AGES_MS = 15_000;
// The output of an agent grows without events: a page that marks it with data-every fetches it at this pace.
const OUTPUT_MS = 2000;

const { stream, events, seen } = document.body.dataset;
const concerned = (events ?? "").split(" ");
const dot = document.querySelector(".live");
let isOpen = true;
let isPaused = false;
let isStale = false;
let isRenewing = false;
let asOf = new Date();

// Says that the server is away, since when, and keeps forms from being sent into nothing. A stream that opens again at
// once is no news.
let timer = 0;
let note = null;
function tell() {
  clearTimeout(timer);
  if (isOpen) return away(false);
  timer = setTimeout(() => away(true), AWAY_MS);
}

function away(isAway) {
  for (const button of document.querySelectorAll("form[method=post] button:not([type=button])")) {
    if (isAway && !button.disabled) button.dataset.away = "";
    if ("away" in button.dataset) button.disabled = isAway;
    if (!isAway) delete button.dataset.away;
  }
  if (!isAway) note?.remove();
  if (!isAway || note?.isConnected) return;
  note = document.createElement("p");
  note.className = "note is-late away";
  note.setAttribute("role", "status");
  note.textContent = `As of ${asOf.toLocaleTimeString()}: the server is away. This page tries again by itself; forms can be sent when it is back.`;
  document.querySelector("main").prepend(note);
}

function show() {
  if (!dot) return;
  const state = isPaused ? "paused" : isOpen ? "live" : "lost";
  const words = { live: "Live", paused: isStale ? "Paused, changed since" : "Paused", lost: "Reconnecting" };
  dot.dataset.state = state;
  dot.querySelector("span").textContent = words[state];
}

const hear = ({ name, isOpen: open }) => {
  if (open !== undefined) {
    // The server may have been away: what was missed is in the page.
    if (open && !isOpen) renew();
    isOpen = open;
    show();
    tell();
  } else if (name === "" || concerned.includes(name)) renew();
};

function connect() {
  const alone = () => {
    const script = document.createElement("script");
    script.src = "/js/stream.js";
    script.addEventListener("load", () =>
      // `listen` is a global of that script.
      window.listen(stream, Number(seen), (name) => hear({ name }), (open) => hear({ isOpen: open })));
    document.head.append(script);
  };
  if (typeof SharedWorker === "undefined") return alone();
  const worker = new SharedWorker("/js/stream.js");
  const hello = () => worker.port.postMessage({ stream, seen: Number(seen) });
  worker.addEventListener("error", alone, { once: true });
  worker.port.addEventListener("message", ({ data }) => hear(data));
  worker.port.start();
  hello();
  addEventListener("pagehide", () => worker.port.postMessage("bye"));
  addEventListener("pageshow", ({ persisted }) => persisted && hello());
}

// Fetches one at a time, and only for a visible page that is not paused; events that come meanwhile cause one more
// fetch.
export async function renew() {
  isStale = true;
  show();
  if (isRenewing) return;
  isRenewing = true;
  while (isStale && !document.hidden && !isPaused) {
    isStale = false;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.ok) {
        morph(new DOMParser().parseFromString(await answer.text(), "text/html"));
        asOf = new Date();
      }
    } catch {
      // The server is away; the stream reports its return.
    }
    const pause = document.querySelector("[data-slow]") ? SLOW_MS : PAUSE_MS;
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  isRenewing = false;
}

// Writes the words of `parts.rs` again for the time that went by.
function span(seconds) {
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(seconds / 3600);
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (minutes < 60) return `${minutes} min`;
  if (hours < 24) return minutes % 60 ? `${hours} h ${String(minutes % 60).padStart(2, "0")}` : `${hours} h`;
  return `${Math.floor(hours / 24)} d`;
}

function freshen() {
  for (const time of document.querySelectorAll("time[data-age], time[data-ago]")) {
    const words = span((Date.now() - Date.parse(time.dateTime)) / 1000);
    time.textContent = "ago" in time.dataset ? `${words} ago` : words;
  }
}

// What is left of a lease or of the time for an answer, and the ring beside the words.
function count() {
  for (const time of document.querySelectorAll("time[data-left]")) {
    const left = Math.max(0, Date.parse(time.dateTime) - Date.now());
    const words = span(left / 1000);
    if (time.textContent === words) continue;
    time.textContent = words;
    const ring = time.closest(".lease")?.querySelector(".ring > :last-child");
    ring?.setAttribute("stroke-dasharray", `${Math.min(100, Math.floor((left * 100) / time.dataset.left))} 100`);
  }
}

document.addEventListener("pointerover", ({ target }) => {
  const time = target.closest("time[data-age]");
  if (time) time.title = time.dateTime;
});
dot?.addEventListener("click", () => {
  isPaused = !isPaused;
  show();
  if (!isPaused) {
    release();
    if (isStale) renew();
  }
});
document.addEventListener("visibilitychange", () => isStale && renew());
setInterval(freshen, AGES_MS);
setInterval(count, 1000);
setInterval(() => document.querySelector("[data-every]") && renew(), OUTPUT_MS);
setInterval(() => document.querySelector("[data-moving]") && renew(), AGES_MS);
setInterval(() => document.querySelector("[data-minutely]") && renew(), 60_000);
if (stream) {
  show();
  connect();
}
