// Real agents that only the texts of callboard lead: the server's `instructions`, and the prompts
// `start-work` and `review-queue`. At least one for each toolset; what they think follows these texts
// and nothing else (follower.mjs, loops.mjs).
//
// Prints a line for each check, `ok` or `FAILED` first; `run` counts them.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { follower } from './follower.mjs';
import { binary, check, openLane, part, write } from './lane.mjs';
import * as loops from './loops.mjs';
import { diff, dialects, patches } from './scripts.mjs';

// For each loop the agent that runs it, and the prompt that starts it. opencode and Claude Code have
// the prompt as a command of theirs; Codex has no MCP prompts and gets the text as its user's message.
// All three show the instructions to their model: opencode in the system prompt, Codex as the
// description of the server's tools, Claude Code beside a message of the user, or, when the first
// message is a command, beside the first results.
const led = {
  graph: ['opencode', loops.graph, 'start-work'],
  graphReview: ['claude', loops.graphReview, 'review-queue'],
  execution: ['codex', loops.execution, 'start-work'],
  board: ['claude', loops.board, 'start-work'],
  boardAuto: ['opencode', loops.board, 'start-work'],
  boardReview: ['claude', loops.boardReview, 'review-queue'],
  relay: ['claude', loops.relay, 'start-work'],
  crewWorker: ['codex', loops.crewWorker, 'start-work'],
  crewSupervisor: ['opencode', loops.crewSupervisor, 'start-work'],
};
// What the user types after the command.
const typed = {};
const followers = {};
const scripts = {
  // Scripts of the agent that Callboard itself starts, for a job and for a task.
  'codex-patches': patches(dialects.codex),
  'codex-works': loops.works(dialects.codex),
};
for (const [name, [agent, loop]] of Object.entries(led)) {
  followers[name] = follower(agent, loop);
  scripts[`${agent}-${name}`] = followers[name].script;
}

const lane = await openLane('led', scripts);
const { repo, env, agents, run, cli, asked } = lane;
// The board's sessions have a tmux of their own; the path of a socket has to be short.
env.TMUX_TMPDIR = mkdtempSync(join(tmpdir(), 'led-'));

await part('led', rules);
await part('led', prepare);
await part('led graph', graph);
await part('led execution', execution);
await part('led board', board);
await part('led relay', relay);
await part('led crew', crew);
lane.close();
rmSync(env.TMUX_TMPDIR, { recursive: true, force: true });

// The follower finds each kind of broken rule.
function rules() {
  const properties = { id: {}, to: {} };
  const tools = { get: { properties, required: ['id'] }, cancel: { properties } };
  const told = { instructions: 'Callboard has tasks: get one.', prompt: 'Take T1, do not cancel it.' };
  const wrong = {
    'a tool that nothing names': { tool: 'cancel', input: { id: 'T1' } },
    'a tool that is not there': { tool: 'give', input: { id: 'T1' } },
    'an argument that the schema lacks': { tool: 'get', input: { id: 'T1', with: 'T1' } },
    'an argument left out': { tool: 'get', input: { to: 'T1' } },
    'a value that nobody gave': { tool: 'get', input: { id: 'T2' } },
    'a resource that nothing names': { resource: 'callboard://tasks/T2' },
  };
  const faultsOf = (wish) => {
    const one = follower('codex', function* () {
      yield wish;
    });
    Object.assign(one.told, told);
    try {
      one.script({ texts: Object.values(told), results: [], tools }).next();
    } catch {
      // The fault is kept.
    }
    return one.faults;
  };
  const right = faultsOf({ tool: 'get', input: { id: 'T1' } });
  check('led', 'a follower may do what it was told', right.length === 0, right);
  for (const [what, wish] of Object.entries(wrong)) {
    const faults = faultsOf(wish);
    check('led', `a follower may not use ${what}`, faults.length === 1, faults);
  }
}

async function prepare() {
  await lane.prepare();
  const settings = `[general]
default_worker_agent = "codex"
auto_review = false
`;
  write(join(repo, '.callboard/config.local.toml'), settings);
}

async function graph() {
  const { id: other } = await asked('task', 'add', 'Not this one');
  const { id, number } = await asked('task', 'add', 'Add graph.txt', '--check', 'test -e graph.txt');
  typed.graph = `TASK-${number}`;
  await lead('graph', '--toolsets', 'graph');
  await ends('led graph', id, 'in_review');
  await lead('graphReview', '--toolsets', 'graph');
  await ends('led graph', id, 'done');
  await ends('led graph, the one not typed', other, 'backlog');
  await cli('task', 'rm', other);
}

async function execution() {
  const { id } = await asked('task', 'add', 'Add execution.txt', '--check', 'test -e execution.txt');
  await lead('execution', '--toolsets', 'execution');
  await ends('led execution', id, 'done');
}

async function board() {
  const { id: paired } = await asked('task', 'add', 'Add board.txt');
  await lead('board', '--toolsets', 'board');
  await ends('led board', paired, 'in_review');
  const { id: alone } = await asked('task', 'add', 'Add auto.txt');
  await cli('call', 'tasks_update', JSON.stringify({ task_id: alone, task_type: 'AUTO' }));
  agents.codex.configure();
  await lead('boardAuto', '--toolsets', 'board');
  await ends('led board, AUTO', alone, 'in_review');
  await lead('boardReview', '--toolsets', 'board', '--lane', 'admin');
  await ends('led board', paired, 'done');
  await ends('led board, AUTO', alone, 'done');
  const merged = ['board.txt', 'auto.txt'].filter((file) => existsSync(join(repo, file)));
  check('led board', 'the work of both is merged', merged.length === 2, merged);
}

async function relay() {
  await asked('task', 'add', 'Say good morning');
  agents.codex.configure();
  const said = await lead('relay', '--toolsets', 'relay');
  // Claude Code shows a resource as JSON.
  const patch = JSON.stringify(diff).slice(1, -1);
  check('led relay', 'it reads the patch of its job', said.includes(patch), said);
  check('led relay', 'and tries it', said.includes('It applies.'), said);
}

async function crew() {
  const { id: epic } = await asked('epic', 'add', 'Files of a crew');
  await cli('agent', 'add', 'crewSupervisor', '--type', 'SUPERVISOR', '--epic', epic);
  const task = JSON.stringify({ title: 'Add crew.txt', description: 'A line will do.' });
  const call = ['call', 'mcp__epic__create_task', task];
  const { data } = JSON.parse(await cli('--actor', 'agent:crewSupervisor', ...call));
  // Callboard made a worker for the task; another one, with a known name, takes it over.
  await cli('agent', 'add', 'crewWorker', '--type', 'WORKER');
  const assigned = JSON.stringify({ taskId: data.taskId, agentId: 'crewWorker' });
  await cli('--actor', 'agent:crewSupervisor', 'call', 'mcp__task__assign', assigned);
  await lead('crewWorker', '--toolsets', 'crew');
  await ends('led crew', data.taskId, 'in_review');
  await lead('crewSupervisor', '--toolsets', 'crew');
  await ends('led crew', data.taskId, 'done');
  await ends('led crew, its epic', epic, 'done');
}

async function ends(name, id, status) {
  const task = await asked('task', 'show', id);
  check(name, `the task gets to ${status}`, task.status === status, task);
}

// Lets an agent follow its prompt to its last words. It acts as `agent:NAME`.
async function lead(name, ...args) {
  const [agent, , prompt] = led[name];
  const { told, seen, faults, calls } = followers[name];
  const title = `led ${name} by ${agent}`;
  const served = ['mcp', '--actor', `agent:${name}`, ...args];
  Object.assign(told, await texts(prompt, served));
  agents[agent].configure({ command: [binary, ...served] });
  let said = '';
  try {
    said = await run(...agents[agent].lead(name, prompt, told.prompt, typed[name]));
  } finally {
    check(title, 'its model has the instructions', seen.has('instructions'), told);
    check(title, `its model has ${prompt}`, seen.has('prompt'), told);
    const named = calls.size > 0 && faults.length === 0;
    check(title, `the texts name the ${calls.size} tools it calls`, named, faults);
  }
  check(title, 'it gets to its last words', /^It is (finished|reviewed)\./m.test(said), said);
  return said;
}

// The texts that a client with the same arguments gets.
async function texts(name, args) {
  const client = new Client({ name: 'led', version: '1' });
  const started = { command: binary, args: [...args, '--no-runner'], cwd: repo, env };
  await client.connect(new StdioClientTransport({ ...started, stderr: 'ignore' }));
  const { messages } = await client.getPrompt({ name });
  const instructions = client.getInstructions();
  await client.close();
  return { instructions, prompt: messages[0].content.text };
}
