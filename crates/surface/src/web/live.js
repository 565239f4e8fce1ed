// Updates an open page: listens to one stream of events, fetches the page again and replaces the parts
// that are marked data-live. Forms stand outside of them, so a half-written form stays. Without this
// script the pages are complete, and a reload updates them.
//
// This file is both the page's script and the worker that all tabs share: a browser opens few
// connections to one server, and a stream would take one for every tab.
"use strict";

const AGAIN_MS = 5000;
// The pause between two fetches on a busy board.
const PAUSE_MS = 300;

// Calls `hear` with the name and the number of every event after `seen`.
function listen(url, seen, hear) {
  const names = new URL(url, self.location.origin).searchParams.get("names").split(",");
  const open = () => {
    const source = new EventSource(`${url}&after=${seen}`);
    for (const name of names) {
      source.addEventListener(name, ({ lastEventId }) => {
        seen = Number(lastEventId);
        hear(name, seen);
      });
    }
    source.addEventListener("error", () => {
      // A browser reconnects and resumes by itself, unless it was refused.
      if (source.readyState === EventSource.CLOSED) setTimeout(open, AGAIN_MS);
    });
  };
  open();
}

function beWorker() {
  const pages = new Set();
  let last = null;
  const hear = (name, seen) => {
    last = seen;
    pages.forEach((page) => page.postMessage(name));
  };
  self.addEventListener("connect", ({ ports: [port] }) => {
    port.addEventListener("message", ({ data }) => {
      if (data === "bye") return pages.delete(port);
      pages.add(port);
      if (last === null) {
        last = data.seen;
        listen(data.stream, data.seen, hear);
      } else if (data.seen < last) {
        port.postMessage("");
      }
    });
    port.start();
  });
}

function bePage() {
  const { stream, events, seen } = document.body.dataset;
  const concerned = events.split(" ");
  // An empty name: some event came after the page was made.
  const hear = (name) => {
    if (name === "" || concerned.includes(name)) renew();
  };
  const alone = () => listen(stream, Number(seen), hear);
  if (typeof SharedWorker === "undefined") return alone();
  const worker = new SharedWorker("/live.js");
  const hello = () => worker.port.postMessage({ stream, seen: Number(seen) });
  worker.addEventListener("error", alone, { once: true });
  worker.port.addEventListener("message", ({ data }) => hear(data));
  worker.port.start();
  hello();
  addEventListener("pagehide", () => worker.port.postMessage("bye"));
  addEventListener("pageshow", ({ persisted }) => persisted && hello());
}

let isRenewing = false;
let isStale = false;

// Fetches one at a time, and only for a visible page; events that come meanwhile cause one more fetch.
async function renew() {
  isStale = true;
  if (isRenewing) return;
  isRenewing = true;
  while (isStale && !document.hidden) {
    isStale = false;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.ok) show(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
      // The server is away; the stream reports its return.
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  isRenewing = false;
}

function show(fresh) {
  document.title = fresh.title;
  for (const old of document.querySelectorAll("[data-live]")) {
    const part = fresh.getElementById(old.id);
    if (!part || part.outerHTML === old.outerHTML) continue;
    const focused = old.contains(document.activeElement) && place(document.activeElement);
    const opened = [...old.querySelectorAll("details[open]")].map((details) => details.id);
    const shown = document.adoptNode(part);
    for (const id of opened) shown.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
    old.replaceWith(shown);
    if (focused) shown.querySelector(focused)?.focus({ preventScroll: true });
  }
}

// A selector that finds a control again after its part was replaced.
function place(element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  const href = element.getAttribute("href");
  if (href) return `a[href="${CSS.escape(href)}"]`;
  const form = element.closest("form");
  if (form) return `form[action="${CSS.escape(form.getAttribute("action"))}"] button`;
  const details = element.closest("details");
  return details && `#${CSS.escape(details.id)} summary`;
}

if (typeof document === "undefined") beWorker();
else {
  bePage();
  document.addEventListener("visibilitychange", () => isStale && renew());
}
