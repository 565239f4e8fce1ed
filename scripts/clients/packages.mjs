// The packages of packages/ in the programs they are for: each program accepts the package, installs it from the folder
// that a user would name, and starts the packaged server in a project.
//
// Prints a line for each check, `ok` or `FAILED` first; `run` counts them.

import { join } from 'node:path';
import { check, openLane, part, skipped } from './lane.mjs';

const packages = process.env.CALLBOARD_PACKAGES;
const lane = await openLane('packages', {});
const { agents, env, run } = lane;

await part('packages', prepare);
await part('claude plugin', claude);
await part('codex plugin', codex);
skipped('gemini extension', 'Gemini CLI takes a minute to install, and half a minute to start');
lane.close();

// The packages start `callboard` from PATH.
async function prepare() {
  await lane.prepare();
  lane.putOnPath();
  env.DISABLE_AUTOUPDATER = '1';
  env.CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = '1';
}

async function claude() {
  const name = 'claude plugin';
  for (const folder of [packages, join(packages, 'callboard')]) {
    const said = await run('claude', ['plugin', 'validate', folder]);
    check(name, 'it is valid', /Validation passed$/m.test(said), said);
  }
  await run('claude', ['plugin', 'marketplace', 'add', packages]);
  await run('claude', ['plugin', 'install', 'callboard@callboard']);
  const servers = await run('claude', ['mcp', 'list']);
  const line = servers.split('\n').find((line) => line.includes('callboard mcp')) ?? '';
  check(name, 'its server answers', line.includes('Connected'), servers);
}

async function codex() {
  const name = 'codex plugin';
  agents.codex.configure();
  await run('codex', ['plugin', 'marketplace', 'add', packages]);
  await run('codex', ['plugin', 'add', 'callboard@callboard']);
  const plugins = await run('codex', ['plugin', 'list']);
  check(name, 'it is installed', /callboard@callboard +installed, enabled/.test(plugins), plugins);
  const servers = await run('codex', ['mcp', 'list']);
  check(name, 'it brings its server', /^callboard +callboard +mcp .*enabled/m.test(servers), servers);
}
