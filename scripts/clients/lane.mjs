// A place for real coding agents (programs.mjs): a home, a repository with a board, a scripted model (model.mjs), and
// a line for each check, `ok`, `FAILED` or `skipped` first.
//
// All that the agents keep stands below the lane's folder. Their proxy is a closed port, so they
// reach loopback and nothing else; they neither update themselves nor report anything.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { startModel } from './model.mjs';
import { programs } from './programs.mjs';

export const RUN_MS_MAX = 60_000;
const WORDS_MAX = 8_000;

export const binary = process.env.CALLBOARD_BINARY;
const nowhere = 'http://127.0.0.1:9';

export async function openLane(name, scripts) {
  const folder = join(import.meta.dirname, name);
  const home = join(folder, 'home');
  const repo = join(folder, 'repo');
  const model = await startModel(scripts);
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    LANG: 'C.UTF-8',
    HTTP_PROXY: nowhere,
    HTTPS_PROXY: nowhere,
    NO_PROXY: '127.0.0.1',
    // Agents read the address of their model in files of their own.
    CALLBOARD_RELAY_SANDBOX_PORTS: new URL(model.url).port,
  };

  // The output of a program that succeeds. One that takes too long is killed.
  function run(program, args, input = '') {
    const child = spawn(program, args, { cwd: repo, env, timeout: RUN_MS_MAX, killSignal: 'SIGKILL' });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (data) => (stdout += data));
    child.stderr.on('data', (data) => (stderr += data));
    // A program that does not read its input closes the pipe.
    child.stdin.on('error', () => {});
    child.stdin.end(input);
    return new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code, signal) => {
        if (code === 0) resolve(stdout);
        else reject(new Error(`${program} ${args.join(' ')}: ${code ?? signal}: ${ending(stdout)}${ending(stderr)}`));
      });
    });
  }

  const cli = (...args) => run(binary, args);
  const asked = async (...args) => JSON.parse(await cli(...args, '--json'));

  // A repository with one commit and a board.
  async function prepare() {
    rmSync(folder, { recursive: true, force: true });
    for (const made of [home, repo]) mkdirSync(made, { recursive: true });
    write(join(home, '.gitconfig'), '[user]\nname = ana\nemail = ana@example.org\n');
    writeFileSync(join(repo, 'greeting.txt'), 'hello\n');
    await run('git', ['init', '--quiet', '--initial-branch', 'main']);
    await run('git', ['add', 'greeting.txt']);
    await run('git', ['commit', '--quiet', '--message', 'first']);
    await cli('init', '--prefix', 'TASK');
  }

  // Puts `callboard` on PATH, where the files of clients and packages look for it. The answer takes it off again.
  function putOnPath() {
    const programs = join(folder, 'bin');
    const before = env.PATH;
    mkdirSync(programs);
    symlinkSync(binary, join(programs, 'callboard'));
    env.PATH = `${programs}:${before}`;
    return () => (env.PATH = before);
  }

  // Serves MCP and runs jobs; the first words on stdout hold the address.
  async function serve() {
    const args = ['serve', '--listen', '127.0.0.1:0'];
    const child = spawn(binary, args, { cwd: repo, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const ended = new Promise((resolve) => child.on('close', resolve));
    let said = '';
    child.stderr.on('data', (data) => (said += data));
    const url = await new Promise((resolve, reject) => {
      child.stdout.on('data', (data) => {
        said += data;
        const found = /http:\/\/[0-9.:]+/.exec(said);
        if (found) resolve(found[0]);
      });
      ended.then(() => reject(new Error(`callboard serve did not come up: ${said}`)));
    });
    const stop = () => {
      child.kill('SIGTERM');
      return ended;
    };
    return { url, stop };
  }

  // Processes that have the agents' home, whoever their parent is.
  function processes() {
    if (!existsSync('/proc/self/environ')) return [];
    const ids = readdirSync('/proc').filter((id) => /^\d+$/.test(id));
    return ids.filter((id) => {
      try {
        return readFileSync(`/proc/${id}/environ`, 'utf8').split('\0').includes(`HOME=${home}`);
      } catch {
        return false;
      }
    });
  }

  function close() {
    model.stop();
    const left = processes();
    check(name, 'nothing is left of them', left.length === 0, left);
    for (const id of left) process.kill(id, 'SIGKILL');
  }

  const agents = programs({ home, repo, model });
  return { folder, home, repo, env, model, agents, run, cli, asked, prepare, putOnPath, serve, close };
}

// An agent in a loop prints megabytes.
function ending(text) {
  return text.slice(-WORDS_MAX);
}

// A fault in one part does not hide the others.
export async function part(name, checks) {
  try {
    await checks();
  } catch (error) {
    check(name, 'runs to its end', false, error);
  }
}

export function check(name, what, passed, seen) {
  const detail = seen instanceof Error ? seen.stack : JSON.stringify(seen);
  console.log(passed ? `ok      ${name}: ${what}` : `FAILED  ${name}: ${what}: ${detail}`);
}

export function skipped(name, why) {
  console.log(`skipped ${name}: ${why}`);
}

export function write(file, text) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
