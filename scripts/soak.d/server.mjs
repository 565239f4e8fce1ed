// One server of a soak: a repository with a board, the process that serves it, and what it uses over time.

import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, openSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const START_MS_MAX = 60_000;
const STOP_MS_MAX = 60_000;
const TICKS_A_SECOND = 100;
const DATABASE = /^callboard\.db/;

// An agent for jobs that finds nothing to change.
const AGENT = "#!/bin/sh\ncat >/dev/null\nprintf '## DIFF\\n\\n## TEST_PLAN\\nnone\\n\\n## NOTES\\nnone\\n'\n";

export class Server {
  // A repository with an empty board. Leases are short, and history is kept as short as the settings allow.
  constructor(binary, folder, { store, leaseS }) {
    Object.assign(this, { binary, folder, store, repo: join(folder, 'repo') });
    const [home, programs] = [join(folder, 'home'), join(folder, 'bin')];
    for (const made of [this.repo, home, programs]) mkdirSync(made, { recursive: true });
    writeFileSync(join(programs, 'opencode'), AGENT);
    chmodSync(join(programs, 'opencode'), 0o755);
    this.env = { PATH: `${programs}:${process.env.PATH}`, HOME: home, USER: 'ana', LANG: 'C.UTF-8' };
    if (store) this.env.CALLBOARD_STORE = store;
    const git = (...words) => execFileSync('git', ['-c', 'user.name=ana', '-c', 'user.email=ana@example.org', ...words],
      { cwd: this.repo, env: this.env, encoding: 'utf8' });
    git('init', '--quiet', '--initial-branch=main');
    git('commit', '--quiet', '--allow-empty', '-m', 'first');
    this.commit = git('rev-parse', 'HEAD').trim();
    this.cli('init', '--prefix', 'TASK');
    writeFileSync(join(this.repo, '.callboard/config.local.toml'), [
      '[graph]', `session_stale_after = ${leaseS}`, '[execution]', 'lease_min_sec = 1', `lease_default_sec = ${leaseS}`,
      '[general]', 'auto_review = false', '[relay]', 'retention_days = 1', '[retention]', 'events_days = 1', 'logs_days = 1', '',
    ].join('\n'));
  }

  cli(...words) {
    const ran = spawnSync(this.binary, words, { cwd: this.repo, env: this.env, encoding: 'utf8', maxBuffer: 1 << 28 });
    if (ran.status !== 0) throw new Error(`callboard ${words.join(' ')} ended with ${ran.status}: ${ran.stderr}${ran.stdout}`);
    return ran.stdout;
  }

  // What doctor finds, also when that is bad.
  doctor() {
    const ran = spawnSync(this.binary, ['doctor', '--json'], { cwd: this.repo, env: this.env, encoding: 'utf8' });
    return { exit: ran.status, ...JSON.parse(ran.stdout) };
  }

  async start() {
    const words = ['serve', '--listen', '127.0.0.1:0', '--lane', 'admin', '--profile', 'operator'];
    this.log = join(this.folder, 'server.log');
    const out = join(this.folder, 'server.out');
    this.process = spawn(this.binary, words, { cwd: this.repo, env: this.env, stdio: ['ignore', openSync(out, 'w'), openSync(this.log, 'w')] });
    this.ended = new Promise((resolve) => this.process.once('exit', (code, signal) => resolve(code ?? signal)));
    const late = Date.now() + START_MS_MAX;
    while (!(this.url = /http:\/\/[0-9.:]+/.exec(readFileSync(out, 'utf8'))?.[0])) {
      if (this.process.exitCode !== null || Date.now() > late) throw new Error(`the server did not start: ${readFileSync(this.log, 'utf8')}`);
      await delay(50);
    }
  }

  // How the server ends when it is asked to; it is killed when it takes too long.
  async stop() {
    if (this.process?.exitCode !== null || this.process.signalCode !== null) return this.ended;
    this.process.kill('SIGTERM');
    const kill = setTimeout(() => this.process.kill('SIGKILL'), STOP_MS_MAX);
    const how = await this.ended;
    clearTimeout(kill);
    return how;
  }

  // Panics and errors in the server's log.
  complaints() {
    return readFileSync(this.log, 'utf8').split('\n').filter((line) => /"level":"ERROR"|panicked/.test(line));
  }

  // Bytes of memory and files, and numbers of descriptors and threads, at this moment.
  async sample() {
    const { pid } = this.process;
    const read = (name) => readFileSync(`/proc/${pid}/${name}`, 'utf8');
    const rollup = read('smaps_rollup');
    const kilobytes = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(rollup)[1]) * 1024;
    const ticks = read('stat').split(') ')[1].split(' ');
    const board = join(this.repo, '.callboard');
    const size = (name) => (existsSync(join(board, name)) ? statSync(join(board, name)).size : 0);
    const sample = {
      // Pages of the program's file count as private only while no other process of it runs, so they are left out.
      rss: kilobytes('Rss'), anonymous: kilobytes('Anonymous'),
      descriptors: readdirSync(`/proc/${pid}/fd`).length, threads: Number(/^Threads:\s+(\d+)/m.exec(read('status'))[1]),
      cpu_s: (Number(ticks[11]) + Number(ticks[12])) / TICKS_A_SECOND,
      database: size('callboard.db'), wal: size('callboard.db-wal'), folder: folderSize(board, (name) => !DATABASE.test(name)),
    };
    return this.store ? { ...sample, ...(await this.postgres()) } : sample;
  }

  // What PostgreSQL keeps for the board.
  async postgres() {
    const query = `SELECT pg_database_size(current_database()), sum(n_dead_tup), sum(n_live_tup),
      (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()) FROM pg_stat_user_tables`;
    const psql = spawn('psql', ['-XAtq', '-c', query, this.store], { stdio: ['ignore', 'pipe', 'inherit'] });
    let text = '';
    psql.stdout.on('data', (part) => (text += part));
    await new Promise((resolve) => psql.once('close', resolve));
    const [database, dead, live, connections] = text.trim().split('|').map(Number);
    return { database, dead, live, connections };
  }
}

// Bytes of the files below a folder. A file may go while its folder is read.
function folderSize(folder, counts = () => true) {
  let bytes = 0;
  let entries = [];
  try {
    entries = readdirSync(folder, { withFileTypes: true });
  } catch {
    return 0;
  }
  for (const entry of entries) {
    if (!counts(entry.name)) continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) bytes += folderSize(path);
    else bytes += statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  }
  return bytes;
}
