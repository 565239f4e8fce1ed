// Pages of a board that has very much to show: 100,000 tasks, a log of 100,000 lines, and a review of 400 files. Each page
// shows its first content in time and has a bounded number of elements.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Board, SOON, Tab, lane, report } from './board.mjs';

const TASKS = 100_000;
const LINES = 100_000;
const FILES = 400;
// 12 lines and a head in each of the files, so the diff adds 5,200 lines.
const FILE_LINES = 13;

// CALLBOARD_TIMES prints the figures. The goal is one second for a release build on an idle machine; callboard bench board measures that. The lane runs a
// debug build beside other work, which takes many times as long, so the bound here only finds work without a bound.
const FIRST_CONTENT = Number(process.env.CALLBOARD_FIRST_CONTENT_MS ?? 8_000);
const TRIES = 3;

// A page is sent packed, in at most so many bytes. Its HTML is longer, and has a bound too: a browser reads all of it. The
// 50 cards a column of the board take about 0.9 KiB each.
const SENT = 100 * 1024;
const BYTES = 100 * 1024;
const BOARD_BYTES = 208 * 1024;
const DIFF_BYTES = 512 * 1024;

// The most elements that each page may have, and the most bytes of HTML where BYTES does not hold.
const PAGES = [
  ['/', 4_000],
  ['/board', 8_000, BOARD_BYTES],
  ['/board?q=parser', 8_000, BOARD_BYTES],
  ['/board?q=no-title-has-this', 1_000],
  ['/board?group=epic', 10_000, BOARD_BYTES],
  ['/search?q=parser', 1_000],
  ['/tasks/{Foundation 0}', 4_000],
  ['/tasks/{Release 0}', 4_000],
  ['/graph', 4_000],
  ['/graph?around={Foundation 0}', 4_000],
  ['/agents', 2_000],
  ['/audit', 4_000],
  ['/audit?q=parser', 4_000],
  ['/stats', 2_000],
  ['/jobs', 2_000],
  ['/jobs/{job}', 4_000],
  ['/jobs/{job}?find=line%2099999', 4_000],
  ['/tasks/{Print very much}', 4_000],
  ['/tasks/{Print very much}/review', 16_000, DIFF_BYTES],
  ['/tasks/{Print very much}/review?from=100', 16_000, DIFF_BYTES],
];

const AGENT = `cat > /dev/null
set -e
mkdir -p parts
for part in $(seq ${FILES}); do seq -f "let part_$part = %g;" ${FILE_LINES} > parts/part_$part.rs; done
git add -A
git -c user.name=printer -c user.email=printer@example.org commit -q -m 'Add parts'
seq -f 'line %.0f of a log that nobody reads to its end' ${LINES}
echo '<complete/>'
`;

// The first paint with content, as the browser measured it from the start of the navigation.
const firstContent = (page) =>
  page.evaluate(() => new Promise((resolve) => {
    const seen = (entries) => {
      const first = entries.find((entry) => entry.name === 'first-contentful-paint');
      if (first) resolve(Math.round(first.startTime));
    };
    new PerformanceObserver((list) => seen(list.getEntries())).observe({ type: 'paint', buffered: true });
  }));

await lane('caps', async (browser) => {
  const board = await Board.fresh('caps');
  await board.stop();
  const script = join(board.folder, '.callboard', 'agent.sh');
  writeFileSync(script, AGENT);
  const words = JSON.stringify(['sh', script]);
  writeFileSync(join(board.folder, '.callboard', 'config.local.toml'),
    `[executors.printer]\ncommand = ${words}\nwrite_command = ${words}\n`);
  const titles = new Map();
  const { id } = board.json('task', 'add', 'Print very much');
  titles.set('Print very much', id);
  board.cli('run', id, '--agent', 'printer', '--here');
  const job = board.json('job', 'list').works.find(({ role }) => role === 'worker');
  titles.set('job', job.id);
  const began = performance.now();
  board.cli('bench-fill', String(TASKS));
  const filled = Math.round((performance.now() - began) / 1000);
  await board.serve();
  for (const title of ['Foundation 0', 'Release 0']) {
    const [found] = board.json('task', 'list', '--search', title, '--limit', '1').items;
    titles.set(title, found.id);
  }

  const tab = await Tab.open(browser, board, {});
  const figures = [];
  for (const [name, most, bytesMost = BYTES] of PAGES) {
    const path = name.replace(/{(.*?)}/, (_, title) => titles.get(title));
    const times = [];
    let [nodes, status, bytes, sent] = [];
    // A machine that is busy with other things may be slow once or twice.
    for (let turn = 0; turn < TRIES; turn += 1) {
      const answer = await tab.page.goto(`${board.url}${path}`, { timeout: 60_000 });
      status = answer.status();
      bytes = (await answer.body()).length;
      sent = await tab.page.evaluate(() => performance.getEntriesByType('navigation')[0].encodedBodySize);
      times.push(await firstContent(tab.page));
      nodes = await tab.page.evaluate(() => document.querySelectorAll('*').length);
      if (times.at(-1) <= FIRST_CONTENT) break;
    }
    const best = Math.min(...times);
    figures.push(`${name} ${best} ms, ${nodes} elements, ${Math.round(bytes / 1024)} KiB, sent in ${Math.round(sent / 1024)} KiB`);
    report(`${name} shows its first content in time`, status === 200 && best <= FIRST_CONTENT, { status, times });
    report(`${name} has at most ${most} elements in ${bytesMost} bytes`, nodes <= most && bytes <= bytesMost, { nodes, bytes });
    report(`${name} is sent in at most ${SENT} bytes`, sent > 0 && sent <= SENT && sent < bytes, { sent, bytes });
    await tab.shot(name);
  }
  if (process.env.CALLBOARD_TIMES) console.log(`filled in ${filled} s\n${figures.join('\n')}`);
  report('the console has no error', tab.broken.length === 0, tab.broken);
  report('nothing is asked of other origins', tab.outside.length === 0, tab.outside);

  // A long change comes in parts: the reader who goes on gets all of it.
  await tab.goto(`/tasks/${titles.get('Print very much')}/review`);
  for (let turn = 0; turn < 40; turn += 1) {
    const [left, count] = await tab.page.evaluate(() => {
      const link = document.querySelector('[data-next]');
      link?.scrollIntoView();
      return [Boolean(link), document.querySelectorAll('.file').length];
    });
    if (!left) break;
    const grew = (before) => document.querySelectorAll('.file').length > before || !document.querySelector('[data-next]');
    await tab.page.waitForFunction(grew, count, { timeout: 60_000 });
  }
  const here = await tab.page.evaluate(() => ({
    files: document.querySelectorAll('.file').length,
    twice: document.querySelectorAll('.file').length - new Set([...document.querySelectorAll('.file')].map((file) => file.id)).size,
  }));
  report('all files of a long change come one after the other', here.files === FILES && here.twice === 0, here);
  const led = await tab.page.evaluate(() => {
    window.stayed = true;
    const last = [...document.querySelectorAll('.tree a')].at(-1);
    last.click();
    return last.hash;
  });
  await tab.page.waitForFunction((hash) => location.hash === hash, led, { timeout: SOON });
  const stayed = await tab.page.evaluate(() => window.stayed && !new URLSearchParams(location.search).has('file'));
  report('the tree leads to a file that came later, on this page', stayed, tab.page.url());

  // The limits are said.
  await tab.goto(`/jobs/${titles.get('job')}`);
  const shown = await tab.page.locator('main').textContent();
  report('the log says how much of it is shown', /100,?0\d\d/.test(shown), shown.slice(0, 2_000));
  await tab.goto('/board');
  const counts = await tab.page.locator('main').textContent();
  report('the board says that there are more cards', /more/.test(counts), counts.slice(0, 2_000));
});
