// Callboard for opencode. Written by `callboard init --hooks`; `callboard init --remove` takes it out.
// It asks `callboard hook` at moments of a session. Whatever fails is silence: the agent goes on.
import { spawnSync } from 'node:child_process';

const TIMEOUT_MS = 5000;

export const Callboard = async ({ client, directory }) => {
  const ask = (event, message = {}) => {
    try {
      const input = JSON.stringify({ cwd: directory, ...message });
      const options = { cwd: directory, input, encoding: 'utf8', timeout: TIMEOUT_MS };
      const { stdout } = spawnSync('callboard', ['hook', event, '--client', 'opencode'], options);
      return stdout.trim() ? JSON.parse(stdout) : {};
    } catch {
      return {};
    }
  };
  const started = new Map();
  // What a session starts with. The request for a title has no session, and needs no words.
  const startOf = (id) => {
    if (!started.has(id)) started.set(id, ask('session-start').say ?? '');
    return started.get(id);
  };
  return {
    'tool.execute.before': async ({ tool }, { args }) => {
      const { refuse } = ask('before-edit', { tool, args });
      if (refuse) throw new Error(refuse);
    },
    'tool.execute.after': async ({ tool }, output) => {
      const said = ask('after-tool', { tool }).say;
      if (said && typeof output.output === 'string') output.output += `\n\n${said}`;
    },
    'experimental.session.compacting': async (_, output) => {
      const said = ask('before-compact').say;
      if (said) output.context?.push(said);
    },
    'experimental.chat.system.transform': async ({ sessionID }, { system }) => {
      const said = sessionID && startOf(sessionID);
      if (said) system.push(said);
    },
    event: async ({ event: { type, properties } }) => {
      if (type !== 'session.idle') return;
      const { goOn } = ask('turn-end');
      if (!goOn) return;
      const body = { parts: [{ type: 'text', text: goOn }] };
      // The answer is not waited for: it comes as events, through here.
      client.session.prompt({ path: { id: properties.sessionID }, body }).catch(() => {});
    },
  };
};
