// A soak of one server on one store: agents work for minutes, then the judge looks at the log and at what the server used.
// `scripts/soak` starts it with what it needs; its comment says what the options mean.

import { writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { blankNotes, fill, listen, produce, read, work } from './agents.mjs';
import { Client } from './client.mjs';
import { judgeEnd, judgeHistory, judgeUse, middle } from './judge.mjs';
import { Server } from './server.mjs';

const { values: options } = parseArgs({
  options: {
    binary: { type: 'string' }, work: { type: 'string' }, store: { type: 'string' }, minutes: { type: 'string' },
    agents: { type: 'string' }, 'step-ms': { type: 'string' }, break: { type: 'string' }, samples: { type: 'string' },
  },
});
const SAMPLE_MS = 5_000;
const DRAIN_MS_MAX = 180_000;
const LOG_MS_MAX = 600_000;
const LEASE_S = 10;
const FILL_BYTES = 32e6;

// Of 50 agents: 20 graph, 15 execution, 5 board, 2 relay, 4 that wait, 3 that follow the log, 1 that reads pages.
const ROLES = [
  ...Array(4).fill(['graph', 'vanishes']), ...Array(4).fill(['graph', 'repeats']), ...Array(4).fill(['graph', 'sessionless']),
  ...Array(8).fill(['graph']), ...Array(3).fill(['execution', 'vanishes']), ...Array(3).fill(['execution', 'repeats']),
  ...Array(9).fill(['execution']), ...Array(5).fill(['board']), ...Array(2).fill(['relay']), ...Array(4).fill(['waits']),
  ['follows', 0], ['follows', 7_000], ['follows', 11_000], ['reads'],
];

const minutes = Number(options.minutes);
const count = Number(options.agents);
const postgres = options.store.startsWith('postgres:');
const server = new Server(options.binary, options.work, { store: postgres ? options.store : undefined, leaseS: LEASE_S });
const over = new AbortController();
const run = {
  notes: blankNotes(), stepMs: Number(options['step-ms']), leaseS: LEASE_S, repo: server.repo, commit: server.commit,
  openTarget: count * 2, open: new Set(), closedAt: new Map(), ghosts: new Map(), abandonedMax: Math.ceil(count / 10),
  draining: false, ended: false, stopped: () => run.ended, over: over.signal, double: options.break === 'double' ? 1 : 0,
};

// The first follower also tells which tasks are open.
function heard({ event, task, data }) {
  if (event !== 'task.status_changed' || data.phase !== 'closed_done') return;
  run.open.delete(task);
  run.closedAt.set(task, performance.now());
}

async function readLog(client, last) {
  const events = [];
  const keep = ({ seq, event, task, actor, data }) => {
    events.push({ seq, event, task, actor, phase: data?.phase });
    return seq >= last;
  };
  // A stream ends when its reader is slow; the next one goes on from the last event.
  const signal = AbortSignal.timeout(LOG_MS_MAX);
  while ((events.at(-1)?.seq ?? 0) < last && !signal.aborted) await client.follow(events.at(-1)?.seq ?? 0, keep, signal);
  return events;
}

async function gauges(client) {
  const text = await client.page('/metrics');
  const value = (name) => Number(new RegExp(`^${name} (\\S+)`, 'm').exec(text)?.[1]);
  return { sessions: value('callboard_http_sessions'), waits: value('callboard_waits'), streams: value('callboard_sse_streams') };
}

// A soak that is asked to end takes its server along.
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    server.process?.kill('SIGKILL');
    process.exit(2);
  });
}

const note = (words) => console.error(`soak: ${words}`);
const samples = [];
let checks = [];
try {
  await server.start();
  run.url = server.url;
  run.stranger = new Client(run.url, 'agent:stranger', 'graph', { sessions: false });
  note(`${count} agents on ${postgres ? 'PostgreSQL' : 'SQLite'} for ${minutes} min at ${run.url}, process ${server.process.pid}`);
  await fill(run, FILL_BYTES);
  run.filled = run.notes.made.size;
  note('the board has its first tasks');
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;

  const followers = [];
  const workers = [produce(run)];
  for (let n = 0; n < count; n += 1) {
    // A smaller number of agents takes roles from all over the list; the last four roles are always there.
    const [kind, habit] = n < count - 4 ? ROLES[Math.floor((n * (ROLES.length - 4)) / (count - 4))] : ROLES.at(n - count);
    if (kind === 'follows') followers.push(listen(run, habit, habit === 0 ? heard : undefined));
    else workers.push(kind === 'reads' ? read(run) : work(run, `w${n}`, kind, habit));
  }

  while (seconds() < minutes * 60 && server.process.exitCode === null) {
    await delay(SAMPLE_MS);
    samples.push({ at_s: seconds(), finished: run.closedAt.size, open: run.open.size, silent: run.ghosts.size, calls: run.notes.calls, ...(await server.sample()) });
    if (samples.length % 12 === 0) note(`${Math.round(seconds())} s, ${run.closedAt.size - run.filled} tasks done, ${run.open.size} open`);
  }
  run.draining = true;
  const late = performance.now() + DRAIN_MS_MAX;
  while (run.open.size > 0 && performance.now() < late) await delay(250);
  run.ended = true;
  await Promise.all(workers);
  for (const { client } of run.ghosts.values()) await client.close();
  const took = seconds();

  const last = JSON.parse(server.cli('log', '--all', '--tail', '1', '--json'));
  const lastSeq = (last.items ?? last.events)[0].seq;
  const reach = performance.now() + 10_000;
  while (run.notes.streams.some((stream) => stream.last < lastSeq) && performance.now() < reach) await delay(100);
  over.abort();
  await Promise.all(followers);

  const client = new Client(run.url, 'agent:judge', 'graph', { sessions: false });
  let events = await readLog(client, lastSeq);
  if (options.break === 'lost') events = events.filter((event) => event.task !== run.notes.done.at(-1).task || event.phase !== 'closed_done');
  const left = performance.now() + 10_000;
  let seen = await gauges(client);
  while ((seen.waits || seen.streams) && performance.now() < left) seen = (await delay(250), await gauges(client));
  const doctor = server.doctor();
  const exit = await server.stop();
  checks = [
    ...judgeHistory(run.notes, events),
    ...judgeUse(samples, { postgres }),
    ...judgeEnd({ doctor, gauges: seen, abandoned: run.notes.abandoned, exit, complaints: server.complaints(), seconds: took }),
  ];
  figures(took, events.length);
} catch (error) {
  checks.push({ name: 'the soak runs to its end', holds: false, seen: error.stack });
} finally {
  run.ended = run.draining = true;
  over.abort();
  await server.stop();
}

function figures(took, events) {
  const { notes } = run;
  const times = notes.times.toSorted((a, b) => a - b);
  const at = (share) => times[Math.floor(times.length * share)].toFixed(0);
  const done = run.closedAt.size - run.filled;
  const first = samples[0];
  const end = samples.at(-1);
  const store = postgres ? 'PostgreSQL' : 'SQLite';
  console.log(`${store}: ${done} tasks done, ${notes.calls} calls, ${events} events, ${notes.jobs.size} jobs, ${notes.pages} pages in ${took.toFixed(0)} s`);
  console.log(`calls: ${(notes.calls / took).toFixed(0)} /s, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, slowest ${at(0.99999)} ms`);
  console.log(`a task took ${(((end.cpu_s - first.cpu_s) * 1000) / (end.finished - first.finished)).toFixed(0)} ms of the server's processor time`);
  console.log(`taken from silent holders: ${notes.expired}; late calls refused: ${notes.late.asked}; repeated calls: ${notes.repeats.asked}; waits: ${notes.waits.asked}, ${notes.waits.woken} woken`);
  console.log(`refused: ${JSON.stringify(notes.refused)}`);
  const keys = ['rss', 'anonymous', 'descriptors', 'threads', 'database', 'wal', 'folder', ...(postgres ? ['dead', 'connections'] : [])];
  console.log(`\n| ${store}, middle of each quarter | first (warm-up) | second | third | last |\n|---|---|---|---|---|`);
  const megabytes = (value) => `${(value / 1e6).toFixed(2)} MB`;
  for (const key of keys) {
    const quarters = [0, 1, 2, 3].map((n) => samples.slice((samples.length * n) / 4, (samples.length * (n + 1)) / 4).map((one) => one[key]));
    const cells = quarters.map((part) => (['descriptors', 'threads', 'dead', 'connections'].includes(key) ? middle(part) : megabytes(middle(part))));
    console.log(`| ${key} | ${cells.join(' | ')} |`);
  }
  console.log();
}

if (options.samples) writeFileSync(options.samples, samples.map((sample) => `${JSON.stringify(sample)}\n`).join(''));
const word = ({ holds, skipped }) => (skipped ? 'skipped' : holds ? 'ok' : 'FAILED');
for (const one of checks) console.log(`${word(one)} ${one.name}: ${typeof one.seen === 'string' ? one.seen : JSON.stringify(one.seen)}`);
process.exitCode = checks.length > 0 && checks.every(({ holds }) => holds) ? 0 : 1;
