// Claims and lists while another transaction holds an old snapshot. `scripts/bench-postgres --held-snapshot` starts it
// with what it needs. One server process claims and closes tasks at a steady rate, a second one asks for work. There
// are three parts: clean, held, and after the snapshot was let go.
import { spawn } from "node:child_process";
import { once } from "node:events";
import readline from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";

const [url, callboard, ...flags] = process.argv.slice(2);
const asJson = flags.includes("--json");
const option = (name, usual) => {
  const at = flags.indexOf(name);
  return at < 0 ? usual : Number(flags[at + 1]);
};
const HELD_S = option("--minutes", 1) * 60;
const RATE = option("--rate", 1_000);
const CLEAN_S = Math.min(30, HELD_S);
const AFTER_S = Math.min(60, HELD_S);
const CLIENTS = 64;
const SCHEMA = "bench_held";
const note = (words) => console.error(`measuring ${words}`);

const db = new pg.Client(url);
await db.connect();
await db.query(`DROP SCHEMA IF EXISTS ${SCHEMA} CASCADE`);
const version = (await db.query("SHOW server_version")).rows[0].server_version;

/** One server process; `lines` collects what it prints each second. */
async function server(part) {
  const peer = spawn(callboard, ["bench-load"], { stdio: ["pipe", "pipe", "inherit"] });
  const output = readline.createInterface({ input: peer.stdout });
  peer.stdin.write(`${url}&search_path=${SCHEMA}\n${part}\n`);
  const [ready] = await once(output, "line");
  if (ready !== "ready") throw new Error(`a server process said ${ready}`);
  const lines = [];
  output.on("line", (line) => lines.push(JSON.parse(line)));
  return { peer, lines };
}

/** What the server counts: bytes of WAL, commits, row versions that died, by their kind. */
async function counts() {
  // Sessions report their counts after a second of work at the latest.
  await delay(1_200);
  const { rows: [row] } = await db.query(
    `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 AS wal,
       (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())::float8 AS commits,
       sum(n_tup_upd + n_tup_del)::float8 AS died, sum(n_tup_hot_upd)::float8 AS hot,
       sum(n_dead_tup)::float8 AS dead, pg_total_relation_size('${SCHEMA}.tasks')::float8 AS size
     FROM pg_stat_user_tables WHERE schemaname = $1`,
    [SCHEMA],
  );
  return row;
}

const sorted = (numbers) => numbers.toSorted((a, b) => a - b);
const share = (numbers, part) => sorted(numbers)[Math.min(numbers.length - 1, Math.floor(numbers.length * part))];

const loads = `loads ${CLIENTS} ${RATE} ${Math.ceil(RATE * (CLEAN_S + HELD_S + AFTER_S + 15))}`;
note(`tasks to claim: ${loads.split(" ").at(-1)}`);
const load = await server(loads);
const ask = await server("asks");
await db.query(`ANALYZE ${SCHEMA}.tasks`);
/** What both processes printed in the last `seconds`. */
const last = (seconds) => {
  const closed = load.lines.slice(-seconds).map((line) => line.closed);
  const asked = ask.lines.slice(-seconds);
  const times = (key) => asked.flatMap((line) => line[key]);
  const both = (values) => ({ p50: share(values, 0.5), p99: share(values, 0.99) });
  const claims = closed.reduce((sum, one) => sum + one, 0) / Math.max(1, closed.length);
  return { claims, list: both(times("list_ms")), next: both(times("next_ms")) };
};

for (const { peer } of [load, ask]) peer.stdin.write("go\n");
await delay(3_000);
note(`${CLEAN_S} s without a held snapshot`);
const started = await counts();
await delay(CLEAN_S * 1000);
const ended = await counts();
const clean = last(CLEAN_S);
const closedClean = clean.claims * (CLEAN_S + 1.2);

note(`${HELD_S} s with a held snapshot`);
const holder = new pg.Client(url);
await holder.connect();
await holder.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
await holder.query(`SELECT count(*) FROM ${SCHEMA}.projects`);
await delay(HELD_S * 1000);
const held = last(Math.min(HELD_S, 30));
const heldCounts = await counts();
// The index of free tasks, read from its beginning as a list without a memory does, and from the first free task on.
const free = `FROM ${SCHEMA}.tasks t
   WHERE t.project = (SELECT min(id) FROM ${SCHEMA}.projects) AND t.phase = 'initial' AND t.open_deps = 0
     AND t.assignee IS NULL AND NOT t.is_plan AND t.removed_at IS NULL AND t.blocked IS NULL`;
const order = "ORDER BY t.priority, t.id LIMIT 51";
async function scanned(condition) {
  const { rows } = await db.query(`EXPLAIN (ANALYZE, BUFFERS) SELECT id ${free} ${condition} ${order}`);
  const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");
  const counted = (name) => Number(new RegExp(`shared[^\\n]*${name}=(\\d+)`).exec(plan)?.[1] ?? 0);
  const ms = Number(/Execution Time: ([\d.]+)/.exec(plan)[1]);
  return { ms, buffers: counted("hit") + counted("read") };
}
const fromTheBeginning = await scanned("");
const { rows: [first] } = await db.query(`SELECT t.priority, t.id ${free} ${order}`);
const fromTheFront = await scanned(`AND (t.priority, t.id) >= (${first.priority}, '${first.id}')`);

note(`${AFTER_S} s after the snapshot was let go`);
await holder.query("COMMIT");
await holder.end();
const seconds = ask.lines.length;
await delay(AFTER_S * 1000);
const after = last(Math.min(AFTER_S, 10));
// The first second of which half of the lists took at most 1.5 times of their clean time.
const recovered = ask.lines
  .slice(seconds)
  .findIndex((line) => share(line.list_ms, 0.5) <= 1.5 * clean.list.p50);

for (const { peer } of [load, ask]) {
  peer.stdin.end();
  await once(peer, "exit");
}
await db.query(`DROP SCHEMA IF EXISTS ${SCHEMA} CASCADE`);
await db.end();

const each = (key) => (ended[key] - started[key]) / closedClean;
const result = {
  version: 1, postgres: version, rate: RATE, held_s: HELD_S, clean, held, after,
  recovered_s: recovered < 0 ? null : recovered + 1,
  per_task: { wal_bytes: each("wal"), commits: each("commits"), dead_tuples: each("died"), hot: each("hot") },
  dead_tuples_at_the_end: heldCounts.dead, from_the_beginning: fromTheBeginning, from_the_front: fromTheFront,
};
if (asJson) {
  console.log(JSON.stringify(result, null, 2));
} else {
  const ms = ({ p50, p99 }) => `${p50.toFixed(2)} / ${p99.toFixed(2)}`;
  const ratio = (key) => `${(held[key].p50 / clean[key].p50).toFixed(2)}x / ${(held[key].p99 / clean[key].p99).toFixed(2)}x`;
  const row = (...cells) => console.log(`| ${cells.join(" | ")} |`);
  console.log(`PostgreSQL ${version}, ${RATE} claims/s offered, snapshot held for ${HELD_S} s\n`);
  row("figure", "clean", "held", "held against clean", "after", "goal");
  row("---", "---", "---", "---", "---", "---");
  row("claims + closes /s", clean.claims.toFixed(0), held.claims.toFixed(0),
    `${(held.claims / clean.claims).toFixed(2)}x`, after.claims.toFixed(0), ">= 0.8x");
  row("ready list, p50 / p99 ms", ms(clean.list), ms(held.list), ratio("list"), ms(after.list), "<= 3x");
  row("next, p50 / p99 ms", ms(clean.next), ms(held.next), ratio("next"), ms(after.next), "<= 3x");
  console.log(`\nrecovered after ${result.recovered_s ?? `more than ${AFTER_S}`} s (goal 60 s)`);
  console.log(
    `the index of free tasks at the end of the held part, 51 tasks: ${fromTheBeginning.ms} ms and ` +
      `${fromTheBeginning.buffers} buffers from its beginning, ${fromTheFront.ms} ms and ${fromTheFront.buffers} from the front`,
  );
  console.log(`dead row versions at the end of the held part: ${heldCounts.dead}`);
  console.log(
    `a claim and a close, clean: ${each("wal").toFixed(0)} bytes of WAL, ${each("commits").toFixed(2)} commits, ` +
      `${each("died").toFixed(2)} dead row versions, ${each("hot").toFixed(2)} of them within their page (HOT)`,
  );
}
