// A real coding agent, opencode, and callboard: it runs jobs, by its command line and over ACP, and
// does tasks as an MCP client. What it thinks is scripted (model.mjs).
//
// Prints a line for each check, `ok` or `FAILED` first; `run` counts them. Whatever the agent keeps
// stands below the folder of the lane, and its proxy is a closed port: it reaches loopback and
// nothing else.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startModel } from './model.mjs';

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

const diff = `diff --git a/greeting.txt b/greeting.txt
--- a/greeting.txt
+++ b/greeting.txt
@@ -1 +1 @@
-hello
+good morning
`;
const patch = (notes) =>
  `Here it is.\n\n## DIFF\n\`\`\`diff\n${diff}\`\`\`\n## TEST_PLAN\nRead it.\n## NOTES\n${notes}\n`;

const bash = (command) => ({ tool: 'bash', input: { command, description: 'Runs a command' } });
const callboard = (tool, input = {}) => ({ tool: `callboard_${tool}`, input });

const model = await startModel({
  // Looks at the file, tries to leave one in the home folder, and answers what it saw.
  patches: [
    { tool: 'read', input: { filePath: 'greeting.txt' } },
    bash('touch "$HOME/escaped" && echo left'),
    ([read, escape]) => patch(`${/hello/.exec(read)} was there. ${escape}`),
  ],
  // Wants leave twice: for a command that is trusted, and for one that is not.
  asks: [
    bash('wc -c greeting.txt'),
    bash('git hash-object greeting.txt'),
    ([, hash]) => patch(`Its hash is ${hash}`),
  ],
  graph: [
    callboard('identity'),
    callboard('list', { ready: true, status: 'backlog' }),
    ([me, listed]) =>
      callboard('begin', {
        id: JSON.parse(listed).tasks[0].id,
        expected_actor: JSON.parse(me).actor,
        idempotency_key: 'lane',
      }),
    bash('echo done > proof.txt'),
    ([, , begun]) =>
      callboard('finish', { session: JSON.parse(begun).id, summary: 'There is a proof.' }),
    ([, , begun]) => callboard('transition', { id: JSON.parse(begun).task, to: 'done' }),
    ([, , , , , closed]) => `It is ${JSON.parse(closed).status}.`,
  ],
  execution: [
    callboard('get_next_actionable'),
    ([next]) => callboard('claim_task', { taskId: JSON.parse(next).tasks[0].taskId }),
    ([next]) =>
      callboard('complete_task', {
        taskId: JSON.parse(next).tasks[0].taskId,
        output: 'Nothing was to be done.',
      }),
    ([, , completed]) => `It is ${JSON.parse(completed).state}.`,
  ],
});
const server = { url: undefined, process: undefined };
try {
  await prepare();
  await serve();
  await byCommand();
  await overAcp();
  await asMcpClient('stdio', 'graph', { type: 'local', command: mcp('agent:opencode-stdio') });
  const url = `${server.url}/mcp/execution?actor=agent:opencode-http`;
  await asMcpClient('http', 'execution', { type: 'remote', url, oauth: false });
} catch (error) {
  check('agent', 'runs to its end', false, error);
} finally {
  server.process?.kill('SIGTERM');
  await server.ended;
  model.stop();
  const left = processes();
  check('agent', 'nothing is left of it', left.length === 0, left);
}

function check(name, what, passed, seen) {
  const detail = seen instanceof Error ? seen.stack : JSON.stringify(seen);
  console.log(passed ? `ok      ${name}: ${what}` : `FAILED  ${name}: ${what}: ${detail}`);
}

// Ends with what it printed; one that takes too long is killed.
function run(program, args, { input = '', cwd = repo } = {}) {
  const child = spawn(program, args, { cwd, env, timeout: RUN_MS_MAX, killSignal: 'SIGKILL' });
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

// A repository with one commit and a board, and an agent that knows the model.
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
  writeFileSync(join(repo, '.callboard/config.local.toml'), acp);
  configure({});
}

function configure(more) {
  const scripted = {
    npm: '@ai-sdk/openai-compatible',
    options: { baseURL: model.url, apiKey: 'none' },
    models: Object.fromEntries(Object.keys(model.scripts).map((name) => [name, {}])),
  };
  const settings = { autoupdate: false, share: 'disabled', provider: { scripted }, ...more };
  mkdirSync(join(home, '.config/opencode'), { recursive: true });
  writeFileSync(join(home, '.config/opencode/opencode.json'), JSON.stringify(settings));
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
  const logs = await cli('logs', job, '--follow');
  const shown = await asked('job', 'show', job);
  check(name, 'its job succeeds', shown.state === 'SUCCEEDED', { shown, logs });
  if (shown.state !== 'SUCCEEDED') return logs;
  const made = await cli('diff', job);
  check(name, 'the patch is what the model thought of', made === diff, made);
  return logs;
}

async function byCommand() {
  const name = 'agent by command';
  const logs = await ended(name, await submit('scripted/patches'));
  check(name, 'the built-in executor ran it', logs.includes('executor opencode with'), logs);
  check(name, 'the log has what it printed', logs.includes('hello was there.'), logs);
  if (logs.includes('sandbox: the system')) {
    const refused = logs.includes('escaped\': Permission denied');
    check(name, 'it cannot write elsewhere', refused && !existsSync(join(home, 'escaped')), logs);
  }
}

async function overAcp() {
  await ended('agent over acp', await submit('opencode-acp:scripted/patches'));

  const name = 'agent over acp, asking';
  configure({ permission: { bash: 'ask' } });
  const job = await submit('opencode-acp:scripted/asks');
  const question = await questionOf(job);
  check(name, 'its wish is a question', question.endsWith('git hash-object greeting.txt'), question);
  await cli('job', 'answer', job, 'yes');
  const logs = await ended(name, job);
  check(name, 'what is trusted needs no question', logs.includes('[granted] wc -c'), logs);
  check(name, 'with leave it goes on', logs.includes('Its hash is ce013625030b'), logs);
  configure({});
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

function mcp(actor) {
  return [binary, 'mcp', '--actor', actor];
}

async function asMcpClient(transport, script, callboard) {
  const name = `agent as client, ${transport}`;
  const actor = `agent:opencode-${transport}`;
  configure({ mcp: { callboard } });
  const made = ['task', 'add', `From ${transport}`];
  if (script === 'graph') made.push('--check', 'test -e proof.txt');
  const { id } = await asked(...made);
  const said = await run('opencode', ['run', '--model', `scripted/${script}`], {
    input: 'Take the next task.',
  });
  check(name, 'it gets to its last words', said.includes('It is done.'), said);
  const task = await asked('task', 'show', id);
  check(name, 'the task is done', task.status === 'done', task);
  const doers = task.provenance.slice(1).map(({ who }) => who);
  check(name, 'and it is who did it', doers.length > 0 && doers.every((who) => who === actor), task);
  configure({});
}

// Those that have the agent's home, wherever they went.
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
