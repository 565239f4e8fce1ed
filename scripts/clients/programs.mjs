// The coding agents of the lanes: how each is called with a message (`run`) and with a prompt of the MCP server (`lead`),
// and how it is told where its model and its MCP server are (`configure`).

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { write } from './lane.mjs';

export function programs({ home, repo, model }) {
  return {
    opencode: opencode(home, model),
    codex: codex(home, model),
    claude: claude(home, model),
    gemini: gemini(home, repo, model),
    copilot: copilot(model),
  };
}

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

// Gemini CLI ignores the files of a folder that it was not told to trust. `--skip-trust` reads them, but runs no hooks.
function gemini(home, repo, model) {
  const agent = {
    name: 'gemini',
    model: (script) => `gemini-${script}`,
    run: (script) => ['gemini', ['--model', agent.model(script), '--approval-mode', 'yolo']],
    configure() {
      const folder = join(home, '.gemini');
      const settings = {
        security: { auth: { selectedType: 'gemini-api-key' } },
        general: { enableAutoUpdate: false },
        privacy: { usageStatisticsEnabled: false },
      };
      write(join(folder, 'settings.json'), JSON.stringify(settings));
      write(join(folder, 'trustedFolders.json'), JSON.stringify({ [repo]: 'TRUST_FOLDER' }));
      write(join(folder, '.env'), `GEMINI_API_KEY=none\nGOOGLE_GEMINI_BASE_URL=${model.url}\n`);
    },
  };
  return agent;
}

// The command line of Copilot learns of its model from variables alone.
function copilot(model) {
  const agent = {
    name: 'copilot',
    model: (script) => `copilot-${script}`,
    run: (script, message) => {
      const provider = [
        'COPILOT_OFFLINE=true',
        'COPILOT_AUTO_UPDATE=false',
        `COPILOT_PROVIDER_BASE_URL=${model.url}/v1`,
        'COPILOT_PROVIDER_API_KEY=none',
      ];
      const free = ['--allow-all-tools', '--trust-folder'];
      return ['env', [...provider, 'copilot', '--prompt', message, '--model', agent.model(script), ...free]];
    },
    configure() {},
  };
  return agent;
}

// opencode installs a package beside its plugins when it starts, and waits for it. Ours needs none, and to a folder with
// these files opencode adds nothing.
export function hasPackages(folder) {
  const dependencies = { '@opencode-ai/plugin': '*' };
  const lock = { lockfileVersion: 3, packages: { '': { dependencies } } };
  write(join(folder, 'package.json'), JSON.stringify({ dependencies }));
  write(join(folder, 'package-lock.json'), JSON.stringify(lock));
  mkdirSync(join(folder, 'node_modules/@opencode-ai/plugin'), { recursive: true });
}
