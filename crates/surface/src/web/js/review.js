// The review under the hands: moves along files and lines, comments on a line or a dragged range, ticks files off. Every
// key presses a form or a link that works without this script too.
import { renew } from "./live.js";
import { morph } from "./page.js";

const files = () => [...document.querySelectorAll(".file")];
const lines = () => [...document.querySelectorAll(".file details[open] [data-line]")];
const isTyping = (target) => target.closest("input, textarea, select");
let current = null;

function mark(line) {
  current?.classList.remove("is-line");
  current = line;
  line?.classList.add("is-line");
  line?.scrollIntoView({ block: "nearest" });
}

// The file that the eyes are on: that of the marked line, else the first one that reaches below the bars.
function fileNow() {
  const marked = current?.closest(".file");
  return marked ?? files().find((file) => file.getBoundingClientRect().bottom > 160);
}

function toFile(by) {
  const all = files();
  const at = all.indexOf(fileNow());
  const next = all[Math.min(all.length - 1, Math.max(0, at + by))];
  if (!next) return;
  mark(null);
  next.scrollIntoView();
  next.querySelector("summary").focus({ preventScroll: true });
  mark(next.querySelector("details[open] [data-line]"));
}

function toLine(by) {
  const all = lines();
  const at = current?.isConnected ? all.indexOf(current) : all.findIndex((line) => line.getBoundingClientRect().top > 120) - by;
  mark(all[Math.min(all.length - 1, Math.max(0, at + by))]);
}

// Goes to the first line of another hunk.
function toHunk(by) {
  const hunks = [...document.querySelectorAll(".file details[open] tr.hunk:not(.tail)")];
  const top = (current ?? document.querySelector(".decide"))?.getBoundingClientRect().top ?? 0;
  const after = hunks.filter((hunk) => hunk.getBoundingClientRect().top > top + 1);
  const before = hunks.filter((hunk) => hunk.getBoundingClientRect().top < top - 1);
  // The head right above the marked line is that of the hunk one stands in.
  const inside = current && before.at(-1)?.nextElementSibling === (current.closest("tr") ?? current);
  const hunk = by > 0 ? after[0] : inside ? before.at(-2) : before.at(-1);
  const row = hunk?.nextElementSibling;
  if (!row) return;
  mark(row.dataset.line ? row : row.querySelector("[data-line]"));
  current?.scrollIntoView({ block: "center" });
}

// Opens the form of a comment on the lines between two rows of one file.
function comment(from, to = from) {
  const path = from?.closest(".file")?.dataset.path;
  if (!path || !("comments" in diff.dataset)) return;
  const [first, last] = [from, to].map((line) => line.dataset.line);
  const side = last[0];
  const [low, high] = [Number(first.slice(1)), Number(last.slice(1))].sort((a, b) => a - b);
  const address = new URL(location.href);
  address.searchParams.set("comment", `${path}:${side}${first[0] === side ? low : high}-${high}`);
  // With a fragment a browser would not focus the field.
  address.hash = "";
  location.assign(address);
}

document.addEventListener(
  "keydown",
  (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const acts = {
      "]": () => toFile(1),
      "[": () => toFile(-1),
      "}": () => toHunk(1),
      "{": () => toHunk(-1),
      j: () => toLine(1),
      k: () => toLine(-1),
      c: () => comment(current ?? lines()[0]),
      v: () => fileNow()?.querySelector("[data-viewed]")?.click(),
      x: () => fileNow()?.querySelector("summary")?.click(),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
  },
  { capture: true },
);

// A range is dragged over the numbers of lines.
let from = null;

// The line of a cell: its row, or in the split view the next cell of code.
function lineAt(target) {
  let cell = target.closest(".file td");
  if (!cell || cell.parentElement.dataset.line) return cell?.parentElement;
  while (cell && !cell.dataset.line) cell = cell.nextElementSibling;
  return cell;
}

document.addEventListener("pointerdown", (event) => {
  from = event.button === 0 && event.target.closest(".file td.no") ? lineAt(event.target) : null;
  if (from) event.preventDefault();
});
document.addEventListener("pointerup", (event) => {
  const to = from && lineAt(event.target);
  if (to && to.closest(".file") === from.closest(".file")) comment(from, to);
  from = null;
});

// A tick folds its file and goes to the next one, without a reload.
document.addEventListener("submit", async (event) => {
  if (!event.target.action.endsWith("/review/viewed")) return;
  event.preventDefault();
  const file = event.target.closest(".file");
  const form = new FormData(event.target);
  const off = form.has("off");
  // The page of the file alone: the page of a long change may not have this file.
  form.set("next", `${location.pathname}?${new URLSearchParams({ file: file.dataset.path })}`);
  const answer = await fetch(event.target.action, { method: "POST", body: new URLSearchParams(form) });
  if (!answer.ok) return location.reload();
  morph(new DOMParser().parseFromString(await answer.text(), "text/html"), [event.target]);
  if (!off) {
    toFile(1);
    file.querySelector("details").open = false;
  }
  renew();
});

// A long change comes in parts: the next files are fetched when the link to them comes near.
const ahead = new IntersectionObserver(
  (seen) => seen.filter((one) => one.isIntersecting).forEach((one) => grow(one.target)),
  { rootMargin: "1500px" },
);
const watch = () => document.querySelectorAll("[data-next]").forEach((link) => ahead.observe(link));

async function grow(link) {
  ahead.unobserve(link);
  const answer = await fetch(link.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  // The work moved on: its files are others now, and the link stays.
  if (page.querySelector(".review")?.dataset.head !== diff.dataset.head) return;
  const parts = (root) => [...root.querySelectorAll(".files")];
  const place = parts(document).indexOf(link.closest(".files"));
  link.closest(".others").replaceWith(...parts(page)[place].children);
  watch();
}

// The tree leads to a file that came later on this page, not to a page of its own.
document.addEventListener("click", (event) => {
  const link = event.target.closest(".tree a");
  if (!link?.search || event.ctrlKey || event.metaKey || event.shiftKey || !document.getElementById(link.hash.slice(1))) return;
  event.preventDefault();
  location.hash = link.hash;
});

// The bar of verdicts is live and the diff is not: a verdict counts for the files that are on the page.
document.addEventListener("submit", (event) => {
  const { head, tree } = event.target.elements;
  if (!tree) return;
  if (diff?.dataset.tree) {
    head.value = diff.dataset.head;
    tree.value = diff.dataset.tree;
  } else {
    event.preventDefault();
    location.reload();
  }
});

// The head of the page is live, the diff is not: when the work moves on, a line says so and leads to the new commits.
const head = document.querySelector("#review-head");
const moved = document.querySelector("#review-moved");
const diff = document.querySelector(".review");
watch();
if (head && moved && diff) {
  new MutationObserver(() => {
    const now = document.querySelector("#review-head")?.dataset.head;
    moved.hidden = !now || now === diff.dataset.head;
  }).observe(head.parentElement, { attributes: true, childList: true, subtree: true, attributeFilter: ["data-head"] });
}

document.querySelector("#comment")?.scrollIntoView({ block: "center" });
// A draft that was kept stands below the line with which the keys go on.
const kept = location.hash.startsWith("#draft-") && document.getElementById(location.hash.slice(1));
const above = kept && kept.closest("tr.said")?.previousElementSibling;
if (above) {
  mark(above.dataset.line ? above : above.querySelector("[data-line]"));
  kept.scrollIntoView({ block: "center" });
}
