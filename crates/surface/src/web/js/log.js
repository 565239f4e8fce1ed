// The log of a job: while it is followed, new lines come into view, unless the reader scrolled away from the end. How many
// lines came is said politely. Without this script the link "Newer lines" shows them.

const SAY_MS = 10_000;
const output = document.getElementById("output");
const log = () => output.querySelector("#log");
const newest = () => Number(log()?.lastElementChild?.id.slice(1) ?? 0);

// The last lines come with the end of the job, when the page no longer offers to follow.
if (output && log()?.hasAttribute("data-follow")) follow();

function follow() {
  const said = document.createElement("p");
  said.className = "hidden";
  said.setAttribute("role", "status");
  document.querySelector("main").append(said);
  const end = document.getElementById("log-end");
  const toEnd = () => {
    log().scrollTop = log().scrollHeight;
    end.scrollIntoView({ block: "end" });
  };
  let isAtEnd = true;
  let known = newest();
  let told = known;
  let next = 0;
  toEnd();
  new IntersectionObserver(([{ isIntersecting }]) => (isAtEnd = isIntersecting)).observe(end);
  new MutationObserver(() => {
    const last = newest();
    if (last <= known) return;
    known = last;
    if (isAtEnd) toEnd();
    if (Date.now() < next) return;
    next = Date.now() + SAY_MS;
    said.textContent = known - told === 1 ? "1 new line" : `${known - told} new lines`;
    told = known;
  }).observe(output, { childList: true, subtree: true });
}
