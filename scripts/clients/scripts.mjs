// What the agents' model says. Each agent has the same scripts under its own names, since each
// names its tools in its own way.

export const diff = `diff --git a/greeting.txt b/greeting.txt
--- a/greeting.txt
+++ b/greeting.txt
@@ -1 +1 @@
-hello
+good morning
`;

const patch = (notes) =>
  `Here it is.\n\n## DIFF\n\`\`\`diff\n${diff}\`\`\`\n## TEST_PLAN\nRead it.\n## NOTES\n${notes}\n`;

const dialects = {
  opencode: {
    shell: (command) => ({ tool: 'bash', input: { command, description: 'Runs a command' } }),
    callboard: (tool, input = {}) => ({ tool: `callboard_${tool}`, input }),
  },
  codex: {
    shell: (cmd) => ({ tool: 'exec_command', input: { cmd } }),
    callboard: (tool, input = {}) => ({ namespace: 'mcp__callboard', tool, input }),
  },
};

export function scripts() {
  const named = Object.entries(dialects).flatMap(([agent, dialect]) =>
    Object.entries(scriptsIn(dialect)).map(([name, turns]) => [`${agent}-${name}`, turns]),
  );
  return Object.fromEntries(named);
}

// Some put words around a result.
function json(text) {
  return JSON.parse(text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1));
}

function scriptsIn({ shell, callboard }) {
  return {
    // Looks at the file, tries to leave one in the home folder, and answers what it saw.
    patches: [
      shell('cat greeting.txt'),
      shell('touch "$HOME/escaped" && echo left'),
      ([read, escape]) => patch(`${/hello/.exec(read)} was there. ${escape}`),
    ],
    // Wants leave twice: for a command that is trusted, and for one that is not.
    asks: [
      shell('wc -c greeting.txt'),
      shell('git hash-object greeting.txt'),
      ([, hash]) => patch(`Its hash is ${hash}`),
    ],
    graph: [
      callboard('identity'),
      callboard('list', { ready: true, status: 'backlog' }),
      ([me, listed]) =>
        callboard('begin', {
          id: json(listed).tasks[0].id,
          expected_actor: json(me).actor,
          idempotency_key: json(me).actor,
        }),
      shell('echo done > proof.txt'),
      ([, , begun]) => callboard('finish', { session: json(begun).id, summary: 'It is there.' }),
      ([, , begun]) => callboard('transition', { id: json(begun).task, to: 'done' }),
      ([, , , , , closed]) => `It is ${json(closed).status}.`,
    ],
    execution: [
      callboard('get_next_actionable'),
      ([next]) => callboard('claim_task', { taskId: json(next).tasks[0].taskId }),
      ([next]) => callboard('complete_task', { taskId: json(next).tasks[0].taskId, output: 'Done.' }),
      ([, , completed]) => `It is ${json(completed).state}.`,
    ],
  };
}
