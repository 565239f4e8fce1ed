// One HTTP client of a server: MCP calls in a session of its own (revision 2025-11-25) or without one (2026-07-28), pages,
// and the stream of events. Each client has its own connections, as agents on their own have.

import http from 'node:http';

const SESSIONS = '2025-11-25';
const NO_SESSIONS = '2026-07-28';
const META = 'io.modelcontextprotocol';
// Longer than any wait that the agents ask for.
const CALL_MS_MAX = 90_000;

// The words of a tool that refused, with its code.
export class Refused extends Error {
  constructor(code, words) {
    super(`${code}: ${words}`);
    this.code = code;
  }
}

// The server broke its contract: no answer, no JSON, a 5xx, or a protocol error.
export class Broken extends Error {}

export class Client {
  constructor(url, actor, toolset, { sessions = true } = {}) {
    Object.assign(this, { url, actor, toolset, sessions, number: 0 });
    this.connections = new http.Agent({ keepAlive: true, maxSockets: 4 });
  }

  request(method, path, { headers = {}, body } = {}) {
    return new Promise((resolve, reject) => {
      const asked = http.request(`${this.url}${path}`, { method, headers, agent: this.connections, timeout: CALL_MS_MAX });
      asked.on('timeout', () => asked.destroy(new Broken(`${method} ${path}: no answer in ${CALL_MS_MAX} ms`)));
      asked.on('error', (error) => reject(error instanceof Broken ? error : new Broken(`${method} ${path}: ${error.message}`)));
      asked.on('response', (answer) => {
        answer.setEncoding('utf8');
        let text = '';
        answer.on('data', (part) => (text += part));
        answer.on('error', (error) => reject(new Broken(`${method} ${path}: ${error.message}`)));
        answer.on('end', () => {
          if (answer.statusCode >= 500) reject(new Broken(`${method} ${path}: ${answer.statusCode} ${text.slice(0, 200)}`));
          else resolve({ status: answer.statusCode, headers: answer.headers, text });
        });
      });
      asked.end(body);
    });
  }

  async message(message, extra = {}) {
    const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', ...extra };
    if (this.session) headers['Mcp-Session-Id'] = this.session;
    const path = `/mcp/${this.toolset}?actor=${this.actor}`;
    const answer = await this.request('POST', path, { headers, body: JSON.stringify({ jsonrpc: '2.0', ...message }) });
    if (message.id === undefined) return answer;
    // An answer is one JSON document, or a stream whose last event is the answer.
    const text = answer.headers['content-type']?.startsWith('text/event-stream')
      ? answer.text.split('\n').filter((line) => line.startsWith('data: {')).at(-1)?.slice(6)
      : answer.text;
    try {
      return { ...answer, body: JSON.parse(text) };
    } catch {
      throw new Broken(`POST ${path}: ${answer.status} is no JSON: ${answer.text.slice(0, 200)}`);
    }
  }

  async open() {
    const params = { protocolVersion: SESSIONS, capabilities: {}, clientInfo: { name: 'soak', version: '1' } };
    const { headers, body } = await this.message({ id: 0, method: 'initialize', params });
    if (!headers['mcp-session-id']) throw new Broken(`initialize: no session: ${JSON.stringify(body).slice(0, 200)}`);
    this.session = headers['mcp-session-id'];
    await this.message({ method: 'notifications/initialized' }, { 'MCP-Protocol-Version': SESSIONS });
  }

  // Calls a tool; a retry key makes a repeated call harmless.
  async call(name, input, key) {
    if (this.sessions && !this.session) await this.open();
    const version = this.sessions ? SESSIONS : NO_SESSIONS;
    const headers = { 'MCP-Protocol-Version': version };
    const meta = key ? { 'callboard/idempotencyKey': key } : {};
    if (!this.sessions) {
      Object.assign(headers, { 'Mcp-Method': 'tools/call', 'Mcp-Name': name });
      meta[`${META}/protocolVersion`] = version;
      meta[`${META}/clientCapabilities`] = {};
      meta[`${META}/clientInfo`] = { name: 'soak', version: '1' };
    }
    this.number += 1;
    const params = { name, arguments: input, _meta: meta };
    const { body } = await this.message({ id: this.number, method: 'tools/call', params }, headers);
    if (body.error) throw new Broken(`${name}: ${JSON.stringify(body.error).slice(0, 300)}`);
    const { structuredContent: data, content, isError } = body.result;
    const words = content?.[0]?.text ?? '';
    if (isError) throw new Refused(code(data, words), words.slice(0, 300));
    if (data?.success === false) throw new Refused(data.code, data.message);
    return data;
  }

  // Ends the session and its connections. A client that stops without a word keeps its session open on the server.
  async close({ silent = false } = {}) {
    if (this.session && !silent) {
      await this.request('DELETE', `/mcp/${this.toolset}?actor=${this.actor}`, { headers: { 'Mcp-Session-Id': this.session } });
    }
    this.session = undefined;
    this.connections.destroy();
  }

  async page(path) {
    const { status, text } = await this.request('GET', path, {});
    if (status >= 400) throw new Broken(`GET ${path}: ${status} ${text.slice(0, 200)}`);
    return text;
  }

  // Follows /events after a number until `heard` says that it is enough, the stream ends or `signal` stops it.
  follow(after, heard, signal) {
    return new Promise((resolve, reject) => {
      const end = () => resolve();
      const asked = http.get(`${this.url}/events?after=${after}`, { agent: false });
      signal?.addEventListener('abort', () => asked.destroy(), { once: true });
      asked.on('error', (error) => (signal?.aborted || asked.enough ? end() : reject(new Broken(`/events: ${error.message}`))));
      asked.on('response', (answer) => {
        if (answer.statusCode !== 200) reject(new Broken(`/events: ${answer.statusCode}`));
        answer.setEncoding('utf8');
        let rest = '';
        answer.on('error', end);
        answer.on('close', end);
        answer.on('data', (part) => {
          const lines = (rest + part).split('\n');
          rest = lines.pop();
          for (const line of lines) {
            if (!line.startsWith('data: {') || asked.enough) continue;
            asked.enough = heard(JSON.parse(line.slice(6))) === true;
          }
          if (asked.enough) asked.destroy();
        });
      });
    });
  }
}

// Every toolset has its own place for the code of a refusal.
function code(data, words) {
  const found = data?.code ?? data?.error?.code ?? /\b([A-Z][A-Z_]{4,}|[a-z]+\.[a-z_]+)\b/.exec(words)?.[1];
  return found ?? 'UNKNOWN';
}
