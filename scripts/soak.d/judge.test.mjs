// Each check of the judge on a history or a run that must fail, and all of them on one that must pass. `scripts/soak` runs
// this first; alone it is `node --test scripts/soak.d/`.

import assert from 'node:assert/strict';
import test from 'node:test';
import { blankNotes } from './agents.mjs';
import { judgeEnd, judgeHistory, judgeUse } from './judge.mjs';

const failed = (checks) => checks.filter(({ holds }) => !holds).map(({ name }) => name);
const closed = (task, actor) => ({ event: 'task.status_changed', phase: 'closed_done', task, actor });
const numbered = (events) => events.map((event, n) => ({ seq: n + 1, ...event }));

// Two tasks, made and done by two agents, with one job and one follower.
function history() {
  const notes = blankNotes();
  for (const task of ['T1', 'T2']) notes.made.add(task);
  notes.done.push({ task: 'T1', actor: 'agent:a' }, { task: 'T2', actor: 'agent:b' });
  notes.jobs.set('J1', 'SUCCEEDED');
  notes.streams.push({ first: 1, last: 4, gaps: 0, opened: 1 });
  const created = (task) => ({ event: 'task.created', task, actor: 'agent:maker' });
  return { notes, events: [created('T1'), created('T2'), closed('T1', 'agent:a'), closed('T2', 'agent:b')] };
}

function judged(change) {
  const one = history();
  change(one);
  return failed(judgeHistory(one.notes, one.renumbered === false ? one.events : numbered(one.events)));
}

test('a good history passes', () => assert.deepEqual(judged(() => {}), []));

const BAD = {
  'tasks were made and done': ({ notes }) => (notes.done = []),
  'every event has its number, without gaps': (one) => {
    one.events = numbered(one.events);
    one.events[3].seq = 5;
    one.renumbered = false;
  },
  'every task that was made is in the log': ({ events }) => events.splice(0, 1),
  'every task that was made is done': ({ notes }) => notes.made.add('T3'),
  'every task that was reported as done is done in the log, by its reporter': ({ events }) => (events[3].actor = 'agent:c'),
  'no task is done twice': ({ events }) => events.push(closed('T1', 'agent:c')),
  'no two agents were told that they did one task': ({ notes }) => notes.done.push({ task: 'T1', actor: 'agent:b' }),
  'every job succeeded': ({ notes }) => notes.jobs.set('J1', 'FAILED'),
  'no former holder was heard': ({ notes }) => notes.late.accepted.push('agent:a complete_task T1'),
  'a repeated call got its first answer': ({ notes }) => notes.repeats.differ.push('agent:a transition'),
  'no wait slept through the end of its task': ({ notes }) => notes.waits.slept.push('T1'),
  'no call failed but for a lost race': ({ notes }) => notes.broken.push('agent:a list: INTERNAL'),
  'followers of the log missed nothing': ({ notes }) => (notes.streams[0].gaps = 1),
};
for (const [name, change] of Object.entries(BAD)) {
  test(`fails: ${name}`, () => assert.ok(judged(change).includes(name)));
}
test('a done event that is lost fails', () => {
  const names = judged(({ events }) => events.splice(3, 1));
  assert.ok(names.includes('every task that was made is done'));
  assert.ok(names.includes('every task that was reported as done is done in the log, by its reporter'));
});
test('every check of the history has a history that fails it', () => {
  const { notes, events } = history();
  assert.deepEqual(judgeHistory(notes, numbered(events)).map(({ name }) => name).toSorted(), Object.keys(BAD).toSorted());
});

// A minute of samples; `use` changes one.
const use = (change = () => {}) =>
  Array.from({ length: 60 }, (_, n) => {
    // Flat but for a peak now and then.
    const peak = n % 7 === 0 ? 1 : 0;
    const sample = {
      at_s: n * 5, finished: n * 50, anonymous: 60e6 + peak * 20e6, descriptors: 80 + peak * 30, threads: 20 + peak, connections: 10,
      database: 1e6 + n * 50 * 5_000, folder: n * 100, wal: 4e6, dead: 5_000, live: 100_000,
    };
    change(sample, n);
    return sample;
  });

for (const postgres of [false, true]) {
  test(`a flat run passes, ${postgres ? 'PostgreSQL' : 'SQLite'}`, () => assert.deepEqual(failed(judgeUse(use(), { postgres })), []));
}
test('a short run is not judged by its growth', () => {
  const [only, ...more] = judgeUse(use().slice(0, 20), { postgres: false });
  assert.ok(only.skipped && more.length === 0);
});
const GROWS = {
  'anonymous memory: no growth': (sample, n) => (sample.anonymous += n * 400_000),
  'descriptors: no growth': (sample, n) => (sample.descriptors += n),
  'threads: no growth': (sample, n) => (sample.threads += n / 4),
  'connections to PostgreSQL: no growth': (sample, n) => (sample.connections += n / 4),
  'the disk that a task takes does not grow': (sample, n) => (sample.database += n * n * 3_000),
  'PostgreSQL removes old row versions': (sample, n) => (sample.dead += n * 1_000),
};
for (const [name, change] of Object.entries(GROWS)) {
  test(`fails: ${name}`, () => assert.deepEqual(failed(judgeUse(use(change), { postgres: true })), [name]));
}
test('fails: the log of the database stays short', () => {
  const long = use((sample, n) => (sample.wal = n === 50 ? 100e6 : 4e6));
  assert.deepEqual(failed(judgeUse(long, { postgres: false })), ['the log of the database stays short']);
});

const end = (change = {}) => judgeEnd({
  doctor: { exit: 0, ok: true, checks: [{ name: 'database', status: 'ok', message: 'whole' }] },
  gauges: { sessions: 2, waits: 0, streams: 0 }, abandoned: 2, exit: 0, complaints: [], seconds: 300, ...change,
});
test('a clean end passes', () => assert.deepEqual(failed(end()), []));
test('a clean end of an hour passes', () => {
  const idle = { sessions: 0, waits: 0, streams: 0 };
  assert.deepEqual(failed(end({ seconds: 3_600, gauges: idle })), []);
});
for (const change of [
  { doctor: { exit: 1, ok: false, checks: [{ name: 'database', status: 'fail', message: 'torn' }] } },
  { gauges: { sessions: 3, waits: 0, streams: 0 } }, { gauges: { sessions: 1, waits: 0, streams: 0 } },
  { seconds: 3_600, gauges: { sessions: 3, waits: 0, streams: 0 } }, { gauges: { sessions: 2, waits: 1, streams: 0 } },
  { gauges: { sessions: 2, waits: 0, streams: 1 } }, { exit: 'SIGKILL' }, { complaints: ['panicked'] },
]) {
  test(`fails: ${JSON.stringify(change)}`, () => assert.equal(failed(end(change)).length, 1));
}
