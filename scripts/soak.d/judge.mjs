// The judge of a soak: pure functions of what agents noted, of the event log and of the samples. Nothing here talks to a
// server, so `judge.test.mjs` can show each check a history that must fail.

const KIB = 1024;
const MIB = 1024 * KIB;

// Limits of what may grow from the end of the warm-up to the end of the run, as judged by the middle slope.
export const LIMITS = {
  anonymous: { share: 0.10, least: 8 * MIB, words: 'anonymous memory' },
  descriptors: { share: 0.10, least: 8, words: 'descriptors' },
  threads: { share: 0.10, least: 4, words: 'threads' },
  connections: { share: 0.10, least: 4, words: 'connections to PostgreSQL' },
};
// The first part of the run, in which caches and pools fill, is not judged. Each session keeps its last 64 answers, which
// takes its agent about a minute.
const WARM_UP = 0.25;
const WARM_UP_S = 75;
// What is left must last so long; a shorter run shows no growth.
const JUDGED_S = 60;
// Bytes for each finished task may rise by this share from one half to the next.
export const DISK_RISE_MAX = 0.25;
// A log of SQLite is folded into its database after 1,000 pages; a busy reader makes it longer for a while.
export const WAL_MAX = 64 * MIB;
// Row versions that PostgreSQL has yet to remove, against its living rows.
export const DEAD_SHARE_MAX = 0.5;
const SHOWN = 5;

const sorted = (numbers) => numbers.toSorted((a, b) => a - b);
export const middle = (numbers) => sorted(numbers)[Math.floor(numbers.length / 2)];

// The middle of the slopes between all pairs of samples (Theil-Sen): single peaks do not move it.
export function slope(points) {
  const slopes = [];
  const step = Math.max(1, Math.floor(points.length / 200));
  for (let a = 0; a < points.length; a += step) {
    for (let b = a + step; b < points.length; b += step) {
      if (points[b].x !== points[a].x) slopes.push((points[b].y - points[a].y) / (points[b].x - points[a].x));
    }
  }
  return slopes.length ? middle(slopes) : 0;
}

function warm(samples) {
  const from = Math.max(WARM_UP_S, samples.at(-1).at_s * WARM_UP);
  return samples.filter((sample) => sample.at_s >= from);
}

// How much a figure grew over the judged part, and what it may.
export function growth(samples, key) {
  const judged = warm(samples).map((sample) => ({ x: sample.at_s, y: sample[key] }));
  const window = judged.at(-1).x - judged[0].x;
  const grown = slope(judged) * window;
  const { share, least } = LIMITS[key];
  return { grown, limit: Math.max(least, share * middle(judged.map(({ y }) => y))), window };
}

// Bytes on disk for each finished task, in both halves of the judged part.
export function diskPerTask(samples) {
  const points = warm(samples).map((sample) => ({ x: sample.finished, y: sample.database + sample.folder }));
  const half = Math.floor(points.length / 2);
  const rise = (part) => (part.at(-1).y - part[0].y) / Math.max(1, part.at(-1).x - part[0].x);
  return { first: rise(points.slice(0, half + 1)), second: rise(points.slice(half)) };
}

const check = (name, seen, holds) => ({ name, holds, seen });
const none = (name, list) => check(name, list.length ? { count: list.length, first: list.slice(0, SHOWN) } : 'none', list.length === 0);

// The log against what agents were told.
export function judgeHistory(notes, events) {
  const closed = new Map();
  const made = new Set();
  const gaps = [];
  events.forEach((event, n) => {
    if (event.seq !== n + 1) gaps.push(`${event.seq} stands at place ${n + 1}`);
    if (event.event === 'task.created') made.add(event.task);
    if (event.event !== 'task.status_changed' || event.phase !== 'closed_done') return;
    closed.set(event.task, [...(closed.get(event.task) ?? []), event.actor]);
  });
  const told = new Map();
  for (const { task, actor } of notes.done) told.set(task, [...(told.get(task) ?? []), actor]);
  const tasks = [...notes.made];
  const ended = [...notes.jobs];
  return [
    check('tasks were made and done', { made: tasks.length, done: told.size + notes.pending.size }, told.size > 0),
    none('every event has its number, without gaps', gaps),
    none('every task that was made is in the log', tasks.filter((task) => !made.has(task))),
    none('every task that was made is done', tasks.filter((task) => !closed.has(task))),
    none('every task that was reported as done is done in the log, by its reporter',
      [...told].filter(([task, actors]) => !closed.get(task)?.includes(actors[0])).map(([task, actors]) => `${task} ${actors}`)),
    none('no task is done twice', [...closed].filter(([, actors]) => actors.length > 1).map(([task, actors]) => `${task} ${actors}`)),
    none('no two agents were told that they did one task', [...told].filter(([, actors]) => actors.length > 1).map(([task]) => task)),
    none('every job succeeded', ended.filter(([, state]) => state !== 'SUCCEEDED').map(([job, state]) => `${job} ${state}`)),
    none('no former holder was heard', notes.late.accepted),
    none('a repeated call got its first answer', notes.repeats.differ),
    none('no wait slept through the end of its task', notes.waits.slept),
    none('no call failed but for a lost race', notes.broken),
    none('followers of the log missed nothing',
      notes.streams.filter(({ gaps: missed, first }) => missed > 0 || first !== 1).map((stream) => JSON.stringify(stream))),
  ];
}

// What the server used over time.
export function judgeUse(samples, { postgres }) {
  const lasts = samples.at(-1).at_s - Math.max(WARM_UP_S, samples.at(-1).at_s * WARM_UP);
  if (lasts < JUDGED_S) return [{ name: 'growth', skipped: true, holds: true, seen: `a run of less than ${(WARM_UP_S + JUDGED_S) / 60} min does not show it` }];
  const grows = (key) => {
    const { grown, limit, window } = growth(samples, key);
    return check(`${LIMITS[key].words}: no growth`, { grown: Math.round(grown), limit: Math.round(limit), seconds: Math.round(window) }, grown <= limit);
  };
  const disk = diskPerTask(samples);
  const ratio = disk.second / Math.max(1, disk.first);
  const judged = warm(samples);
  const checks = [
    ...['anonymous', 'descriptors', 'threads', ...(postgres ? ['connections'] : [])].map(grows),
    check('the disk that a task takes does not grow',
      { first_half: Math.round(disk.first), second_half: Math.round(disk.second), ratio: ratio.toFixed(2) }, ratio <= 1 + DISK_RISE_MAX),
  ];
  if (!postgres) {
    const wal = Math.max(...judged.map((sample) => sample.wal));
    return [...checks, check('the log of the database stays short', { largest: wal, limit: WAL_MAX }, wal <= WAL_MAX)];
  }
  const { dead, live } = judged.at(-1);
  return [...checks, check('PostgreSQL removes old row versions', { dead, live }, dead <= DEAD_SHARE_MAX * live + 10_000)];
}

// The server ends a session that was idle for an hour. A run that comes near it cannot know which ones are left.
const IDLE_S = 55 * 60;

// What is left when every agent has gone, `seconds` after the start.
export function judgeEnd({ doctor, gauges, abandoned, exit, complaints, seconds }) {
  const areEnded = seconds < IDLE_S ? gauges.sessions === abandoned : gauges.sessions <= abandoned;
  const bad = doctor.checks.filter((one) => one.status !== 'ok' && one.status !== 'warn').map((one) => `${one.name}: ${one.message}`);
  return [
    check('doctor finds the board whole', { exit: doctor.exit, bad }, doctor.exit === 0 && doctor.ok && bad.length === 0),
    check('sessions end with their agents', { open: gauges.sessions, left_open_on_purpose: abandoned }, areEnded),
    check('waits and streams end with their callers', gauges, gauges.waits === 0 && gauges.streams === 0),
    none('the server logged no error', complaints),
    check('the server ends when it is asked to', { exit }, exit === 0),
  ];
}
