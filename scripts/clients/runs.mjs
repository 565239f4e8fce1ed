// Real agents that Callboard starts on tasks, confined by the system: they reach the board through the door
// of their run, as a command that forwards their messages and over HTTP. What they think is scripted.
//
// Prints a line for each check, `ok` or `FAILED` first; `run` counts them.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { check, openLane, part, skipped, write } from './lane.mjs';
import { inEachDialect } from './scripts.mjs';

const lane = await openLane('runs', inEachDialect((dialect) => ({ works: works(dialect) })));
const { home, repo, env, model, agents, cli, asked } = lane;
// Claude Code is told by its variables where its model is.
Object.assign(env, { ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'none' });

await part('runs', lane.prepare);
for (const transport of ['stdio', 'http']) {
  let server;
  await part(`runs, ${transport}`, async () => {
    configure(transport);
    server = await lane.serve();
  });
  for (const agent of [agents.opencode, agents.codex, agents.claude]) {
    await part(`${agent.name} in a run, ${transport}`, () => finishes(agent, transport));
  }
  await server?.stop();
}
lane.close();

// The work of a run: says on the board how far it is, commits a file, and tries to write elsewhere.
function works({ shell, callboard }) {
  return function* () {
    const said = yield shell('echo "task:$CALLBOARD_TASK_ID:"');
    const [, task_id] = /task:([^:]+):/.exec(said);
    const content = 'The file is next.';
    yield callboard('update_scratchpad', { task_id, content });
    yield shell('echo done > "$CALLBOARD_TASK_ID.txt" && git add . && git commit --quiet -m "Add a file"');
    yield shell('touch "$HOME/escaped"');
    return 'The file is there.\n<complete/>';
  };
}

function configure(transport) {
  // Codex cannot make its own sandbox inside that of the system.
  const codex = [
    ...['codex', 'exec', '--dangerously-bypass-approvals-and-sandbox', '--skip-git-repo-check'],
    ...['-c', 'mcp_servers.callboard={mcp_codex}', '--model', '{model}'],
    ...['--output-last-message', '{output_file}', '-'],
  ];
  const settings = `[general]
auto_review = false
[relay]
sandbox = "os"
[executors.claude]
mcp = "${transport}"
[executors.opencode]
mcp = "${transport}"
[executors.codex]
mcp = "${transport}"
command = ${JSON.stringify(codex)}
`;
  write(join(repo, '.callboard/config.local.toml'), settings);
}

async function finishes(agent, transport) {
  const name = `${agent.name} in a run, ${transport}`;
  agent.configure();
  const { id } = await asked('task', 'add', name);
  await call('tasks_update', { task_id: id, task_type: 'AUTO', agent_backend: agent.name });
  const start = { model: agent.model('works') };
  const { job_id } = await call('jobs_submit', { task_id: id, action: 'start_agent', arguments: start });
  // Until the run is over.
  await cli('logs', job_id, '--follow');
  const task = await asked('task', 'show', id);
  const logs = await cli('logs', job_id);
  if (logs.includes('relay.sandbox = os')) return skipped(name, 'this kernel has no Landlock');
  check(name, 'the task gets to its review', task.status === 'in_review', { task, logs });
  check(name, 'the system confines it', logs.includes('sandbox: the system'), logs);
  const { scratchpad } = await call('get_context', { task_id: id });
  check(name, 'it wrote on the board', JSON.stringify(scratchpad ?? '').includes('The file is next.'), logs);
  check(name, 'it cannot write elsewhere', !existsSync(join(home, 'escaped')), logs);
}

async function call(tool, input) {
  return JSON.parse(await cli('call', tool, JSON.stringify(input)));
}
