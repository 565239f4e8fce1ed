// Queues of jobs side by side, in turns: Callboard on SQLite and on PostgreSQL, BullMQ, graphile-worker.
// `scripts/bench-queues` starts it with what it needs.
import { spawn, execFile } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { promisify } from "node:util";
import { Queue } from "bullmq";
import pg from "pg";
import { makeWorkerUtils } from "graphile-worker";

const here = import.meta.dirname;
const [lane, port, url, ...rest] = process.argv.slice(2);
const asJson = rest.includes("--json");
const quick = rest.includes("--quick");
const builds = rest.filter((word) => !word.startsWith("--"));
const JOBS = quick ? 2_000 : 10_000;
const TRIED = quick ? 1_000 : 4_000;
const ROUNDS = quick ? 2 : 3;
const RAW_MS = 1_000;
// Clients that add jobs: each waits for the answer before it adds the next one.
const CLIENTS = 64;
// The longest that one measurement may take.
const PATIENCE_MS = 180_000;
const note = (words) => console.error(`measuring ${words}`);

/** How often a second 4 KiB can be overwritten and flushed, one after another. */
function raw() {
  const file = fs.openSync(path.join(lane, "raw"), "w");
  const block = Buffer.alloc(4096, 7);
  for (let n = 0; n < 256; n += 1) fs.writeSync(file, block, 0, 4096, n * 4096);
  fs.fsyncSync(file);
  const start = performance.now();
  let done = 0;
  while (performance.now() - start < RAW_MS) {
    fs.writeSync(file, block, 0, 4096, (done % 256) * 4096);
    fs.fdatasyncSync(file);
    done += 1;
  }
  const rate = done / ((performance.now() - start) / 1000);
  fs.closeSync(file);
  return rate;
}

/** Jobs a second that `CLIENTS` clients add. */
async function adding(jobs, add) {
  const start = performance.now();
  let next = 0;
  const client = async () => {
    while (next < jobs) await add(next++);
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return jobs / ((performance.now() - start) / 1000);
}

/** Jobs a second, from the first one's start until the last is finished, by worker processes of a script. */
async function working(jobs, processes, script, given, settled) {
  const peers = [];
  const finished = new Array(processes).fill(0);
  let first = Infinity;
  let over;
  const all = new Promise((resolve, reject) => {
    over = resolve;
    setTimeout(() => reject(new Error("took too long")), PATIENCE_MS).unref();
  });
  try {
    for (let n = 0; n < processes; n += 1) {
      const env = { ...process.env, NO_LOG_SUCCESS: "1" };
      const words = [path.join(here, script), ...given].map(String);
      const peer = spawn(process.execPath, words, { stdio: ["pipe", "pipe", "inherit"], env });
      peers.push(peer);
      const lines = readline.createInterface({ input: peer.stdout });
      const [ready] = await once(lines, "line");
      if (ready !== "ready") throw new Error(`a worker process said ${ready}`);
      lines.on("line", (line) => {
        const [began, count] = line.split(" ").map(Number);
        first = Math.min(first, began);
        finished[n] = count;
        if (finished.reduce((sum, one) => sum + one, 0) >= jobs) over();
      });
    }
    for (const peer of peers) peer.stdin.write("go\n");
    await all;
    await settled();
    return jobs / ((Date.now() - first) / 1000);
  } finally {
    for (const peer of peers) {
      peer.stdin.end();
      if (peer.exitCode === null) await once(peer, "exit");
    }
  }
}

async function bullmq(jobs, processes, concurrency) {
  const connection = { host: "127.0.0.1", port: Number(port) };
  const name = `bench-${performance.now()}`.replace(".", "-");
  const queue = new Queue(name, { connection });
  await queue.waitUntilReady();
  const added = await adding(jobs, (n) => queue.add("nothing", { n }));
  const settled = async () => {
    while ((await queue.getJobCountByTypes("waiting", "active")) > 0);
  };
  const finished = await working(jobs, processes, "bullmq.mjs", [port, name, concurrency], settled);
  await queue.obliterate({ force: true });
  await queue.close();
  return { added, finished };
}

const SCHEMA = "bench_queues";
const db = url === "-" ? null : new pg.Client(url);
await db?.connect();

async function graphile(jobs, processes, concurrency, batchDelay) {
  await db.query(`DROP SCHEMA IF EXISTS ${SCHEMA} CASCADE`);
  const pool = new pg.Pool({ connectionString: url, max: 16 });
  const utils = await makeWorkerUtils({ pgPool: pool, schema: SCHEMA });
  await utils.migrate();
  const added = await adding(jobs, (n) => utils.addJob("nothing", { n }));
  await utils.release();
  await pool.end();
  await db.query(`ANALYZE ${SCHEMA}._private_jobs`);
  const left = async () =>
    (await db.query(`SELECT count(*)::int AS n FROM ${SCHEMA}._private_jobs`)).rows[0].n;
  const settled = async () => {
    while ((await left()) > 0);
  };
  const given = [url, SCHEMA, concurrency, batchDelay];
  const finished = await working(jobs, processes, "graphile.mjs", given, settled);
  await db.query(`DROP SCHEMA IF EXISTS ${SCHEMA} CASCADE`);
  return { added, finished };
}

async function callboard(build, jobs, store) {
  const given = ["bench", "jobs", "--json", "--dir", lane, "--count", String(jobs)];
  if (quick) given.push("--quick");
  if (store) given.push("--store", store);
  const { stdout } = await promisify(execFile)(build, given, { timeout: PATIENCE_MS });
  const { figures } = JSON.parse(stdout);
  const value = (name) => figures.find((figure) => figure.name === name).value;
  return {
    added: value("jobs added"),
    finished: value("jobs taken and finished"),
    started: value("jobs taken and finished, a process for each"),
  };
}

/** The shape of a peer that finishes most jobs. */
async function best(what, shapes, measure) {
  let found = { rate: 0 };
  for (const shape of shapes) {
    const { finished } = await measure(TRIED, ...shape);
    note(`${what}, ${shape[0]} x ${shape[1]} workers: ${Math.round(finished)} /s`);
    if (finished > found.rate) found = { rate: finished, shape };
  }
  return found.shape;
}

const middle = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
const sides = [];
const named = (shape) => `${shape[0]} x ${shape[1]} workers`;
if (port !== "-") {
  const shape = await best("BullMQ", [[1, 16], [1, 64], [1, 256], [2, 64]], bullmq);
  sides.push({ what: `BullMQ, ${named(shape)}`, run: () => bullmq(JOBS, ...shape) });
}
if (db) {
  const shapes = [[1, 4], [1, 16], [1, 64], [2, 16]];
  const single = await best("graphile-worker", shapes.map((s) => [...s, -1]), graphile);
  const batched = await best("the same in batches", shapes.map((s) => [...s, 0]), graphile);
  sides.push(
    { what: `graphile-worker, ${named(single)}`, run: () => graphile(JOBS, ...single) },
    { what: `graphile-worker in batches, ${named(batched)}`, run: () => graphile(JOBS, ...batched) },
  );
}
for (const build of builds) {
  const of = builds.length > 1 ? ` (${build})` : "";
  sides.push({ what: `Callboard on SQLite${of}`, run: () => callboard(build, JOBS) });
  if (db) sides.push({ what: `Callboard on PostgreSQL${of}`, run: () => callboard(build, JOBS, url) });
}

const raws = [];
for (let round = 1; round <= ROUNDS; round += 1) {
  for (const side of sides) {
    note(`round ${round} of ${ROUNDS}: ${side.what}`);
    const before = raw();
    const rates = await side.run();
    const flushes = (before + raw()) / 2;
    raws.push(flushes);
    (side.rounds ??= []).push({ ...rates, raw: flushes });
  }
}
await db?.end();

const rows = sides.map(({ what, rounds }) => {
  const of = (key) => middle(rounds.map((round) => round[key]));
  const [added, finished] = [of("added"), of("finished")];
  return {
    what,
    added,
    finished,
    both: middle(rounds.map((round) => 1 / (1 / round.added + 1 / round.finished))),
    againstRaw: middle(rounds.map((round) => round.finished / round.raw)),
    started: rounds[0].started === undefined ? undefined : of("started"),
    rounds,
  };
});
const flushes = middle(raws);
if (asJson) {
  console.log(JSON.stringify({ version: 1, jobs: JOBS, rounds: ROUNDS, raw: flushes, rows }, null, 2));
} else {
  console.log(`${JOBS} jobs a part, middle of ${ROUNDS} rounds; raw 4 KiB write + fdatasync: ${Math.round(flushes)} /s\n`);
  console.log("| queue | added | taken and finished | against raw | all three | with a process for each |");
  console.log("|---|---|---|---|---|---|");
  const rate = (value) => (value === undefined ? "" : `${Math.round(value).toLocaleString("en")} /s`);
  for (const { what, added, finished, againstRaw, both, started } of rows) {
    const cells = [what, rate(added), rate(finished), `${againstRaw.toFixed(2)}x`, rate(both), rate(started)];
    console.log(`| ${cells.join(" | ")} |`);
  }
}
process.exit(0);
