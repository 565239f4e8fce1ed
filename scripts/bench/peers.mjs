// The same work on Callboard and on other task servers that speak MCP over stdio, one after another: start, tools/list,
// 100 new tasks, a list of 1,000, and eight processes that all want the same tasks. Prints a Markdown table.
//
//   node peers.mjs FOLDER CALLBOARD [--quick] [--json]
//
// FOLDER has the programs that `scripts/bench-peers` installed. A program that is missing gets a line that says so.

import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const [folder, callboard, ...flags] = process.argv.slice(2);
const quick = flags.includes('--quick');
const LISTED = quick ? 200 : 1000;
const CREATED = 100;
const CONTENDED = quick ? 10 : 40;
const PROCESSES = 8;
// A server that needs longer for a part is left there.
const PART_MS_MAX = 180_000;
const TICKS_PER_S = Number(execFileSync('getconf', ['CLK_TCK']));

// How each server is started and called. `take` answers whether the caller may now work on the task.
const PEERS = [
  {
    name: 'callboard',
    program: callboard,
    prepare: (place) => run(callboard, ['init', '--prefix', 'BENCH'], place),
    command: (who) => [callboard, 'mcp', '--actor', `agent:${who}`, '--no-runner'],
    create: async (server, title) => (await server.call('create', { title })).data.id,
    list: (server) => server.call('list', {}),
    take: async (server, id) => refusalOr(await server.call('claim', { id }), 'ALREADY_CLAIMED'),
    holder: async (server, id) => (await server.call('get', { id })).data.assignee?.replace('agent:', ''),
  },
  {
    name: 'task-graph-mcp',
    program: join(folder, 'cargo/bin/task-graph-mcp'),
    command: () => [join(folder, 'cargo/bin/task-graph-mcp'), 'serve'],
    // A worker may hold five tasks unless it says otherwise.
    connect: (server) => server.call('connect', { worker_id: server.who, max_claims: 1000 }),
    create: async (server, title) => (await server.call('create', { title, description: title })).data.id,
    list: (server) => server.call('list_tasks', {}),
    take: async (server, id) => refusalOr(await server.call('claim', { worker_id: server.who, task: id }), 'claimed'),
    holder: async (server, id) => {
      const { data } = await server.call('get', { task: id });
      return data.worker_id ?? data.task?.worker_id ?? data.owner;
    },
  },
  {
    name: 'Backlog.md',
    program: join(folder, 'node_modules/.bin/backlog'),
    prepare: (place) => run(join(folder, 'node_modules/.bin/backlog'), ['init', 'bench', '--defaults'], place),
    command: () => [join(folder, 'node_modules/.bin/backlog'), 'mcp', 'start'],
    create: async (server, title) => /Task (TASK-\d+)/.exec((await server.call('task_create', { title })).text)[1],
    list: (server) => server.call('task_list', { limit: LISTED }),
    // It has no verb for taking a task: an agent assigns itself.
    take: async (server, id) =>
      refusalOr(await server.call('task_edit', { id, assignee: [server.who], status: 'In Progress' })),
    holder: async (server, id) => /Assignee: @?(\S+)/.exec((await server.call('task_view', { id })).text)?.[1],
  },
  {
    name: 'task-master-ai',
    program: join(folder, 'node_modules/.bin/task-master-ai'),
    command: () => [join(folder, 'node_modules/.bin/task-master-ai')],
    env: { TASK_MASTER_TOOLS: 'all' },
    connect: async (server) => {
      if (existsSync(join(server.place, '.taskmaster'))) return;
      const quiet = { skipInstall: true, addAliases: false, initGit: false, storeTasksInGit: false, yes: true };
      await server.call('initialize_project', { projectRoot: server.place, ...quiet });
    },
    create: async (server, title) => {
      const made = await server.call('add_task', { projectRoot: server.place, title, description: title });
      return String(made.data.data.taskId);
    },
    list: (server) => server.call('get_tasks', { projectRoot: server.place }),
    // It has no owner of a task: an agent sets the status.
    take: async (server, id) => {
      const set = { projectRoot: server.place, id, status: 'in-progress' };
      return refusalOr(await server.call('set_task_status', set));
    },
  },
];
// Why a server that can be had from a registry is not measured.
const LEFT_OUT = [['kagan', 'not measured: the package needs Python 3.12 or newer']];

function run(program, args, cwd) {
  execFileSync(program, args, { cwd, stdio: 'ignore', timeout: 60_000 });
}

// Whether a call that takes a task succeeded; a refusal because another process was first is no error.
function refusalOr(answer, taken) {
  if (!answer.failed) return true;
  if (taken && answer.text.includes(taken)) return false;
  throw new Error(answer.text.slice(0, 200));
}

class Server {
  constructor(peer, place, who) {
    Object.assign(this, { peer, place, who, next: 0, waiting: new Map(), buffer: '' });
    const [program, ...args] = peer.command(who);
    const env = { ...process.env, ...peer.env };
    this.child = spawn(program, args, { cwd: place, env, stdio: ['pipe', 'pipe', 'ignore'] });
    this.child.stdout.on('data', (data) => this.read(data));
    this.child.on('exit', () => {
      for (const { reject } of this.waiting.values()) reject(new Error('the server has ended'));
    });
    this.child.stdin.on('error', () => {});
  }

  read(data) {
    const lines = (this.buffer + data).split('\n');
    this.buffer = lines.pop();
    for (const line of lines.filter((line) => line.startsWith('{'))) {
      const message = JSON.parse(line);
      this.waiting.get(message.id)?.resolve(message);
      this.waiting.delete(message.id);
    }
  }

  send(message) {
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  ask(method, params) {
    const id = ++this.next;
    const answer = new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
    this.send({ id, method, params });
    return answer;
  }

  async open() {
    const client = { name: 'bench', version: '1' };
    await this.ask('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: client });
    this.send({ method: 'notifications/initialized' });
    const { result } = await this.ask('tools/list', {});
    this.tools = JSON.stringify(result).length;
    return this;
  }

  async call(name, args) {
    const { result, error } = await this.ask('tools/call', { name, arguments: args });
    const text = error ? error.message : (result.content?.[0]?.text ?? '');
    let data = result?.structuredContent;
    try {
      data ??= JSON.parse(text);
    } catch {
      data = {};
    }
    return { text, data, failed: Boolean(error || result.isError), bytes: JSON.stringify(result ?? error).length };
  }

  // The server and the processes below it.
  pids() {
    const parents = new Map();
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      try {
        const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
        parents.set(Number(pid), { parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) });
      } catch {
        // The process has ended.
      }
    }
    const found = [this.child.pid];
    for (const pid of found) for (const [child, { parent }] of parents) if (parent === pid) found.push(child);
    return found.map((pid) => ({ pid, ticks: parents.get(pid)?.ticks ?? 0 }));
  }

  // A start can take less than a tick, which the scheduler's own count still has. Threads that ended are in the ticks alone.
  cpuMs() {
    const counted = ({ pid }) =>
      readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]), 0);
    return this.pids().reduce((sum, at) => sum + Math.max((at.ticks * 1000) / TICKS_PER_S, counted(at) / 1e6), 0);
  }

  megabytes() {
    const kilobytes = ({ pid }) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
    return this.pids().reduce((sum, at) => sum + kilobytes(at), 0) / 1024;
  }

  async close() {
    const ended = new Promise((resolve) => this.child.on('exit', resolve));
    this.child.stdin.end();
    const timer = setTimeout(() => this.child.kill('SIGKILL'), 5000);
    await ended;
    clearTimeout(timer);
  }
}

async function open(peer, place, who) {
  const server = await new Server(peer, place, who).open();
  await peer.connect?.(server);
  return server;
}

function newPlace(peer) {
  const place = mkdtempSync(join(tmpdir(), 'peers-'));
  run('git', ['init', '-q', '-b', 'main'], place);
  run('git', ['-c', 'user.name=bench', '-c', 'user.email=b@x', 'commit', '-q', '--allow-empty', '-m', 'first'], place);
  peer.prepare?.(place);
  return place;
}

async function single(peer) {
  const place = newPlace(peer);
  const began = performance.now();
  const server = await new Server(peer, place, 'w0').open();
  const figures = { startMs: performance.now() - began, startCpuMs: server.cpuMs(), startMb: server.megabytes() };
  figures.toolsBytes = server.tools;
  await peer.connect?.(server);
  const before = performance.now();
  for (let n = 0; n < CREATED; n++) await peer.create(server, `Task ${n}`);
  figures.createMs = (performance.now() - before) / CREATED;
  let made = CREATED;
  while (made < LISTED && performance.now() - before < PART_MS_MAX) await peer.create(server, `Task ${made++}`);
  const cpu = server.cpuMs();
  const asked = performance.now();
  const listed = await peer.list(server);
  Object.assign(figures, { listed: made, listMs: performance.now() - asked, listCpuMs: server.cpuMs() - cpu });
  figures.listBytes = listed.bytes;
  await server.close();
  rmSync(place, { recursive: true, force: true });
  return figures;
}

// Every process wants every task, in the same order. A task that two processes were given is a double; an acknowledged
// holder that the server does not name afterwards is lost.
async function contended(peer) {
  const place = newPlace(peer);
  const first = await open(peer, place, 'w0');
  const tasks = [];
  for (let n = 0; n < CONTENDED; n++) tasks.push(await peer.create(first, `Task ${n}`));
  const others = [];
  for (let n = 1; n < PROCESSES; n++) others.push(await open(peer, place, `w${n}`));
  const servers = [first, ...others];
  const given = new Map(tasks.map((id) => [id, []]));
  const figures = { doubles: 0, lost: 0, errors: 0 };
  const began = performance.now();
  await Promise.all(
    servers.map(async (server) => {
      for (const id of tasks) {
        try {
          if (await peer.take(server, id)) given.get(id).push(server.who);
        } catch {
          figures.errors += 1;
        }
      }
    }),
  );
  figures.contendedMs = performance.now() - began;
  for (const [id, holders] of given) {
    if (holders.length > 1) figures.doubles += 1;
    if (peer.holder && holders.length === 1 && (await peer.holder(first, id)) !== holders[0]) figures.lost += 1;
    if (holders.length === 0) figures.lost += 1;
  }
  for (const server of servers) await server.close();
  rmSync(place, { recursive: true, force: true });
  return figures;
}

const rows = [];
for (const peer of PEERS) {
  if (!existsSync(peer.program)) {
    rows.push({ name: peer.name, missing: 'could not be installed here' });
    continue;
  }
  console.error(`${peer.name} ...`);
  try {
    rows.push({ name: peer.name, ...(await single(peer)), ...(await contended(peer)) });
  } catch (error) {
    rows.push({ name: peer.name, missing: `failed: ${error.message.split('\n')[0].slice(0, 120)}` });
  }
}
for (const [name, why] of LEFT_OUT) rows.push({ name, missing: why });

if (flags.includes('--json')) {
  console.log(JSON.stringify(rows, null, 2));
} else {
  const own = rows[0];
  const times = (row, key, unit, digits = 0) =>
    `${row[key].toFixed(digits)} ${unit}${row.name === own.name ? '' : `, ${(row[key] / own[key]).toFixed(1)}x`}`;
  console.log('| server | start: CPU, memory | tools/list | one `create` | list of 1,000: time, bytes | 8 processes: doubles, lost, errors |');
  console.log('|---|---|---|---|---|---|');
  for (const row of rows) {
    if (row.missing) {
      console.log(`| ${row.name} | ${row.missing} | | | | |`);
      continue;
    }
    const short = row.listed < LISTED ? ` (of ${row.listed})` : '';
    const list = `${times(row, 'listMs', 'ms')}${short}; ${times(row, 'listBytes', 'B')}`;
    console.log(
      `| ${row.name} | ${times(row, 'startCpuMs', 'ms')}; ${times(row, 'startMb', 'MB')} | ${times(row, 'toolsBytes', 'B')} | ` +
        `${times(row, 'createMs', 'ms', 1)} | ${list} | ${row.doubles}, ${row.lost}, ${row.errors} |`,
    );
  }
}
