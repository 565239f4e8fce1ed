// The scripted agents of a soak. Each works until `run.stopped` says so and writes what it did into `run.notes`, which
// the judge reads. An agent treats refusals of a lost race as an answer; everything else that fails is noted as broken.

import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Refused } from './client.mjs';

// Refusals that a caller gets who came too late, by the toolset's own words.
const TOO_LATE = new Set(['ALREADY_CLAIMED', 'SESSION_ACTIVE', 'SESSION_TERMINAL', 'TASK_CLOSED', 'NOT_SESSION_OWNER',
  'task.already_claimed', 'task.not_actionable', 'task.invariant_violated']);
const BROKEN_KEPT = 50;
// A client opens a new session after so many tasks.
const TASKS_PER_SESSION = 20;
const WAIT_S = 15;
const FILL_BATCH = 20;

const pick = (list) => list[Math.floor(Math.random() * list.length)];
const pause = (run) => delay(run.stepMs * (0.5 + Math.random()));

export function blankNotes() {
  return {
    made: new Set(), done: [], pending: new Set(), calls: 0, times: [], refused: {}, broken: [], pages: 0,
    late: { asked: 0, accepted: [] }, repeats: { asked: 0, differ: [] }, expired: 0,
    waits: { asked: 0, woken: 0, slept: [] }, streams: [], jobs: new Map(), abandoned: 0,
  };
}

function broke(run, words) {
  run.notes.brokenCount = (run.notes.brokenCount ?? 0) + 1;
  if (run.notes.broken.length < BROKEN_KEPT) run.notes.broken.push(words);
}

// A call whose refusal is an answer: undefined when the caller came too late.
async function ask(run, client, tool, input, key) {
  const began = performance.now();
  run.notes.calls += 1;
  try {
    return await client.call(tool, input, key);
  } catch (error) {
    const code = error instanceof Refused ? error.code : undefined;
    if (code) run.notes.refused[code] = (run.notes.refused[code] ?? 0) + 1;
    if (!TOO_LATE.has(code)) broke(run, `${client.actor} ${tool}: ${error.message}`);
    return undefined;
  } finally {
    if (tool !== 'tasks_wait') run.notes.times.push(performance.now() - began);
  }
}

// Sends a call a second time under its retry key. The answer must be the first one.
async function repeated(run, client, tool, input, key, first) {
  run.notes.repeats.asked += 1;
  const second = await ask(run, client, tool, input, key);
  if (JSON.stringify(second) !== JSON.stringify(first)) run.notes.repeats.differ.push(`${client.actor} ${tool} ${key}`);
}

// The former holder of a task that was taken since makes its call: it must be refused.
async function haunt(run, task) {
  const ghost = run.ghosts.get(task);
  if (!ghost) return;
  run.ghosts.delete(task);
  run.notes.late.asked += 1;
  const { client, tool, input } = ghost;
  if (await ask(run, client, tool, input)) run.notes.late.accepted.push(`${client.actor} ${tool} ${task}`);
  // The first ghosts never end their sessions: the server keeps such a session for an hour.
  const silent = run.notes.abandoned < run.abandonedMax;
  if (silent) run.notes.abandoned += 1;
  await client.close({ silent });
}

// Claims, works and closes in the words of `graph`.
async function graphTask(run, client, habit) {
  const stalled = Math.random() < 0.2 && (await ask(run, client, 'list', { execution: 'stalled', limit: 10 }))?.tasks;
  const takeover = stalled?.length > 0;
  const tasks = takeover ? stalled : (await ask(run, client, 'list', { ready: true, status: 'backlog', limit: 50 }))?.tasks;
  if (!tasks?.length) return false;
  const { id } = pick(tasks);
  const key = randomUUID();
  const given = { id, expected_actor: client.actor, idempotency_key: key, takeover };
  const session = await ask(run, client, 'begin', given);
  if (!session) return false;
  if (takeover) run.notes.expired += 1;
  await haunt(run, id);
  if (habit === 'vanishes') {
    run.ghosts.set(id, { client, tool: 'finish', input: { session: session.id, summary: 'late' } });
    return 'gone';
  }
  await pause(run);
  await ask(run, client, 'heartbeat', { session: session.id, progress: 'half' });
  await pause(run);
  await ask(run, client, 'note', { id, text: 'a note of some length, as agents write them' });
  await pause(run);
  if (!(await ask(run, client, 'finish', { session: session.id, summary: 'done' }))) return false;
  await pause(run);
  const retry = habit === 'repeats' ? key : undefined;
  const closed = await ask(run, client, 'transition', { id, to: 'done' }, retry);
  if (closed) run.notes.done.push({ task: id, actor: client.actor });
  if (closed && retry) await repeated(run, client, 'transition', { id, to: 'done' }, retry, closed);
  if (closed && run.double-- > 0) await ask(run, run.stranger, 'transition', { id, to: 'done' });
  return true;
}

// Claims under a lease, works and completes in the words of `execution`.
async function executionTask(run, client, habit) {
  const tasks = (await ask(run, client, 'get_next_actionable', { limit: 20 }))?.tasks;
  if (!tasks?.length) return false;
  const { taskId } = pick(tasks);
  const key = randomUUID();
  const lease = await ask(run, client, 'claim_task', { taskId, leaseSec: run.leaseS });
  if (!lease) return false;
  if (lease.fence > 1) run.notes.expired += 1;
  await haunt(run, taskId);
  const output = { words: 'the result of this task', by: client.actor };
  const given = { taskId, output, fence: lease.fence };
  if (habit === 'vanishes') {
    run.ghosts.set(taskId, { client, tool: 'complete_task', input: given });
    return 'gone';
  }
  for (let step = 0; step < 2; step += 1) {
    await pause(run);
    if (!(await ask(run, client, 'update_task_status', { taskId, status: 'in_progress', fence: lease.fence }))) return false;
  }
  await pause(run);
  const retry = habit === 'repeats' ? key : undefined;
  const closed = await ask(run, client, 'complete_task', given, retry);
  if (!closed) return false;
  if (closed.state === 'done') run.notes.done.push({ task: taskId, actor: client.actor });
  else run.notes.pending.add(taskId);
  if (retry) await repeated(run, client, 'complete_task', given, retry, closed);
  return true;
}

// Makes a card of its own, works on it and closes it, in the words of `board`.
async function boardTask(run, client) {
  const card = await ask(run, client, 'tasks_create', { title: `Card of ${client.actor}`, status: 'IN_PROGRESS' });
  if (!card) return false;
  run.notes.made.add(card.task_id);
  await pause(run);
  await ask(run, client, 'update_scratchpad', { task_id: card.task_id, content: 'what was found so far' });
  await pause(run);
  await ask(run, client, 'tasks_list', { filter: 'BACKLOG', limit: 20 });
  await pause(run);
  const closed = await ask(run, client, 'tasks_move', { task_id: card.task_id, status: 'DONE' });
  if (closed) run.notes.done.push({ task: card.task_id, actor: client.actor });
  return true;
}

// Submits a job for a patch and looks until it is over, in the words of `relay`.
async function relayJob(run, client) {
  const spec = {
    repo: { type: 'local', path: run.repo, baseBranch: 'main', baselineCommit: run.commit },
    task: { title: 'A patch', description: 'Change nothing.', acceptance: ['nothing changed'] },
    scope: { readPaths: [], disallowReformatting: true },
    outputContract: ['DIFF', 'TEST_PLAN', 'NOTES'],
    execution: { preferredModel: 'soak', sandbox: 'read-only', askPolicy: 'untrusted', priority: 'P1', ttlS: 600 },
    idempotencyKey: randomUUID(),
  };
  const job = await ask(run, client, 'jobs_submit', { spec });
  if (!job) return false;
  run.notes.jobs.set(job.jobId, 'QUEUED');
  for (let look = 0; look < 120; look += 1) {
    await delay(1_000);
    const { state } = (await ask(run, client, 'jobs_get', { jobId: job.jobId })) ?? {};
    if (state) run.notes.jobs.set(job.jobId, state);
    if (state && state !== 'QUEUED' && state !== 'RUNNING') break;
  }
  return true;
}

// Waits for a task that is open now. A wait that ends long after the task was closed slept.
async function wait(run, client) {
  const task = pick([...run.open].slice(-100));
  if (!task) return false;
  const began = performance.now();
  run.notes.waits.asked += 1;
  const given = { task_id: task, wait_for_status: ['DONE'], timeout_seconds: WAIT_S };
  const answer = await ask(run, client, 'tasks_wait', given);
  const closed = run.closedAt.get(task);
  if (answer?.changed) run.notes.waits.woken += 1;
  else if (closed > began + 1_000 && closed < performance.now() - 5_000) run.notes.waits.slept.push(task);
  return true;
}

const WORK = { graph: graphTask, execution: executionTask, board: boardTask, relay: relayJob, waits: wait };

// One agent from its first call to its last. After a vanished client a new one takes its place, with a new name.
export async function work(run, name, kind, habit) {
  const toolset = kind === 'waits' ? 'board' : kind;
  const born = (life) => new Client(run.url, `agent:${name}-${life}`, toolset, { sessions: habit !== 'sessionless' });
  let [life, client, tasks] = [1, born(1), 0];
  await delay(Math.random() * 2 * run.stepMs);
  while (!run.stopped()) {
    // Of two vanishing agents' tasks one is done.
    const now = habit === 'vanishes' && (run.draining || Math.random() < 0.5) ? undefined : habit;
    const did = await WORK[kind](run, client, now).catch((error) => broke(run, `${client.actor}: ${error.stack}`));
    if (did === 'gone') {
      client = born((life += 1));
    } else if (did && (tasks += 1) % TASKS_PER_SESSION === 0) {
      await client.close().catch((error) => broke(run, `${client.actor} close: ${error.message}`));
      client = born(life);
    }
    await pause(run);
  }
  await client.close().catch((error) => broke(run, `${client.actor} close: ${error.message}`));
}

// Keeps the number of open tasks at `run.openTarget`, with at most 10 new tasks at a time.
export async function produce(run) {
  const client = new Client(run.url, 'agent:producer', 'graph');
  const other = new Client(run.url, 'agent:producer', 'execution', { sessions: false });
  const make = async (number) => {
    const title = `Task ${number}`;
    // Every 20th task has a command that must pass before the task is done.
    const checks = number % 20 === 0 ? [{ desc: 'nothing is wrong', cmd: 'true' }] : [];
    const made = number % 2
      ? await ask(run, other, 'add_task', { title, verificationContract: { kind: 'none' }, clientToken: randomUUID() })
      : await ask(run, client, 'create', { title, body: 'What is to be done here, in a line.', checks }, randomUUID());
    const id = made?.id ?? made?.taskId;
    if (!id) return;
    run.notes.made.add(id);
    if (!run.closedAt.has(id)) run.open.add(id);
  };
  await client.open();
  for (let number = 1; !run.draining; ) {
    const missing = Math.max(0, Math.min(10, run.openTarget - run.open.size));
    await Promise.all(Array.from({ length: missing }, (_, n) => make(number + n)));
    number += missing;
    await delay(200);
  }
  await client.close();
  await other.close();
}

// Closes large tasks, so that the caches of a server are full before it is judged: SQLite's writer keeps 16 MB of the
// database, and each of four readers 2 MB.
export async function fill(run, bytes) {
  const client = new Client(run.url, 'agent:filler', 'board');
  const description = 'What was to be done here, in many words. '.repeat(200);
  for (let left = bytes; left > 0; left -= FILL_BATCH * description.length) {
    const tasks = Array.from({ length: FILL_BATCH }, (_, n) => ({ title: `Old task ${n}`, description, status: 'DONE' }));
    const made = await client.call('tasks_create', { tasks });
    for (const { task_id: task } of made.tasks) {
      run.notes.made.add(task);
      run.notes.done.push({ task, actor: client.actor });
    }
  }
  await client.close();
}

// Follows the log. With `everyMs` the reader leaves after that time and goes on from its last event.
export async function listen(run, everyMs, heard = () => {}) {
  const client = new Client(run.url, 'agent:listener', 'graph');
  const seen = { first: undefined, last: 0, gaps: 0, opened: 0 };
  run.notes.streams.push(seen);
  while (!run.over.aborted) {
    const signal = everyMs ? AbortSignal.any([run.over, AbortSignal.timeout(everyMs)]) : run.over;
    seen.opened += 1;
    const note = (event) => {
      if (event.seq !== seen.last + 1) seen.gaps += 1;
      seen.first ??= event.seq;
      seen.last = event.seq;
      heard(event);
    };
    await client.follow(seen.last, note, signal).catch((error) => {
      broke(run, error.message);
      return delay(1_000);
    });
  }
}

// Opens pages of the board, one after the other.
export async function read(run) {
  const client = new Client(run.url, 'agent:reader', 'graph');
  const pages = ['/', '/board', '/agents', '/graph', '/audit', '/plans', '/decisions', '/mail', '/metrics'];
  for (let n = 0; !run.stopped(); n += 1) {
    const task = pick([...run.open].slice(-100));
    const path = n % 3 === 0 && task ? `/tasks/${task}` : pages[n % pages.length];
    await client.page(path).then(() => (run.notes.pages += 1), (error) => broke(run, error.message));
    await delay(run.stepMs);
  }
  await client.close();
}
