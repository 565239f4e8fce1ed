// What the agents' model says in agents.mjs. Each agent has the same scripts under its own names, since
// each names its tools in its own way.

export const diff = `diff --git a/greeting.txt b/greeting.txt
--- a/greeting.txt
+++ b/greeting.txt
@@ -1 +1 @@
-hello
+good morning
`;

const patch = (notes) =>
  `Here it is.\n\n## DIFF\n\`\`\`diff\n${diff}\`\`\`\n## TEST_PLAN\nRead it.\n## NOTES\n${notes}\n`;

const server = 'callboard';

// How each agent names its shell, the tools of the MCP server and the one that reads its resources.
export const dialects = {
  opencode: {
    shell: (command) => ({ tool: 'bash', input: { command, description: 'Runs a command' } }),
    callboard: (tool, input = {}) => ({ tool: `callboard_${tool}`, input }),
    resource: (uri) => ({ tool: 'read_mcp_resource', input: { server, uri } }),
  },
  codex: {
    shell: (cmd) => ({ tool: 'exec_command', input: { cmd } }),
    callboard: (tool, input = {}) => ({ namespace: 'mcp__callboard', tool, input }),
    resource: (uri) => ({ tool: 'read_mcp_resource', input: { server, uri } }),
  },
  claude: {
    shell: (command) => ({ tool: 'Bash', input: { command, description: 'Runs a command' } }),
    callboard: (tool, input = {}) => ({ tool: `mcp__callboard__${tool}`, input }),
    resource: (uri) => ({ tool: 'ReadMcpResourceTool', input: { server, uri } }),
  },
  gemini: {
    shell: (command) => ({ tool: 'run_shell_command', input: { command, description: 'Runs a command' } }),
    callboard: (tool, input = {}) => ({ tool: `mcp_callboard_${tool}`, input }),
    resource: (uri) => ({ tool: 'read_mcp_resource', input: { uri } }),
  },
  copilot: {
    shell: (command) => ({ tool: 'bash', input: { command, description: 'Runs a command' } }),
    callboard: (tool, input = {}) => ({ tool: `callboard-${tool}`, input }),
  },
};

// `scriptsOf(dialect)` for each agent, named `opencode-patches` and so on.
export function inEachDialect(scriptsOf) {
  const named = Object.entries(dialects).flatMap(([agent, dialect]) =>
    Object.entries(scriptsOf(dialect)).map(([name, script]) => [`${agent}-${name}`, script]),
  );
  return Object.fromEntries(named);
}

// Some agents put words around a result.
export function json(text) {
  return JSON.parse(text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1));
}

// Looks at the file, tries to leave one in the home folder, and answers what it saw.
export function patches({ shell }) {
  return function* () {
    const read = yield shell('cat greeting.txt');
    const escape = yield shell('touch "$HOME/escaped" && echo left');
    return patch(`${/hello/.exec(read)} was there. ${escape}`);
  };
}

export function scripts() {
  return inEachDialect((dialect) => ({
    patches: patches(dialect),
    asks: asks(dialect),
    graph: graph(dialect),
    execution: execution(dialect),
  }));
}

// Wants leave twice: for a command that is trusted, and for one that is not.
function asks({ shell }) {
  return function* () {
    yield shell('wc -c greeting.txt');
    const hash = yield shell('git hash-object greeting.txt');
    return patch(`Its hash is ${hash}`);
  };
}

function graph({ shell, callboard }) {
  return function* () {
    const { actor } = json(yield callboard('identity'));
    const { tasks } = json(yield callboard('list', { ready: true, status: 'backlog' }));
    const named = { id: tasks[0].id, expected_actor: actor, idempotency_key: actor };
    const session = json(yield callboard('begin', named));
    yield shell('echo done > proof.txt');
    yield callboard('finish', { session: session.id, summary: 'It is there.' });
    const closed = json(yield callboard('transition', { id: session.task, to: 'done' }));
    return `It is ${closed.status}.`;
  };
}

function execution({ callboard }) {
  return function* () {
    const { tasks } = json(yield callboard('get_next_actionable'));
    const { taskId } = tasks[0];
    yield callboard('claim_task', { taskId });
    const completed = json(yield callboard('complete_task', { taskId, output: 'Done.' }));
    return `It is ${completed.state}.`;
  };
}
