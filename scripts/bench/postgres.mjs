// Callboard against graphile-worker on one PostgreSQL server, in turns. `scripts/bench-postgres`
// starts it with what it needs.
import { spawn, execFile } from "node:child_process";
import { once } from "node:events";
import readline from "node:readline";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import pg from "pg";
import { makeWorkerUtils } from "graphile-worker";

const here = import.meta.dirname;
const [url, callboard, ...flags] = process.argv.slice(2);
const asJson = flags.includes("--json");
const quick = flags.includes("--quick");
const JOBS = quick ? 4_000 : 20_000;
// How long each shape is tried for.
const TRY_MS = quick ? 1_000 : 3_000;
const ROUNDS = quick ? 2 : 3;
const SCHEMA = "bench_graphile";
// Processes and workers in each; the best of these is the one compared with.
const SHAPES = [
  [1, 1], [1, 4], [1, 8], [1, 16], [1, 32], [1, 64],
  [2, 4], [2, 8], [2, 16], [2, 32],
  [4, 4], [4, 8], [4, 16],
];
const note = (words) => console.error(`measuring ${words}`);

const db = new pg.Client(url);
await db.connect();

/** Jobs a second, from the first one's start until the last completion is committed or time is up. */
async function graphile(processes, workers, completeBatchDelay, forMs) {
  const jobs = JOBS;
  await db.query(`DROP SCHEMA IF EXISTS ${SCHEMA} CASCADE`);
  const utils = await makeWorkerUtils({ connectionString: url, schema: SCHEMA });
  await utils.migrate();
  await utils.release();
  await db.query(
    `SELECT count(${SCHEMA}.add_job('nothing', json_build_object('id', n)))
     FROM generate_series(1, $1::int) n`,
    [jobs],
  );
  await db.query(`ANALYZE ${SCHEMA}._private_jobs`);
  const peers = [];
  let first = Infinity;
  const ran = new Array(processes).fill(0);
  let allRan;
  const finished = new Promise((resolve) => { allRan = resolve; });
  for (let n = 0; n < processes; n += 1) {
    const given = [path.join(here, "graphile.mjs"), url, SCHEMA, workers, completeBatchDelay];
    const env = { ...process.env, NO_LOG_SUCCESS: "1" };
    const stdio = ["pipe", "pipe", "inherit"];
    const peer = spawn(process.execPath, given.map(String), { stdio, env });
    const lines = readline.createInterface({ input: peer.stdout });
    const [ready] = await once(lines, "line");
    if (ready !== "ready") throw new Error(`a worker process said ${ready}`);
    lines.on("line", (line) => {
      const [began, count] = line.split(" ").map(Number);
      first = Math.min(first, began);
      ran[n] = count;
      if (ran.reduce((sum, one) => sum + one, 0) >= jobs) allRan();
    });
    peers.push(peer);
  }
  for (const peer of peers) peer.stdin.write("go\n");
  await (forMs ? Promise.race([finished, delay(forMs)]) : finished);
  let left = jobs;
  do {
    left = (await db.query(`SELECT count(*)::int AS left FROM ${SCHEMA}._private_jobs`)).rows[0].left;
  } while (left > 0 && !forMs);
  // Nothing at all was run when there is no first one.
  const took = Date.now() - Math.min(first, Date.now() - 1);
  for (const peer of peers) {
    peer.stdin.end();
    await once(peer, "exit");
  }
  return (jobs - left) / (took / 1000);
}

async function best(completeBatchDelay) {
  let found = { rate: 0 };
  for (const [processes, workers] of SHAPES) {
    const rate = await graphile(processes, workers, completeBatchDelay, TRY_MS);
    note(`graphile-worker, ${processes} x ${workers} workers: ${Math.round(rate)} /s`);
    if (rate > found.rate) found = { processes, workers, rate };
  }
  return found;
}

async function board() {
  const given = ["bench", "--store", url, "--json", ...(quick ? ["--quick"] : [])];
  const { stdout } = await promisify(execFile)(callboard, given, { stdio: "pipe" });
  return JSON.parse(stdout).figures;
}

const middle = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];

const single = await best(-1);
const batched = await best(0);
const rates = { single: [], batched: [] };
const boards = [];
for (let round = 1; round <= ROUNDS; round += 1) {
  note(`round ${round} of ${ROUNDS}: graphile-worker`);
  rates.single.push(await graphile(single.processes, single.workers, -1));
  rates.batched.push(await graphile(batched.processes, batched.workers, 0));
  note(`round ${round} of ${ROUNDS}: callboard`);
  boards.push(await board());
}
await db.query(`DROP SCHEMA IF EXISTS ${SCHEMA} CASCADE`);
const version = (await db.query("SHOW server_version")).rows[0].server_version;
await db.end();

const figure = (start) => {
  const values = boards.map((figures) => figures.find(({ name }) => name.startsWith(start)).value);
  return { each: values, middle: middle(values) };
};
const shape = ({ processes, workers }) => `${processes} x ${workers} workers`;
const rows = [
  { what: `graphile-worker, best of ${SHAPES.length} shapes (${shape(single)})`, each: rates.single },
  { what: `the same, completions in batches (${shape(batched)})`, each: rates.batched },
].map((row) => ({ ...row, middle: middle(row.each), unit: "jobs/s" }));
const base = rows[0].middle;
for (const [count, words] of [[1, "process"], [2, "processes"], [4, "processes"]]) {
  const measured = figure(`tasks claimed and closed, ${count} server`);
  const what = `callboard, ${count} server ${words}`;
  rows.push({ what, ...measured, unit: "tasks/s", ratio: measured.middle / base });
}
const woken = "commit to answered wait, other process";
rows.push({ what: `callboard, ${woken}, p99`, ...figure(woken), unit: "ms" });

if (asJson) {
  const tuning = { single, batched };
  console.log(JSON.stringify({ version: 1, postgres: version, jobs: JOBS, tuning, rows }, null, 2));
} else {
  const number = (value) => (value >= 100 ? String(Math.round(value)) : value.toFixed(2));
  console.log(`PostgreSQL ${version}, ${JOBS} jobs or tasks a part, middle of ${ROUNDS} rounds`);
  for (const row of rows) {
    const ratio = row.ratio ? `${row.ratio.toFixed(2)}x` : "";
    const each = row.each.map(number).join(", ");
    console.log(
      `${row.what.padEnd(62)} ${number(row.middle).padStart(8)} ${row.unit.padEnd(8)} ` +
        `${ratio.padStart(6)}  (${each})`,
    );
  }
}
