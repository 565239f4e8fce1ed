// What the checks of the browser lane share: a board with a server of its own, tabs that watch themselves, and a line
// for each check, `ok`, `FAILED` or `skipped` first.
//
// CHROMIUM names the browser, CALLBOARD_BINARY the program, CALLBOARD_WORK a folder for boards, and CALLBOARD_SHOTS,
// if set, a folder for screenshots.

import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const { CALLBOARD_BINARY: binary, CALLBOARD_WORK: work, CALLBOARD_SHOTS: shots } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const THEMES = ['light', 'dark'];
export const WIDTHS = [1280, 390];
// How long a page may take to show something that no rule puts a number on.
export const SOON = 10_000;
// How long a lane may run without the end of a check. A lane that hangs fails; a lane on a slow machine does not.
const SILENCE = 180_000;
const PROTOCOL = '2026-07-28';
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22a', 'wcag22aa', 'best-practice'];

// A home of its own: no settings and no marks of trust of the person who runs the lane.
const home = join(work, 'home');
mkdirSync(home, { recursive: true });
const env = { PATH: process.env.PATH, HOME: home, USER: 'ana', LANG: 'C.UTF-8' };
const identity = ['-c', 'user.name=ana', '-c', 'user.email=ana@example.org'];

export const git = (folder, ...words) =>
  execFileSync('git', [...identity, ...words], { cwd: folder, env, encoding: 'utf8' });

// A board, its folder, and the server that serves it.
export class Board {
  constructor(folder) {
    this.folder = folder;
  }

  // A repository with an empty board, served on a free port.
  static async fresh(name) {
    const board = new Board(join(work, name));
    mkdirSync(board.folder);
    git(board.folder, 'init', '--quiet', '--initial-branch=main');
    git(board.folder, 'commit', '--quiet', '--allow-empty', '-m', 'first');
    board.cli('init', '--prefix', 'TASK');
    await board.serve();
    return board;
  }

  // The board of `callboard demo`, when everything stands. Settings are variables of its environment.
  static async demo(name, settings = {}) {
    const board = new Board(join(work, name));
    board.settings = settings;
    await board.start(['demo', '--pace', '0', '--stay', '--dir', board.folder], work, /the board stands/);
    return board;
  }

  // Runs a command of the board and returns what it prints.
  cli(...words) {
    const ran = spawnSync(binary, words, { cwd: this.folder, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
    if (ran.status !== 0) throw new Error(`callboard ${words[0]} ${words[1]} ended with ${ran.status}: ${ran.stderr}${ran.stdout}`);
    return ran.stdout;
  }

  json(...words) {
    return JSON.parse(this.cli(...words, '--json'));
  }

  // Calls a tool as an actor.
  call(actor, tool, input) {
    return JSON.parse(this.cli('call', tool, JSON.stringify(input), '--toolsets', 'all', '--actor', actor));
  }

  // As `call`, over HTTP in one toolset: many times faster, many at a time, and all in the process of the server.
  async ask(actor, tool, input, toolset = 'graph') {
    const prefix = 'io.modelcontextprotocol';
    const meta = {
      [`${prefix}/protocolVersion`]: PROTOCOL,
      [`${prefix}/clientCapabilities`]: {},
      [`${prefix}/clientInfo`]: { name: 'browser-lane', version: '1' },
    };
    const params = { name: tool, arguments: input, _meta: meta };
    const answer = await fetch(`${this.url}/mcp/${toolset}?actor=${actor}`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        Accept: 'application/json, text/event-stream',
        'MCP-Protocol-Version': PROTOCOL,
        'Mcp-Method': 'tools/call',
        'Mcp-Name': tool,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
    });
    const { result, error } = await answer.json();
    if (error || result.isError) throw new Error(`${actor} ${tool}: ${JSON.stringify(error ?? result.content)}`);
    return result.structuredContent;
  }

  // The id of the task with this title.
  task(title) {
    const { items } = this.json('task', 'list', '--limit', '1000');
    const found = items.find((task) => task.title === title);
    if (!found) throw new Error(`no task is called ${title}`);
    return found.id;
  }

  // The address that signs a browser in, once.
  door() {
    return this.cli('open', '--print').trim();
  }

  // Serves the board, on the port of the last time if there was one.
  async serve() {
    const listen = this.url ? new URL(this.url).host : '127.0.0.1:0';
    await this.start(['serve', '--listen', listen], this.folder, /listens on/);
  }

  async start(words, cwd, stands) {
    const server = spawn(binary, words, { cwd, env: { ...env, ...this.settings }, stdio: ['ignore', 'pipe', 'pipe'] });
    this.server = server;
    running.add(server);
    server.once('exit', () => running.delete(server));
    let [said, complained] = ['', ''];
    server.stderr.on('data', (bytes) => (complained += bytes));
    await new Promise((resolve, reject) => {
      server.once('exit', (code) => reject(new Error(`callboard ${words[0]} ended with ${code}: ${complained}`)));
      server.stdout.on('data', (bytes) => {
        said += bytes;
        if (stands.test(said)) resolve();
      });
    });
    this.url = /http:\/\/[0-9.:]+/.exec(said)[0];
  }

  // Ends the server, and waits until it has ended.
  async stop() {
    const { server } = this;
    if (server.exitCode !== null || server.signalCode !== null) return;
    const ended = new Promise((resolve) => server.once('exit', resolve));
    server.kill('SIGTERM');
    await ended;
  }
}

// A tab that notes errors of its console and requests to other origins.
export class Tab {
  static async open(browser, board, { theme = 'light', width = 1280, script = true, signIn = true, context } = {}) {
    const tab = new Tab();
    tab.board = board;
    tab.name = `${width}-${theme}`;
    tab.own = context ?? (await Tab.context(browser, { theme, width, script }));
    tab.page = await tab.own.newPage();
    tab.broken = [];
    tab.outside = [];
    tab.page.on('console', (message) => {
      const { url } = message.location();
      // A browser asks for this picture by itself, on pages without one.
      if (message.type() !== 'error' || url.endsWith('/favicon.ico')) return;
      tab.broken.push(`${message.text()} (${url})`);
    });
    tab.page.on('pageerror', (error) => tab.broken.push(error.message));
    tab.page.on('request', (request) => {
      if (new URL(request.url()).origin !== board.url) tab.outside.push(request.url());
    });
    if (signIn && !context) await tab.page.goto(board.door());
    return tab;
  }

  // A browser profile of its own; several tabs can share one.
  static context(browser, { theme = 'light', width = 1280, script = true } = {}) {
    return browser.newContext({
      viewport: { width, height: 800 },
      colorScheme: theme,
      javaScriptEnabled: script,
      reducedMotion: 'reduce',
    });
  }

  async goto(path) {
    return this.page.goto(`${this.board.url}${path}`, { timeout: SOON });
  }

  // Whether an element with this text is there before the time is over.
  async shows(text, within = SOON) {
    return this.page.getByText(text).first().waitFor({ state: 'attached', timeout: within }).then(() => true, () => false);
  }

  async lacks(text, within = SOON) {
    const gone = (wanted) => !document.body.textContent.includes(wanted);
    return this.page.waitForFunction(gone, text, { timeout: within }).then(() => true, () => false);
  }

  // Barriers that axe finds, as rule and first place. The evaluation is the debugger's, which no policy of the page
  // holds off. `place` is a selector, for a part of the page.
  async barriers(place) {
    await this.page.evaluate(axe);
    return this.page.evaluate(async ([values, place]) => {
      // Without `resultTypes`, axe also describes every element that passed.
      const asked = { runOnly: { type: 'tag', values }, resultTypes: ['violations'] };
      const { violations } = await window.axe.run(place ?? document, asked);
      return violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 160)}`);
    }, [RULES, place]);
  }

  // By how many pixels the page scrolls sideways.
  async sideways() {
    return this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  }

  async shot(name) {
    if (!shots) return;
    mkdirSync(shots, { recursive: true });
    const file = `${name.replace(/[^A-Za-z0-9]+/g, '-').replace(/^-|-$/g, '') || 'home'}-${this.name}.png`;
    await this.page.screenshot({ path: join(shots, file), fullPage: true });
  }

  close() {
    return this.own.close();
  }
}

// The servers that this process started and that have not ended.
const running = new Set();

// Ends a lane that is silent for too long.
let late;

// Prints how a check ended. `holds` is true, or says what was seen instead.
export function report(name, holds, seen) {
  late?.refresh();
  const words = seen instanceof Error ? seen.stack : JSON.stringify(seen);
  console.log(holds === true ? `ok ${name}` : `FAILED ${name}: ${words ?? JSON.stringify(holds)}`.replace(/\s*\n\s*/g, ' | '));
}

// Runs checks with a browser. Whatever they throw fails, and every server they started is ended.
export async function lane(name, checks) {
  late = setTimeout(() => {
    report(`${name} goes on`, false, `no check ended for ${SILENCE} ms`);
    running.forEach((server) => server.kill('SIGKILL'));
    process.exit(1);
  }, SILENCE);
  let browser;
  try {
    browser = await chromium.launch({
      executablePath: process.env.CHROMIUM,
      args: ['--no-sandbox', '--disable-dev-shm-usage'],
    });
    await checks(browser);
  } catch (error) {
    report(`${name} runs to its end`, false, error);
  } finally {
    await browser?.close();
    const ends = [...running].map((server) => new Promise((resolve) => server.once('exit', resolve)));
    running.forEach((server) => server.kill('SIGTERM'));
    await Promise.all(ends);
    clearTimeout(late);
  }
}
