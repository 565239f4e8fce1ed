// What an idle caller costs a server: memory and descriptors for each open session, followed stream and waiting call.
//
//   node scripts/soak.d/sessions.mjs PATH_TO_CALLBOARD_BINARY
//
// Prints a table. The server is one of its own, on SQLite in a temporary folder.

import { mkdtempSync, rmSync } from 'node:fs';
import { setMaxListeners } from 'node:events';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from './client.mjs';
import { Server } from './server.mjs';

const SESSIONS = 500;
const STREAMS = 200;
const WAITS = 200;
// Long enough that the memory of the calls themselves is given back or reused.
const SETTLE_MS = 3_000;

const folder = mkdtempSync(join(tmpdir(), 'sessions-'));
const server = new Server(resolve(process.argv[2]), folder, { leaseS: 60 });
const rows = [];
let before;
async function row(what, count) {
  await delay(SETTLE_MS);
  const { anonymous, descriptors, threads } = await server.sample();
  const each = before && count ? [`${((anonymous - before.anonymous) / count / 1e3).toFixed(1)} kB`, ((descriptors - before.descriptors) / count).toFixed(1)] : ['', ''];
  rows.push([what, `${(anonymous / 1e6).toFixed(1)} MB`, descriptors, threads, ...each]);
  before = { anonymous, descriptors };
}

const over = new AbortController();
setMaxListeners(STREAMS, over.signal);
const clients = [];
try {
  await server.start();
  const first = new Client(server.url, 'agent:first', 'graph');
  clients.push(first);
  const { id } = await first.call('create', { title: 'A task' });
  await first.call('list', {});
  await row('a server after its first calls');
  for (let n = 0; n < SESSIONS; n += 1) {
    const client = new Client(server.url, `agent:s${n}`, 'graph');
    await client.open();
    client.connections.destroy();
    clients.push(client);
  }
  await row(`${SESSIONS} sessions more, without connections`, SESSIONS);
  const streams = Array.from({ length: STREAMS }, () => first.follow(0, () => {}, over.signal));
  await row(`${STREAMS} streams of /events more`, STREAMS);
  const waits = Array.from({ length: WAITS }, (_, n) => {
    const client = new Client(server.url, `agent:w${n}`, 'board', { sessions: false });
    clients.push(client);
    return client.call('tasks_wait', { task_id: id, wait_for_status: ['DONE'], timeout_seconds: 600 });
  });
  await row(`${WAITS} waits more`, WAITS);
  await first.call('transition', { id, to: 'done' });
  await Promise.all(waits);
  over.abort();
  await Promise.all(streams);
  for (const client of clients) await client.close();
  await row('all of them gone');
} finally {
  over.abort();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}
console.log('| state | anonymous memory | descriptors | threads | memory for each | descriptors for each |\n|---|---|---|---|---|---|');
for (const cells of rows) console.log(`| ${cells.join(' | ')} |`);
