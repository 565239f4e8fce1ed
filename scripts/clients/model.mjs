// A model that says what was prepared, streamed, on loopback: OpenAI's API of chat completions and
// the one of responses.
//
// A model's name picks a script, a list of turns; how often the assistant has spoken in the
// conversation says which turn is next, so nothing is remembered between requests and a repeated
// request gets the same answer. A turn is text, or `{tool, input, namespace?}`; a function is given
// the texts of the tool results so far and answers either.

import { createServer } from 'node:http';

const paths = {
  '/v1/chat/completions': { read: readChat, write: writeChat },
  '/v1/responses': { read: readResponses, write: writeResponses },
};

export async function startModel(scripts) {
  const server = createServer(async (request, response) => {
    try {
      const api = request.method === 'POST' && paths[request.url];
      if (!api) throw new Error(`${request.method} ${request.url} is not scripted`);
      let body = '';
      for await (const part of request) body += part;
      const asked = api.read(JSON.parse(body));
      const turn = next(scripts, asked);
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      response.end(api.write(turn, `call_${asked.spoken}`));
    } catch (fault) {
      response.writeHead(400, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify({ error: { message: fault.message } }));
    }
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${server.address().port}/v1`, names: Object.keys(scripts), stop };
}

function next(scripts, { model, spoken, results, tools }) {
  const script = scripts[model];
  if (!script) throw new Error(`no script for model ${model}`);
  // Without tools it is asked for a title of the conversation, or a summary.
  if (tools.length === 0) return 'A title';
  let turn = script[spoken];
  if (turn === undefined) throw new Error(`the script of ${model} has ${script.length} turns`);
  if (typeof turn === 'function') turn = turn(results);
  if (turn.tool && !tools.includes(turn.tool)) {
    throw new Error(`no tool ${turn.tool} among ${tools.join(', ')}`);
  }
  return turn;
}

function textOf(content) {
  return typeof content === 'string' ? content : content.map((part) => part.text).join('');
}

function readChat({ model, messages, tools = [] }) {
  return {
    model,
    spoken: messages.filter(({ role }) => role === 'assistant').length,
    results: messages.filter(({ role }) => role === 'tool').map(({ content }) => textOf(content)),
    tools: tools.map((tool) => tool.function.name),
  };
}

function writeChat(turn, id) {
  const base = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 0, model: 'scripted' };
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  const chunk = (choice, more) => ({ ...base, choices: [{ index: 0, ...choice }], ...more });
  const said = (delta) => chunk({ delta: { role: 'assistant', ...delta }, finish_reason: null });
  const chunks = [];
  if (typeof turn === 'string') {
    // In three, so that whoever reads them has to put them together.
    const third = Math.ceil(turn.length / 3);
    for (const at of [0, third, 2 * third]) chunks.push(said({ content: turn.slice(at, at + third) }));
    chunks.push(chunk({ delta: {}, finish_reason: 'stop' }, { usage }));
  } else {
    const call = { name: turn.tool, arguments: JSON.stringify(turn.input) };
    chunks.push(said({ tool_calls: [{ index: 0, id, type: 'function', function: call }] }));
    chunks.push(chunk({ delta: {}, finish_reason: 'tool_calls' }, { usage }));
  }
  return chunks.map((one) => `data: ${JSON.stringify(one)}\n\n`).join('') + 'data: [DONE]\n\n';
}

function readResponses({ model, input, tools = [] }) {
  const said = ({ type, role }) => type === 'function_call' || role === 'assistant';
  const results = input.filter(({ type }) => type === 'function_call_output');
  return {
    model,
    spoken: input.filter(said).length,
    results: results.map(({ output }) => textOf(output)),
    tools: tools.flatMap((tool) => tool.tools ?? [tool]).map(({ name }) => name),
  };
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
  const events = [
    { type: 'response.created', response: { id: 'resp_1' } },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response: { id: 'resp_1', usage } },
  ];
  return events.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join('');
}
