// Both TypeScript SDKs against a callboard server: both transports, both protocol eras; and the
// tasks extension's own client over HTTP.
//
// Prints a line for each check, `ok` or `FAILED` first; `run` counts them. Knows the tools of the
// graph toolset, `jobs_submit`, and nothing of the server's inside. Runs in the folder where the SDKs are
// installed.

import * as current from '@modelcontextprotocol/client';
import { StdioClientTransport as CurrentStdio } from '@modelcontextprotocol/client/stdio';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as OldStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { createTaskSessionFromClient } from '@modelcontextprotocol/ext-tasks/client';
import { StreamableHTTPClientTransport as OldHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const { CALLBOARD_BINARY: binary, CALLBOARD_REPO: repo, CALLBOARD_URL: url } = process.env;
const { CALLBOARD_COMMIT: commit } = process.env;

const info = { name: 'callboard-clients', version: '1.0.0' };
const clients = {
  'typescript 2 legacy': {
    client: () => new current.Client(info),
    stdio: CurrentStdio,
    http: current.StreamableHTTPClientTransport,
  },
  'typescript 2 modern': {
    client: () => new current.Client(info, { versionNegotiation: { mode: 'auto' } }),
    stdio: CurrentStdio,
    http: current.StreamableHTTPClientTransport,
  },
  'typescript 1': { client: () => new OldClient(info), stdio: OldStdio, http: OldHttp },
};

for (const [name, sdk] of Object.entries(clients)) {
  for (const transport of ['stdio', 'http']) {
    const lane = `${name} ${transport}`;
    const actor = `agent:${lane.replaceAll(' ', '-')}`;
    const client = sdk.client();
    try {
      await client.connect(open(sdk, transport, actor));
      await walk(lane, client, actor);
    } catch (error) {
      check(lane, 'runs to its end', false, error);
    } finally {
      await client.close().catch(() => {});
    }
  }
}

await longCalls('typescript tasks http', 'agent:typescript-tasks');
await jobs('typescript jobs http', 'agent:typescript-jobs');

function open(sdk, transport, actor) {
  if (transport === 'stdio') {
    return new sdk.stdio({ command: binary, args: ['mcp', '--actor', actor], cwd: repo });
  }
  return new sdk.http(new URL(`${url}/mcp?actor=${actor}`));
}

function check(lane, what, passed, seen) {
  const detail = seen instanceof Error ? seen.stack : JSON.stringify(seen);
  console.log(passed ? `ok      ${lane}: ${what}` : `FAILED  ${lane}: ${what}: ${detail}`);
}

async function walk(lane, client, actor) {
  const server = client.getServerVersion();
  check(lane, 'meets callboard', server?.name === 'callboard', server);
  const { tools } = await client.listTools();
  const names = tools.map((tool) => tool.name);
  check(lane, 'lists tools', ['create', 'claim', 'get'].every((n) => names.includes(n)), names);
  const create = tools.find((tool) => tool.name === 'create');
  const complete = create?.title && create.outputSchema && create.annotations;
  check(lane, 'a tool has title, schemas and hints', Boolean(complete), create);

  const made = await client.callTool({ name: 'create', arguments: { title: `from ${lane}` } });
  const task = made.structuredContent?.id;
  check(lane, 'creates a task', !made.isError && Boolean(task), made);
  const same = JSON.stringify(made.structuredContent) === made.content[0].text;
  check(lane, 'the text is the structured result', same, made.content);
  const claimed = await client.callTool({ name: 'claim', arguments: { id: task } });
  const assignee = claimed.structuredContent?.assignee;
  check(lane, 'claims it as its actor', assignee === actor, claimed);
  const got = await client.callTool({ name: 'get', arguments: { id: task } });
  check(lane, 'gets it', got.structuredContent?.id === task, got);

  const { contents } = await client.readResource({ uri: `callboard://tasks/${task}` });
  check(lane, 'reads its resource', JSON.parse(contents[0].text).id === task, contents);
  const { resourceTemplates } = await client.listResourceTemplates();
  const template = resourceTemplates.find((one) => one.uriTemplate.includes('{id}'));
  check(lane, 'lists templates', Boolean(template), resourceTemplates);
  const { prompts } = await client.listPrompts();
  check(lane, 'lists prompts', prompts.some((one) => one.name === 'start-work'), prompts);
  const prompt = await client.getPrompt({ name: 'start-work', arguments: { task } });
  check(lane, 'gets a prompt', prompt.messages[0].content.text.includes(task), prompt);
  const typed = await client.complete({
    ref: { type: 'ref/resource', uri: template.uriTemplate },
    argument: { name: 'id', value: task.slice(0, -3) },
  });
  check(lane, 'completes an id', typed.completion.values.includes(task), typed);

  const nothing = { id: 'TASK-00000000000000000000000000' };
  const refused = await client.callTool({ name: 'get', arguments: nothing });
  const coded = refused.isError === true && Boolean(refused.structuredContent?.code);
  check(lane, 'a refusal is an error with a code', coded, refused);
  await refusedByProtocol(lane, 'an unknown tool', [-32602], () =>
    client.callTool({ name: 'no_such_tool', arguments: {} }),
  );
  await refusedByProtocol(lane, 'an unknown resource', [-32002, -32602], () =>
    client.readResource({ uri: 'callboard://nothing' }),
  );
}

async function refusedByProtocol(lane, what, codes, ask) {
  try {
    check(lane, `${what} is a protocol error`, false, await ask());
  } catch (error) {
    check(lane, `${what} is a protocol error`, codes.includes(error.code), error);
  }
}

// A check, or a wait, that outlasts the server's patience: its answer comes by way of a task.
async function longCalls(lane, actor) {
  const client = new current.Client(info, { versionNegotiation: { mode: 'auto' } });
  try {
    const session = await taskSession(client, `${url}/mcp/graph,board?actor=${actor}`);
    const checks = [{ desc: 'takes its time', cmd: 'sleep 3' }];
    const made = await client.callTool({ name: 'create', arguments: { title: lane, checks } });
    const task = made.structuredContent.id;
    const running = await session.callTool('run_checks', { id: task });
    check(lane, 'a long call is a task', running.kind === 'task', running.kind);
    const { outcome } = await running.settle();
    const result = outcome.result?.structuredContent?.checks?.[0].result;
    check(lane, 'its result is the call\'s', result === 'pass', outcome);
    const waiting = await session.callTool('tasks_wait', { task_id: task });
    check(lane, 'so is a wait', waiting.kind === 'task', waiting.kind);
    await client.callTool({ name: 'transition', arguments: { id: task, to: 'in_progress' } });
    const waited = (await waiting.settle()).outcome;
    const code = waited.result?.structuredContent?.code;
    check(lane, 'a change completes it', code === 'TASK_CHANGED', waited);
    const hanging = [{ desc: 'hangs', cmd: 'sleep 600' }];
    const other = await client.callTool({ name: 'create', arguments: { title: lane, checks: hanging } });
    const call = await session.callTool('run_checks', { id: other.structuredContent.id });
    await call.cancel();
    const ended = await call.settle();
    check(lane, 'a cancelled one ends', ended.outcome.status === 'cancelled', ended.outcome);
    await session.close();
  } catch (error) {
    check(lane, 'runs to its end', false, error);
  } finally {
    await client.close().catch(() => {});
  }
}

// A job is a task too: its id is followed to the end without ever asking the job's own tools.
async function jobs(lane, actor) {
  const client = new current.Client(info, { versionNegotiation: { mode: 'auto' } });
  try {
    const session = await taskSession(client, `${url}/mcp/relay?actor=${actor}`);
    const submit = async (model) => {
      const spec = {
        repo: { type: 'local', path: repo, baseBranch: 'main', baselineCommit: commit },
        task: { title: lane, description: 'Change nothing.', acceptance: [] },
        scope: { readPaths: [], disallowReformatting: true },
        outputContract: ['DIFF', 'TEST_PLAN', 'NOTES'],
        execution: {
          preferredModel: model,
          sandbox: 'read-only',
          askPolicy: 'untrusted',
          priority: 'P1',
          ttlS: 600,
        },
        idempotencyKey: `${lane} ${model}`,
      };
      const call = await session.callTool('jobs_submit', { spec });
      const { outcome } = await call.settle();
      const answer = outcome.result;
      const named = answer?._meta?.['io.modelcontextprotocol/related-task']?.taskId;
      const { jobId } = answer?.structuredContent ?? {};
      check(lane, 'a submit answers with its job and names the task', jobId && named === jobId, answer);
      return session.task(jobId);
    };
    const job = await submit('clients/quick');
    const { status, result } = await job.result();
    const succeeded = status === 'completed' && result.structuredContent.state === 'SUCCEEDED';
    check(lane, 'a job is followed to its result', succeeded, result);
    const hanging = await submit('clients/hangs');
    const working = await hanging.snapshot();
    check(lane, 'a job at work is working', working.status === 'working', working);
    await hanging.cancel();
    const ended = await hanging.result();
    check(lane, 'a cancelled job ends', ended.status === 'cancelled', ended);
    await session.close();
  } catch (error) {
    check(lane, 'runs to its end', false, error);
  } finally {
    await client.close().catch(() => {});
  }
}

async function taskSession(client, address) {
  await client.connect(new current.StreamableHTTPClientTransport(new URL(address)));
  const protocolVersion = '2026-07-28';
  return createTaskSessionFromClient(client, {
    endpointId: address,
    rawDispatch: (request) => post(address, protocolVersion, request),
    v2RequestFraming: { protocolVersion, clientInfo: info, clientCapabilities: {} },
  });
}

async function post(address, version, request) {
  const response = await fetch(address, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'MCP-Protocol-Version': version,
      'Mcp-Method': request.method,
      'Mcp-Name': request.params.name ?? request.params.taskId,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: crypto.randomUUID(), ...request }),
  });
  const { result, error } = await response.json();
  return error ? { kind: 'error', error } : { kind: 'result', result };
}
