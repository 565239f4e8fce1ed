// A board under load: 50 agents move 1,000 tasks from ready to done over HTTP while the board and the inbox are open in a
// browser. The board is live, no call fails, every task is done once. Prints how much of a processor the server takes,
// with the pages open and without. Takes a minute, so the lane runs it only by name.

import { readFileSync } from 'node:fs';
import { Board, Tab, lane, report } from './board.mjs';

const AGENTS = 50;
const TASKS = 1_000;
// An agent needs about so long for a task; it takes the steps at even distances.
const TASK_MS = 1_000;
const STEPS = ['in_progress', 'in_review', 'done'];
// How long the count of the board may stand still while tasks are closed.
const LIVE_MS = 1_000;
const TICKS_A_SECOND = 100;

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Takes tasks from the list, one after the other, until none is left.
async function work(board, actor, tasks) {
  let closed = 0;
  for (let id = tasks.pop(); id; id = tasks.pop()) {
    await board.ask(actor, 'claim', { id });
    for (const to of STEPS) {
      await wait(TASK_MS / STEPS.length);
      await board.ask(actor, 'transition', { id, to });
    }
    closed += 1;
  }
  return closed;
}

// Processor seconds of a process so far.
function processor({ pid }) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_A_SECOND;
}

// Closes every task; the share of one processor that the server took, and how long it took.
async function run(board) {
  const made = JSON.parse(board.cli('task', 'list', '--open', '--limit', '10000', '--json')).items;
  const tasks = made.map((task) => task.id);
  const agents = Array.from({ length: AGENTS }, (_, n) => `agent:w${n}`);
  const [began, before] = [performance.now(), processor(board.server)];
  const ends = await Promise.allSettled(agents.map((actor) => work(board, actor, tasks)));
  const seconds = (performance.now() - began) / 1000;
  const share = (processor(board.server) - before) / seconds;
  const failed = ends.filter((end) => end.status === 'rejected').map((end) => end.reason.message);
  const closed = ends.reduce((sum, end) => sum + (end.value ?? 0), 0);
  return { closed, failed, seconds, share };
}

// Notes in the page when the number of a column changes.
const watchCounts = (tab) =>
  tab.page.evaluate(() => {
    globalThis.changes = [];
    const counts = () => [...document.querySelectorAll('main h2')].map((head) => head.textContent.trim()).join('|');
    let last = counts();
    new MutationObserver(() => {
      const now = counts();
      if (now !== last) globalThis.changes.push(performance.now());
      last = now;
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
  });

async function filled(name) {
  const board = await Board.fresh(name);
  const tasks = Array.from({ length: TASKS }, (_, n) => n);
  // Several calls at a time, so that making the tasks takes seconds.
  const next = async () => {
    for (let n = tasks.pop(); n !== undefined; n = tasks.pop()) {
      await board.ask('agent:maker', 'create', { title: `Task ${n}` });
    }
  };
  await Promise.all(Array.from({ length: 16 }, next));
  return board;
}

await lane('load', async (browser) => {
  const quiet = await filled('quiet');
  const alone = await run(quiet);
  await quiet.stop();

  const board = await filled('watched');
  const context = await Tab.context(browser);
  const tab = await Tab.open(browser, board, { context });
  await tab.page.goto(board.door());
  await tab.goto('/board');
  // The inbox is in a window of its own: a hidden tab fetches nothing.
  const inbox = await Tab.open(browser, board, {});
  await inbox.goto('/');
  await watchCounts(tab);
  const watched = await run(board);
  const changes = await tab.page.evaluate(() => globalThis.changes);
  const gaps = changes.slice(1).map((at, n) => at - changes[n]);
  const longest = Math.round(Math.max(...gaps));

  for (const [name, seen] of Object.entries({ 'without pages': alone, 'with pages': watched })) {
    report(`${TASKS} tasks are closed ${name}, and no call fails`, seen.closed === TASKS && seen.failed.length === 0,
      { closed: seen.closed, failed: seen.failed.slice(0, 3) });
    console.log(`${name}: ${seen.seconds.toFixed(1)} s, ${(seen.share * 100).toFixed(0)} % of a processor`);
  }
  console.log(`the counts of the board changed ${changes.length} times, the longest pause was ${longest} ms`);
  report(`a count of the board changes within ${LIVE_MS} ms`, changes.length > 10 && longest <= LIVE_MS, { longest, changes: changes.length });
  const ended = await (await fetch(`${board.url}/audit.ndjson?q=verb:task.status_changed`)).text();
  const done = new Map();
  for (const line of ended.trim().split('\n')) {
    const event = JSON.parse(line);
    if (event.data.to === 'done') done.set(event.task, (done.get(event.task) ?? 0) + 1);
  }
  const once = done.size === TASKS && [...done.values()].every((times) => times === 1);
  report('every task is done once', once, { tasks: done.size, most: Math.max(...done.values()) });
  const broken = [...tab.broken, ...inbox.broken];
  report('the console has no error', broken.length === 0, broken);
});
