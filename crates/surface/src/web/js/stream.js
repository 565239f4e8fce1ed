// The stream of events, as a worker that all tabs share: a browser opens few connections to one server, and a stream
// would take one for every tab. A page without shared workers calls `listen` itself.
"use strict";

const AGAIN_MS = 5000;

// Calls `hear` with the name and the number of every event after `seen`, and `tell` with whether the stream is open.
function listen(url, seen, hear, tell) {
  const names = new URL(url, self.location.origin).searchParams.get("names").split(",");
  const open = () => {
    const source = new EventSource(`${url}&after=${seen}`);
    for (const name of names) {
      source.addEventListener(name, ({ lastEventId }) => {
        seen = Number(lastEventId);
        hear(name, seen);
      });
    }
    source.addEventListener("open", () => tell(true));
    source.addEventListener("error", () => {
      tell(false);
      // A browser reconnects and resumes by itself, unless it was refused.
      if (source.readyState === EventSource.CLOSED) setTimeout(open, AGAIN_MS);
    });
  };
  open();
}

if (typeof document === "undefined") {
  const pages = new Set();
  let last = null;
  let isOpen = false;
  const say = (message) => pages.forEach((page) => page.postMessage(message));
  const hear = (name, seen) => {
    last = seen;
    say({ name });
  };
  const tell = (open) => {
    isOpen = open;
    say({ isOpen });
  };
  self.addEventListener("connect", ({ ports: [port] }) => {
    port.addEventListener("message", ({ data }) => {
      if (data === "bye") return pages.delete(port);
      pages.add(port);
      if (last === null) {
        last = data.seen;
        listen(data.stream, data.seen, hear, tell);
      } else {
        port.postMessage({ isOpen });
        // An empty name: some event came after the page was made.
        if (data.seen < last) port.postMessage({ name: "" });
      }
    });
    port.start();
  });
}
