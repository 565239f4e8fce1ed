// Real coding agents and callboard: opencode and Codex run jobs, by their command line and over ACP,
// and do tasks as MCP clients. What they think is scripted (scripts.mjs, model.mjs).
//
// Prints a line for each check, `ok` or `FAILED` first; `run` counts them.

import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RUN_MS_MAX, binary, check, openLane, part, write } from './lane.mjs';
import { diff, scripts } from './scripts.mjs';

const lane = await openLane('agents', scripts());
const { home, repo, env, run, cli, asked } = lane;
const { opencode, codex } = lane.agents;
let server;

await part('agents', prepare);
await part('agents', async () => (server = await lane.serve()));
for (const agent of [opencode, codex]) {
  await part(agent.name, () => byCommand(agent));
  await part(agent.name, () => asMcpClient(agent, 'stdio', 'graph'));
  await part(agent.name, () => asMcpClient(agent, 'http', 'execution'));
}
await part('opencode', overAcp);
await server?.stop();
lane.close();

// A board that knows opencode over ACP, too.
async function prepare() {
  await lane.prepare();
  const acp = `[executors.opencode-acp]
kind = "acp"
command = ["opencode", "acp", "--port", "{port}"]
env = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"]
writable = ["~/.local/share/opencode/", "~/.local/state/opencode/", "~/.cache/opencode/"]
`;
  write(join(repo, '.callboard/config.local.toml'), acp);
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
  const file = join(lane.folder, 'spec.json');
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
