// A real coding agent and callboard: it runs jobs, by its command line and over ACP, and does tasks
// as an MCP client. opencode and Codex; what they think is scripted (scripts.mjs, model.mjs).
//
// Prints a line for each check, `ok` or `FAILED` first; `run` counts them. Whatever the agents keep
// stands below the folder of the lane, and their proxy is a closed port: they reach loopback and
// nothing else.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { startModel } from './model.mjs';
import { diff, scripts } from './scripts.mjs';

const RUN_MS_MAX = 60_000;

const binary = process.env.CALLBOARD_BINARY;
const lane = join(import.meta.dirname, 'agents');
const home = join(lane, 'home');
const repo = join(lane, 'repo');
const nowhere = 'http://127.0.0.1:9';
const env = {
  PATH: process.env.PATH,
  HOME: home,
  LANG: 'C.UTF-8',
  HTTP_PROXY: nowhere,
  HTTPS_PROXY: nowhere,
  NO_PROXY: '127.0.0.1',
};

const model = await startModel(scripts());
const server = { url: undefined, process: undefined, ended: undefined };

// How each is called, and told where its model and its MCP server are.
const opencode = {
  name: 'opencode',
  model: (script) => `scripted/opencode-${script}`,
  run: (script) => ['opencode', ['run', '--model', opencode.model(script)]],
  configure({ command, url, permission = {} } = {}) {
    const scripted = {
      npm: '@ai-sdk/openai-compatible',
      options: { baseURL: model.url, apiKey: 'none' },
      models: Object.fromEntries(model.names.map((name) => [name, {}])),
    };
    const callboard = url ? { type: 'remote', url, oauth: false } : { type: 'local', command };
    const mcp = url || command ? { callboard } : {};
    const settings = { autoupdate: false, share: 'disabled', provider: { scripted }, permission, mcp };
    write(join(home, '.config/opencode/opencode.json'), JSON.stringify(settings));
  },
};

const codex = {
  name: 'codex',
  ownSandbox: true,
  model: (script) => `codex-${script}`,
  run: (script) => {
    const free = ['--dangerously-bypass-approvals-and-sandbox', '--skip-git-repo-check'];
    return ['codex', ['exec', ...free, '--model', codex.model(script), '-']];
  },
  configure({ command, url } = {}) {
    const [program, ...args] = command ?? [];
    const text = JSON.stringify;
    const mcp = url ? `url = ${text(url)}` : `command = ${text(program)}\nargs = ${text(args)}`;
    const settings = `model_provider = "scripted"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = ${text(model.url)}
wire_api = "responses"
${url || command ? `[mcp_servers.callboard]\n${mcp}` : ''}
`;
    write(join(home, '.codex/config.toml'), settings);
  },
};

await part('agents', prepare);
await part('agents', serve);
for (const agent of [opencode, codex]) {
  await part(agent.name, () => byCommand(agent));
  await part(agent.name, () => asMcpClient(agent, 'stdio', 'graph'));
  await part(agent.name, () => asMcpClient(agent, 'http', 'execution'));
}
await part('opencode', overAcp);
server.process?.kill('SIGTERM');
await server.ended;
model.stop();
const left = processes();
check('agents', 'nothing is left of them', left.length === 0, left);
for (const id of left) process.kill(id, 'SIGKILL');

// What is broken in one must not hide the others.
async function part(name, checks) {
  try {
    await checks();
  } catch (error) {
    check(name, 'runs to its end', false, error);
  }
}

function check(name, what, passed, seen) {
  const detail = seen instanceof Error ? seen.stack : JSON.stringify(seen);
  console.log(passed ? `ok      ${name}: ${what}` : `FAILED  ${name}: ${what}: ${detail}`);
}

// Ends with what it printed; one that takes too long is killed.
function run(program, args, input = '') {
  const child = spawn(program, args, { cwd: repo, env, timeout: RUN_MS_MAX, killSignal: 'SIGKILL' });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (data) => (stdout += data));
  child.stderr.on('data', (data) => (stderr += data));
  // Not everybody reads what is said.
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0) resolve(stdout);
      else reject(new Error(`${program} ${args.join(' ')}: ${code ?? signal}: ${stdout}${stderr}`));
    });
  });
}

function cli(...args) {
  return run(binary, args);
}

async function asked(...args) {
  return JSON.parse(await cli(...args, '--json'));
}

// A repository with one commit and a board that knows opencode over ACP, too.
async function prepare() {
  rmSync(lane, { recursive: true, force: true });
  for (const folder of [home, repo]) mkdirSync(folder, { recursive: true });
  writeFileSync(join(repo, 'greeting.txt'), 'hello\n');
  const someone = ['-c', 'user.name=ana', '-c', 'user.email=ana@example.org'];
  await run('git', ['init', '--quiet', '--initial-branch', 'main']);
  await run('git', ['add', 'greeting.txt']);
  await run('git', [...someone, 'commit', '--quiet', '--message', 'first']);
  await cli('init', '--prefix', 'TASK');
  const acp = `[executors.opencode-acp]
kind = "acp"
command = ["opencode", "acp"]
env = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"]
writable = ["~/.local/share/opencode/", "~/.local/state/opencode/", "~/.cache/opencode/"]
`;
  write(join(repo, '.callboard/config.local.toml'), acp);
}

function write(file, text) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

// Serves MCP and runs jobs; its first words on stdout hold the address.
async function serve() {
  const args = ['serve', '--listen', '127.0.0.1:0'];
  const child = spawn(binary, args, { cwd: repo, env, stdio: ['ignore', 'pipe', 'pipe'] });
  server.process = child;
  server.ended = new Promise((resolve) => child.on('close', resolve));
  let said = '';
  child.stderr.on('data', (data) => (said += data));
  server.url = await new Promise((resolve, reject) => {
    child.stdout.on('data', (data) => {
      said += data;
      const url = /http:\/\/[0-9.:]+/.exec(said);
      if (url) resolve(url[0]);
    });
    server.ended.then(() => reject(new Error(`callboard serve did not come up: ${said}`)));
  });
}

async function submit(preferredModel) {
  const baselineCommit = (await run('git', ['rev-parse', 'HEAD'])).trim();
  const spec = {
    repo: { type: 'local', path: repo, baseBranch: 'main', baselineCommit },
    task: { title: 'A kinder greeting', description: 'Say good morning.', acceptance: [] },
    scope: { readPaths: [], disallowReformatting: false },
    outputContract: ['DIFF', 'TEST_PLAN', 'NOTES'],
    execution: {
      preferredModel,
      sandbox: 'read-only',
      askPolicy: 'untrusted',
      priority: 'P1',
      timeoutS: RUN_MS_MAX / 1000,
      ttlS: 600,
    },
    idempotencyKey: preferredModel,
  };
  const file = join(lane, 'spec.json');
  writeFileSync(file, JSON.stringify(spec));
  return (await asked('job', 'submit', file)).jobId;
}

async function ended(name, job) {
  // What is followed is what the agent prints; the log that is kept also says how it was run.
  await cli('logs', job, '--follow');
  const logs = await cli('logs', job);
  const shown = await asked('job', 'show', job);
  check(name, 'its job succeeds', shown.state === 'SUCCEEDED', { shown, logs });
  if (shown.state !== 'SUCCEEDED') return logs;
  const made = await cli('diff', job);
  check(name, 'the patch is what the model thought of', made === diff, made);
  return logs;
}

async function byCommand(agent) {
  const name = `${agent.name} by command`;
  const escaped = join(home, 'escaped');
  rmSync(escaped, { force: true });
  agent.configure();
  const logs = await ended(name, await submit(agent.model('patches')));
  check(name, 'the built-in executor ran it', logs.includes(`executor ${agent.name} with`), logs);
  check(name, 'the log has what it printed', logs.includes(' was there.'), logs);
  const bySystem = logs.includes('sandbox: the system');
  // Where the system cannot, nothing keeps opencode from it.
  if (!bySystem && !agent.ownSandbox) return;
  const tried = logs.includes('hello was there. touch: ') && logs.includes(': Permission denied');
  const confined = !existsSync(escaped) && (tried || !bySystem);
  check(name, 'it cannot write elsewhere', confined, logs);
}

async function overAcp() {
  opencode.configure();
  await ended('opencode over acp', await submit(`opencode-acp:${opencode.model('patches')}`));

  const name = 'opencode over acp, asking';
  opencode.configure({ permission: { bash: 'ask' } });
  const job = await submit(`opencode-acp:${opencode.model('asks')}`);
  const question = await questionOf(job);
  check(name, 'its wish is a question', question.endsWith('git hash-object greeting.txt'), question);
  await cli('job', 'answer', job, 'yes');
  const logs = await ended(name, job);
  check(name, 'what is trusted needs no question', logs.includes('[granted] wc -c'), logs);
  check(name, 'with leave it goes on', logs.includes('Its hash is ce013625030b'), logs);
}

async function questionOf(job) {
  const until = Date.now() + RUN_MS_MAX;
  while (Date.now() < until) {
    const { state, summary } = await asked('job', 'show', job);
    const words = /^Waiting for an answer: (.*)/.exec(summary ?? '');
    if (words) return words[1];
    if (state !== 'QUEUED' && state !== 'RUNNING') return `${state}: ${summary}`;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  return 'none was asked in time';
}

async function asMcpClient(agent, transport, toolset) {
  const name = `${agent.name} as client, ${transport}`;
  const actor = `agent:${agent.name}-${transport}`;
  const [command, url] = [
    [binary, 'mcp', '--toolsets', toolset, '--actor', actor],
    `${server.url}/mcp/${toolset}?actor=${actor}`,
  ];
  agent.configure(transport === 'http' ? { url } : { command });
  const proof = toolset === 'graph' ? ['--check', 'test -e proof.txt'] : [];
  rmSync(join(repo, 'proof.txt'), { force: true });
  const { id } = await asked('task', 'add', name, ...proof);
  const said = await run(...agent.run(toolset), 'Take the next task.');
  check(name, 'it gets to its last words', said.includes('It is done.'), said);
  const task = await asked('task', 'show', id);
  check(name, 'the task is done', task.status === 'done', task);
  const doers = task.provenance.slice(1).map(({ who }) => who);
  check(name, 'and it is who did it', doers.length > 0 && doers.every((who) => who === actor), task);
}

// Those that have the agents' home, wherever they went.
function processes() {
  if (!existsSync('/proc/self/environ')) return [];
  const ids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return ids.filter((id) => {
    try {
      return readFileSync(`/proc/${id}/environ`, 'utf8').split('\0').includes(`HOME=${home}`);
    } catch {
      return false;
    }
  });
}
