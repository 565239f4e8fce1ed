// Real agents that are connected by the files that `callboard init --clients --hooks` writes, and nothing else: each finds
// the board and finishes a task. With hooks on, an agent is told the next task when it starts, keeps its session though it
// never sends a heartbeat, cannot edit outside of its worktree, and is told once what is open when it stops early. The
// files are committed, so an agent goes on where callboard is not installed. What they think is scripted.
//
// Prints a line for each check, `ok` or `FAILED` first; `run` counts them.

import { spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { RUN_MS_MAX, check, openLane, part, skipped, write } from './lane.mjs';
import { hasPackages } from './programs.mjs';
import { dialects, json, scripts } from './scripts.mjs';

const STALE_AFTER_S = 10;
const SLEEP_S = 3;

const writers = {
  claude: (file_path) => ({ tool: 'Write', input: { file_path, content: 'hello\n' } }),
  // Codex takes the command for its own tool.
  codex: (file) =>
    dialects.codex.shell(`apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: ${file}\n+hello\n*** End Patch\nEOF`),
  opencode: (filePath) => ({ tool: 'write', input: { filePath, content: 'hello\n' } }),
  gemini: (file_path) => ({ tool: 'write_file', input: { file_path, content: 'hello\n' } }),
  copilot: (path) => ({ tool: 'create', input: { path, file_text: 'hello\n' } }),
};

const folder = join(import.meta.dirname, 'connected', 'repo');
const hooked = Object.fromEntries(
  Object.entries(writers).map(([name, edit]) => [`${name}-hooked`, hookedScript(dialects[name], edit)]),
);
const bare = Object.fromEntries(Object.entries(writers).map(([name, edit]) => [`${name}-bare`, bareScript(name, edit)]));
const lane = await openLane('connected', { ...scripts(), ...hooked, ...bare });
const { home, repo, env, agents, run, cli, asked } = lane;
let takeOffPath = () => {};

await part('connected', prepare);
for (const agent of Object.values(agents)) {
  await part(`${agent.name} by init`, () => connects(agent));
}
for (const agent of Object.values(agents)) {
  await part(`${agent.name} with hooks`, () => isHooked(agent));
}
skipped('cursor with hooks', 'cursor-agent is in no package registry');
skipped('vscode with hooks', 'VS Code is in no package registry, and its chat needs a window');
takeOffPath();
for (const agent of Object.values(agents)) {
  await part(`${agent.name} without callboard`, () => goesOn(agent));
}
await part('connected', givesBack);
lane.close();

// Clients find `callboard` on PATH, as the files say.
async function prepare() {
  await lane.prepare();
  takeOffPath = lane.putOnPath();
  const settings = `[graph]\nsession_heartbeat_interval = 1\nsession_stale_after = ${STALE_AFTER_S}\n`;
  write(join(repo, '.callboard/config.local.toml'), settings);
  await cli('init', '--clients', Object.keys(agents).join());
}

// How each agent is told of its model; of the board it learns from the project's files.
function configure(agent) {
  agent.configure();
  if (agent.name === 'claude') {
    const file = join(home, 'settings.json');
    const settings = JSON.parse(readFileSync(file, 'utf8'));
    write(file, JSON.stringify({ ...settings, enableAllProjectMcpServers: true }));
  }
  if (agent.name === 'codex') {
    const file = join(home, '.codex/config.toml');
    const trust = `[projects.${JSON.stringify(repo)}]\ntrust_level = "trusted"\n`;
    write(file, `${readFileSync(file, 'utf8')}\n${trust}`);
  }
}

function called(agent, script, message) {
  if (agent.name === 'codex') {
    const [program, [exec, ...args]] = agent.run(script);
    return [program, [exec, '--dangerously-bypass-hook-trust', ...args]];
  }
  if (agent.name !== 'claude') return agent.run(script, message);
  const tools = ['--allowedTools', 'Bash,Write,mcp__callboard', '--add-dir', repo];
  const settings = ['--settings', join(home, 'settings.json')];
  return ['claude', ['--print', message, '--model', agent.model(script), ...settings, ...tools]];
}

async function connects(agent) {
  const name = `${agent.name} by init`;
  configure(agent);
  const { id } = await asked('task', 'add', name);
  const said = await run(...called(agent, 'graph', 'Take the next task.'), 'Take the next task.');
  check(name, 'it gets to its last words', said.includes('It is done.'), said);
  const task = await asked('task', 'show', id);
  check(name, 'the task is done', task.status === 'done', task);
  const doers = new Set(task.provenance.slice(1).map(({ who }) => who));
  check(name, 'and an agent did it', doers.size === 1 && [...doers][0].startsWith('agent:'), task);
}

// Begins a task, tries to edit the checkout, edits its worktree, works for longer than a silent session lasts, and
// stops. Only an agent that is told what is open finishes.
function hookedScript({ shell, callboard }, edit) {
  return function* ({ texts }) {
    // Claude Code repeats the answer of a hook as an error.
    const isRepeated = (text) => text.startsWith('Stop hook blocking error');
    const told = (words) => texts.filter((text) => text.includes(words) && !isRepeated(text)).length;
    const { actor } = json(yield callboard('identity'));
    const { tasks } = json(yield callboard('list', { ready: true, status: 'backlog' }));
    const { id } = tasks[0];
    const named = { id, expected_actor: actor, idempotency_key: actor, worktree: 'new' };
    const session = json(yield callboard('begin', named));
    const outside = yield edit(join(folder, 'outside.txt'));
    yield edit(join(session.live.worktree, 'inside.txt'));
    // Longer than a silent session lasts, in steps that leave a slow machine time between two calls.
    for (let slept = 0; slept <= STALE_AFTER_S; slept += SLEEP_S) yield shell(`sleep ${SLEEP_S}`);
    const { health } = json(yield callboard('get_session', { session: session.id }));
    if (told('You still hold') === 0) return 'I stop here.';
    yield callboard('finish', { session: session.id, summary: 'It is there.' });
    const heard = `${told('The next task on the Callboard is')} at the start, ${told('You still hold')} at the end`;
    return `It is finished. The session was ${health}. It was told ${heard}. The edit: ${outside}`;
  };
}

// `opencode run` ends with the turn, before it can be told what is open. Its server goes on, as its terminal does.
async function served(agent, script, text) {
  [join(repo, '.opencode'), join(home, '.config/opencode')].forEach(hasPackages);
  const child = spawn('opencode', ['serve', '--port', '0'], { cwd: repo, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise((resolve) => child.on('close', resolve));
  try {
    const url = await new Promise((resolve, reject) => {
      let words = '';
      const heard = (data) => {
        words += data;
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec(words);
        if (found) resolve(found[0]);
      };
      child.stdout.on('data', heard);
      child.stderr.on('data', heard);
      ended.then(() => reject(new Error(`opencode serve did not come up: ${words}`)));
    });
    const ask = async (path, body) => {
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(`${url}${path}`, body && { method: 'POST', headers, body: JSON.stringify(body) });
      if (!answer.ok) throw new Error(`${path}: ${answer.status}: ${await answer.text()}`);
      return answer.json();
    };
    const [providerID, modelID] = agent.model(script).split('/');
    const { id } = await ask('/session', {});
    await ask(`/session/${id}/message`, { model: { providerID, modelID }, parts: [{ type: 'text', text }] });
    const until = Date.now() + RUN_MS_MAX;
    for (;;) {
      const messages = await ask(`/session/${id}/message`);
      const said = messages.flatMap(({ parts }) => parts.map((part) => part.text ?? '')).join('\n');
      if (said.includes('It is finished.') || Date.now() > until) return said;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  } finally {
    child.kill('SIGTERM');
    await ended;
  }
}

async function isHooked(agent) {
  const name = `${agent.name} with hooks`;
  const text = 'Take the next task.';
  configure(agent);
  await cli('init', '--clients', agent.name, '--hooks');
  const { id } = await asked('task', 'add', name);
  const said =
    agent.name === 'opencode' ? await served(agent, 'hooked', text) : await run(...called(agent, 'hooked', text), text);
  const task = await asked('task', 'show', id);
  const inside = join(task.attempts[0].live?.worktree ?? worktreeOf(id), 'inside.txt');
  check(name, 'an edit outside of the worktree is refused', !existsSync(join(repo, 'outside.txt')), said);
  check(name, 'an edit inside is not', existsSync(inside), { said, task });
  const beats = task.provenance.filter(({ did }) => did.includes('heartbeat'));
  check(name, 'it sends heartbeats that its model knows nothing of', beats.length > 0, task);
  check(name, 'it is told why the edit is refused', said.includes('outside the worktree of'), said);
  check(name, 'it keeps a session that would have gone stale', said.includes('was active'), said);
  check(name, 'it is told the next task when it starts, once', said.includes('It was told 1 at the start'), said);
  check(name, 'it is told once what is open', said.includes('1 at the end'), said);
  check(name, 'told what is open, it finishes', said.includes('It is finished.'), { said, task });
}

// Edits a file, and knows nothing of a board.
function bareScript(name, edit) {
  return function* () {
    yield edit(join(folder, `${name}.txt`));
    return 'It is written.';
  };
}

async function goesOn(agent) {
  const name = `${agent.name} without callboard`;
  configure(agent);
  const said = await run(...called(agent, 'bare', 'Write the file.'), 'Write the file.');
  check(name, 'its hooks refuse no edit', existsSync(join(repo, `${agent.name}.txt`)), said);
}

function worktreeOf(id) {
  return join(repo, '.callboard/worktrees', id);
}

async function givesBack() {
  // What opencode itself keeps beside its plugins.
  for (const kept of ['package.json', 'package-lock.json', 'node_modules', '.gitignore']) {
    rmSync(join(repo, '.opencode', kept), { recursive: true, force: true });
  }
  await cli('init', '--remove');
  const made = ['.mcp.json', '.codex', '.gemini', '.github', 'opencode.json', '.opencode/plugins', '.claude', 'AGENTS.md'];
  const found = made.filter((path) => existsSync(join(repo, path)));
  check('connected', 'init --remove gives everything back', found.length === 0, found);
}
