// A model that says what was prepared, streamed, on loopback: OpenAI's APIs of chat completions and of
// responses, Anthropic's of messages, and Google's of contents.
//
// A model's name picks a script: a generator that yields tool calls, `{tool, input, namespace?}`, is
// given the text of each result, and returns its last words. It runs from its beginning in every
// request, over the results that the request has, so nothing is remembered between requests and a
// repeated request gets the same answer. The generator is called with what the request has: `texts`
// (all but what the model said and the results), `results`, and `tools`, schemas by name.

import { createServer } from 'node:http';

const paths = {
  '/v1/chat/completions': { read: readChat, write: writeChat },
  '/v1/responses': { read: readResponses, write: writeResponses },
  '/v1/messages': { read: readMessages, write: writeMessages },
};
// Google's API has the model in its path.
const contents = /^\/v1beta\/models\/(.+):streamGenerateContent$/;

function apiOf(pathname) {
  const model = contents.exec(pathname)?.[1];
  if (model) return { read: (body) => readContents(model, body), write: writeContents };
  return paths[pathname];
}

export async function startModel(scripts) {
  const server = createServer(async (request, response) => {
    try {
      const { pathname } = new URL(request.url, 'http://model');
      const api = request.method === 'POST' && apiOf(pathname);
      if (!api) throw new Error(`${request.method} ${request.url} is not scripted`);
      let body = '';
      for await (const part of request) body += part;
      const asked = api.read(JSON.parse(body));
      const turn = next(scripts, asked);
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      response.end(api.write(turn, `call_${asked.results.length}`));
    } catch (fault) {
      response.writeHead(400, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify({ type: 'error', error: { message: fault.message } }));
    }
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, names: Object.keys(scripts), stop };
}

function next(scripts, asked) {
  const script = scripts[asked.model];
  if (!script) throw new Error(`no script for model ${asked.model}`);
  const offered = Object.keys(asked.tools);
  // A request without tools asks for a title of the conversation, or a summary.
  if (offered.length === 0) return 'A title';
  const turns = script(asked);
  let turn = turns.next();
  for (const result of asked.results) {
    if (turn.done) throw new Error(`the script of ${asked.model} is over`);
    turn = turns.next(result);
  }
  const { tool } = turn.value;
  if (tool && !offered.includes(tool)) throw new Error(`no tool ${tool} among ${offered.join(', ')}`);
  return turn.value;
}

function textOf(content) {
  return typeof content === 'string' ? content : content.map(({ text }) => text ?? '').join('');
}

function byName(tools, schema) {
  return Object.fromEntries(tools.map((tool) => [tool.name, tool[schema] ?? {}]));
}

function readChat({ model, messages, tools = [] }) {
  const of = (...roles) => messages.filter(({ role }) => roles.includes(role));
  return {
    model,
    texts: of('system', 'user').map(({ content }) => textOf(content)),
    results: of('tool').map(({ content }) => textOf(content)),
    tools: byName(tools.map((tool) => tool.function), 'parameters'),
  };
}

// A text is streamed in three parts, so that a client has to join them.
function thirds(text) {
  const third = Math.ceil(text.length / 3);
  return [0, third, 2 * third].map((at) => text.slice(at, at + third));
}

function writeChat(turn, id) {
  const base = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 0, model: 'scripted' };
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  const chunk = (choice, more) => ({ ...base, choices: [{ index: 0, ...choice }], ...more });
  const said = (delta) => chunk({ delta: { role: 'assistant', ...delta }, finish_reason: null });
  const chunks = [];
  if (typeof turn === 'string') {
    chunks.push(...thirds(turn).map((content) => said({ content })));
    chunks.push(chunk({ delta: {}, finish_reason: 'stop' }, { usage }));
  } else {
    const call = { name: turn.tool, arguments: JSON.stringify(turn.input) };
    chunks.push(said({ tool_calls: [{ index: 0, id, type: 'function', function: call }] }));
    chunks.push(chunk({ delta: {}, finish_reason: 'tool_calls' }, { usage }));
  }
  return chunks.map((one) => `data: ${JSON.stringify(one)}\n\n`).join('') + 'data: [DONE]\n\n';
}

function readResponses({ model, instructions = '', input, tools = [] }) {
  const told = input.filter(({ type, role }) => type === 'message' && role !== 'assistant');
  const results = input.filter(({ type }) => type === 'function_call_output');
  const spaces = tools.filter((tool) => tool.tools);
  return {
    model,
    texts: [instructions, ...spaces.map(textOfSpace), ...told.map(({ content }) => textOf(content))],
    results: results.map(({ output }) => textOf(output)),
    tools: byName(tools.flatMap((tool) => tool.tools ?? [tool]), 'parameters'),
  };
}

function textOfSpace({ description }) {
  return description ?? '';
}

function writeResponses(turn, id) {
  const content = [{ type: 'output_text', text: turn }];
  const item =
    typeof turn === 'string'
      ? { type: 'message', id: 'msg_1', role: 'assistant', content }
      : {
          type: 'function_call',
          id: `item_${id}`,
          call_id: id,
          namespace: turn.namespace,
          name: turn.tool,
          arguments: JSON.stringify(turn.input),
        };
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  return events([
    { type: 'response.created', response: { id: 'resp_1' } },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response: { id: 'resp_1', usage } },
  ]);
}

function readMessages({ model, system = [], messages, tools = [] }) {
  const blocks = ({ content }) => (typeof content === 'string' ? [{ text: content }] : content);
  const heard = messages.filter(({ role }) => role !== 'assistant').flatMap(blocks);
  const results = heard.filter(({ type }) => type === 'tool_result');
  return {
    model,
    texts: [textOf(system), ...heard.map(({ text }) => text ?? '')],
    results: results.map(({ content = '' }) => textOf(content)),
    tools: byName(tools, 'input_schema'),
  };
}

function writeMessages(turn, id) {
  const usage = { input_tokens: 1, output_tokens: 1 };
  const about = { id: 'msg_1', type: 'message', role: 'assistant', model: 'scripted', content: [] };
  const isText = typeof turn === 'string';
  const block = isText ? { type: 'text', text: '' } : { type: 'tool_use', id, name: turn.tool, input: {} };
  const deltas = isText
    ? thirds(turn).map((text) => ({ type: 'text_delta', text }))
    : [{ type: 'input_json_delta', partial_json: JSON.stringify(turn.input) }];
  const ending = { stop_reason: isText ? 'end_turn' : 'tool_use', stop_sequence: null };
  return events([
    { type: 'message_start', message: { ...about, stop_reason: null, stop_sequence: null, usage } },
    { type: 'content_block_start', index: 0, content_block: block },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index: 0, delta })),
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: ending, usage },
    { type: 'message_stop' },
  ]);
}

function readContents(model, { contents, systemInstruction, tools = [] }) {
  const heard = contents.filter(({ role }) => role !== 'model').flatMap(({ parts }) => parts);
  const results = heard.map((part) => part.functionResponse?.response).filter(Boolean);
  return {
    model,
    texts: [textOf(systemInstruction?.parts ?? ''), ...heard.map(({ text }) => text ?? '')],
    results: results.map(({ output, error }) => output ?? error ?? ''),
    tools: byName(tools.flatMap((tool) => tool.functionDeclarations ?? []), 'parametersJsonSchema'),
  };
}

function writeContents(turn, id) {
  const usageMetadata = { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 };
  const isText = typeof turn === 'string';
  const parts = isText
    ? thirds(turn).map((text) => ({ text }))
    : [{ functionCall: { id, name: turn.tool, args: turn.input } }];
  const chunk = (part, more) => ({ candidates: [{ index: 0, content: { role: 'model', parts: [part] }, ...more }] });
  const last = { ...chunk({ text: '' }, { finishReason: 'STOP' }), usageMetadata };
  return [...parts.map((part) => chunk(part)), last].map((one) => `data: ${JSON.stringify(one)}\n\n`).join('');
}

function events(list) {
  return list.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join('');
}
