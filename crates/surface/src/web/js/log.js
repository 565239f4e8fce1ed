// The log of a job: while it is followed, new lines come into view, unless the reader scrolled away from the end. How many
// lines came is said politely. Without this script the link "Newer lines" shows them.

const SAY_MS = 10_000;
const said = document.createElement("p");
said.className = "hidden";
said.setAttribute("role", "status");
document.body.append(said);

const output = document.getElementById("output");
const log = () => document.querySelector(".log[data-follow]");
const newest = () => Number(log()?.lastElementChild?.id.slice(1) ?? 0);
const toEnd = () => document.getElementById("log-end")?.scrollIntoView({ block: "end" });
let isAtEnd = true;
let known = newest();
let told = known;
let next = 0;

if (output && log()) {
  toEnd();
  // The part of the page is kept while its lines change, so that one observer is enough.
  const watch = new IntersectionObserver(([{ isIntersecting }]) => (isAtEnd = isIntersecting));
  watch.observe(document.getElementById("log-end"));
  new MutationObserver(() => {
    const last = newest();
    if (last <= known) return;
    known = last;
    if (isAtEnd) {
      log().scrollTop = log().scrollHeight;
      toEnd();
    }
    if (Date.now() < next) return;
    next = Date.now() + SAY_MS;
    said.textContent = known - told === 1 ? "1 new line" : `${known - told} new lines`;
    told = known;
  }).observe(output, { childList: true, subtree: true });
}
