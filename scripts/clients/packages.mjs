// The packages of packages/ in the programs they are for: each program accepts the package, installs it from the folder
// that a user would name, and starts the packaged server in a project.
//
// Prints a line for each check, `ok` or `FAILED` first; `run` counts them.

import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { check, openLane, part } from './lane.mjs';
import { hasPackages } from './programs.mjs';

const packages = process.env.CALLBOARD_PACKAGES;
const lane = await openLane('packages', {});
const { agents, env, home, run } = lane;

await part('packages', prepare);
await part('claude plugin', claude);
await part('codex plugin', codex);
await part('gemini extension', gemini);
await part('opencode plugin', opencode);
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

async function gemini() {
  const name = 'gemini extension';
  agents.gemini.configure();
  const folder = join(packages, 'callboard');
  // Gemini CLI reports on stderr.
  const told = (...args) => run('sh', ['-c', 'exec gemini "$@" 2>&1', 'gemini', ...args]);
  const said = await told('extensions', 'validate', folder);
  check(name, 'it is valid', said.includes('successfully validated'), said);
  await told('extensions', 'link', folder, '--consent');
  const servers = await told('mcp', 'list');
  const line = servers.split('\n').find((line) => line.includes('callboard mcp')) ?? '';
  check(name, 'its server answers', line.includes('Connected'), servers);
}

async function opencode() {
  const name = 'opencode plugin';
  agents.opencode.configure();
  const folder = join(home, '.config/opencode');
  hasPackages(folder);
  mkdirSync(join(folder, 'plugins'), { recursive: true });
  copyFileSync(join(packages, 'opencode/callboard.js'), join(folder, 'plugins/callboard.js'));
  const servers = await run('sh', ['-c', 'exec opencode mcp list 2>&1']);
  check(name, 'its server answers', /callboard.*connected/.test(servers), servers);
}
