// A place for real coding agents, and how each of them is called: a home, a repository with a board,
// a scripted model (model.mjs), and a line for each check, `ok`, `FAILED` or `skipped` first.
//
// All that the agents keep stands below the lane's folder. Their proxy is a closed port, so they
// reach loopback and nothing else; they neither update themselves nor report anything.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { startModel } from './model.mjs';

export const RUN_MS_MAX = 60_000;

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
        else reject(new Error(`${program} ${args.join(' ')}: ${code ?? signal}: ${stdout}${stderr}`));
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

  // Puts `callboard` on PATH, where the files of clients and packages look for it.
  function putOnPath() {
    const programs = join(folder, 'bin');
    mkdirSync(programs);
    symlinkSync(binary, join(programs, 'callboard'));
    env.PATH = `${programs}:${env.PATH}`;
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

  const agents = { opencode: opencode(home, model), codex: codex(home, model), claude: claude(home, model) };
  return { folder, home, repo, env, model, agents, run, cli, asked, prepare, putOnPath, serve, close };
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

// Each agent: how it is called with a message (`run`) and with a prompt of the MCP server (`lead`),
// and how it is told where its model and its MCP server are (`configure`).

function opencode(home, model) {
  const called = (script) => ['run', '--model', agent.model(script)];
  const agent = {
    name: 'opencode',
    model: (script) => `scripted/opencode-${script}`,
    run: (script) => ['opencode', called(script)],
    lead: (script, prompt, text, typed = []) => {
      return ['opencode', [...called(script), '--command', `callboard:${prompt}`].concat(typed)];
    },
    configure({ command, url, permission = {} } = {}) {
      const scripted = {
        npm: '@ai-sdk/openai-compatible',
        options: { baseURL: `${model.url}/v1`, apiKey: 'none' },
        models: Object.fromEntries(model.names.map((name) => [name, {}])),
      };
      const callboard = url ? { type: 'remote', url, oauth: false } : { type: 'local', command };
      const mcp = url || command ? { callboard } : {};
      const settings = { autoupdate: false, share: 'disabled', provider: { scripted }, permission, mcp };
      write(join(home, '.config/opencode/opencode.json'), JSON.stringify(settings));
    },
  };
  return agent;
}

function codex(home, model) {
  const agent = {
    name: 'codex',
    ownSandbox: true,
    model: (script) => `codex-${script}`,
    run: (script) => {
      const free = ['--dangerously-bypass-approvals-and-sandbox', '--skip-git-repo-check'];
      return ['codex', ['exec', ...free, '--model', agent.model(script), '-']];
    },
    // Codex knows no MCP prompts, so its user pastes the text.
    lead: (script, prompt, text) => [...agent.run(script), text],
    configure({ command, url } = {}) {
      const [program, ...args] = command ?? [];
      const text = JSON.stringify;
      const mcp = url ? `url = ${text(url)}` : `command = ${text(program)}\nargs = ${text(args)}`;
      const settings = `model_provider = "scripted"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = ${text(`${model.url}/v1`)}
wire_api = "responses"
${url || command ? `[mcp_servers.callboard]\n${mcp}` : ''}
`;
      write(join(home, '.codex/config.toml'), settings);
    },
  };
  return agent;
}

function claude(home, model) {
  const servers = join(home, 'mcp.json');
  const settings = join(home, 'settings.json');
  const agent = {
    name: 'claude',
    model: (script) => `claude-${script}`,
    run: (script, message) => {
      const tools = ['--allowedTools', 'Bash,ReadMcpResourceTool,mcp__callboard'];
      const mcp = ['--strict-mcp-config', '--mcp-config', servers, '--settings', settings];
      return ['claude', ['--print', message, '--model', agent.model(script), ...mcp, ...tools]];
    },
    lead: (script, prompt) => agent.run(script, `/mcp__callboard__${prompt}`),
    configure({ command, url } = {}) {
      const [program, ...args] = command ?? [];
      const callboard = url ? { type: 'http', url } : { type: 'stdio', command: program, args };
      write(servers, JSON.stringify({ mcpServers: url || command ? { callboard } : {} }));
      const env = {
        ANTHROPIC_BASE_URL: model.url,
        ANTHROPIC_API_KEY: 'none',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        DISABLE_AUTOUPDATER: '1',
        // The tools of MCP servers are in each request, with their schemas.
        ENABLE_TOOL_SEARCH: 'false',
      };
      write(settings, JSON.stringify({ env }));
    },
  };
  return agent;
}
