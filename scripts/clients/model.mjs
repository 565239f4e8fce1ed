// A model that says what was prepared: the OpenAI-compatible API, streamed, on loopback.
//
// A model's name picks a script, a list of turns; how often the assistant has spoken in the
// conversation says which turn is next, so nothing is remembered between requests and a repeated
// request gets the same answer. A turn is text, or `{tool, input}`; a function is given the texts
// of the tool results so far and answers either.

import { createServer } from 'node:http';

export async function startModel(scripts) {
  const requests = [];
  const server = createServer((request, response) => {
    answer(request, scripts, requests).then(
      (chunks) => stream(response, chunks),
      (fault) => {
        response.writeHead(400, { 'Content-Type': 'application/json' });
        response.end(JSON.stringify({ error: { message: fault.message } }));
      },
    );
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${server.address().port}/v1`, scripts, requests, stop };
}

async function answer(request, scripts, requests) {
  if (request.method !== 'POST' || request.url !== '/v1/chat/completions') {
    throw new Error(`${request.method} ${request.url} is not scripted`);
  }
  let body = '';
  for await (const part of request) body += part;
  const asked = JSON.parse(body);
  requests.push(asked);
  const script = scripts[asked.model];
  if (!script) throw new Error(`no script for model ${asked.model}`);
  // Without tools it is asked for a title of the conversation, or a summary.
  if (!asked.tools?.length) return [{ content: 'A title' }];
  const spoken = asked.messages.filter((message) => message.role === 'assistant').length;
  let turn = script[spoken];
  if (turn === undefined) throw new Error(`the script of ${asked.model} has ${script.length} turns`);
  if (typeof turn === 'function') turn = turn(toolResults(asked.messages));
  if (typeof turn === 'string') return pieces(turn);
  return [toolCall(`call_${spoken}`, toolNamed(asked.tools, turn.tool), turn.input)];
}

function toolResults(messages) {
  const texts = messages.filter((message) => message.role === 'tool').map(({ content }) => content);
  return texts.map((text) => (typeof text === 'string' ? text : text.map((part) => part.text).join('')));
}

function toolNamed(tools, wanted) {
  const names = tools.map((tool) => tool.function.name);
  if (!names.includes(wanted)) throw new Error(`no tool ${wanted} among ${names.join(', ')}`);
  return wanted;
}

// In three, so that whoever reads them has to put them together.
function pieces(text) {
  const third = Math.ceil(text.length / 3);
  return [0, 1, 2].map((index) => ({ content: text.slice(index * third, (index + 1) * third) }));
}

function toolCall(id, name, input) {
  const call = { index: 0, id, type: 'function', function: { name, arguments: JSON.stringify(input) } };
  return { tool_calls: [call] };
}

function stream(response, deltas) {
  response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  const base = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 0, model: 'scripted' };
  const send = (choice, more) =>
    response.write(`data: ${JSON.stringify({ ...base, choices: [{ index: 0, ...choice }], ...more })}\n\n`);
  for (const delta of deltas) send({ delta: { role: 'assistant', ...delta }, finish_reason: null });
  const reason = deltas.some((delta) => delta.tool_calls) ? 'tool_calls' : 'stop';
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  send({ delta: {}, finish_reason: reason }, { usage });
  response.end('data: [DONE]\n\n');
}
