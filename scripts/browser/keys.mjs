// Keys and confirmations of single pages, on the board of `callboard demo`: the log of a job is searched and followed, arrow
// keys go along the edges of the graph, and a confirmation opens and closes without JavaScript.

import { execFileSync } from 'node:child_process';
import { constants, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Board, SOON, Tab, lane, report } from './board.mjs';

const focused = (tab, value) => tab.page.evaluate(value);
const isOpen = (tab, id) => tab.page.locator(`#${id}`).evaluate((element) => element.matches(':popover-open'));

// More lines than fit on a screen.
const LINES = 80;

// A board whose agent prints lines, and more of them for every line that is written to its pipe.
async function talking() {
  const board = await Board.fresh('talk');
  await board.stop();
  const [script, pipe] = ['talker.sh', 'pipe'].map((name) => join(board.folder, '.callboard', name));
  execFileSync('mkfifo', [pipe]);
  // The agent keeps the pipe open for both directions: it finds no end of file between two lines, and no line is lost.
  const words = ['cat > /dev/null', `exec 3<> ${pipe}`, 'at=1', 'while :; do', `  seq $at $((at + ${LINES - 1}))`, `  at=$((at + ${LINES}))`];
  words.push('  read -r word <&3', '  [ "$word" = more ] || break', 'done', 'echo x > x.txt', "echo '<complete/>'");
  writeFileSync(script, `${words.join('\n')}\n`);
  const executor = `[executors.talker]\nkind = "command"\ncommand = ["sh", "${script}"]\n`;
  writeFileSync(join(board.folder, '.callboard', 'config.local.toml'), `relay.sandbox = "executor"\n\n${executor}`);
  await board.serve();
  const task = board.json('task', 'add', 'Talk').id;
  const { job } = board.json('run', task, '--agent', 'talker');
  // Without a reader the write fails at once; it would block this process.
  const flag = constants.O_WRONLY | constants.O_NONBLOCK;
  return { board, job, say: (word) => writeFileSync(pipe, `${word}\n`, { flag }) };
}

async function follows(browser) {
  const { board, job, say } = await talking();
  const tab = await Tab.open(browser, board);
  const { page } = tab;
  const until = (test, value) => page.waitForFunction(test, value, { timeout: SOON }).then(() => true, () => false);
  const prints = (line) => until((last) => document.querySelector('#log')?.textContent.includes(last), `${line}`);
  const isAtEnd = () => document.getElementById('log-end').getBoundingClientRect().bottom <= innerHeight;
  await tab.goto(`/jobs/${job}`);
  await prints(LINES);
  await page.keyboard.press('f');
  await page.waitForURL(/follow=1/, { timeout: SOON });
  say('more');
  const came = await prints(2 * LINES);
  report('a log that is followed stays at its end', came && (await until(isAtEnd)), { came });
  const said = await page.locator('main > [role=status].hidden').textContent({ timeout: SOON });
  report('how many lines came is said', /^\d+ new lines?$/.test(said), said);
  await page.evaluate(() => scrollTo(0, 0));
  await until(() => scrollY === 0);
  say('more');
  const more = await prints(3 * LINES);
  const place = await page.evaluate(() => scrollY);
  report('a reader who scrolled away is left there', more && place === 0, { more, place });
  say('end');
  report('the console has no error while a log is followed', tab.broken.length === 0, tab.broken);
  await tab.close();
}

await lane('keys', async (browser) => {
  const board = await Board.demo('keys');
  const { id: job } = board.json('job', 'list').works.find((one) => one.state === 'RUNNING');
  const tab = await Tab.open(browser, board);
  await tab.goto(`/jobs/${job}`);
  await tab.page.keyboard.press('/');
  const name = await focused(tab, () => document.activeElement.name);
  report('on the page of a job / goes to the field that finds lines', name === 'find', name);
  await tab.page.evaluate(() => document.activeElement.blur());
  await tab.page.keyboard.press('Control+k');
  report('Ctrl K opens the palette', await isOpen(tab, 'palette'), tab.page.url());
  await tab.page.keyboard.press('Escape');

  // A time that is left counts down while the page is open.
  const counts = () => tab.page.locator('#question time[data-left]');
  await counts().evaluate((time) => (time.dateTime = new Date(Date.now() + 95_000).toISOString()));
  const counted = await tab.page.waitForFunction(() => document.querySelector('#question time[data-left]').textContent === '1 min', null, { timeout: SOON })
    .then(() => true, () => false);
  report('the time for an answer counts down', counted, await counts().textContent());

  // The palette has the verbs of the page, agents and jobs. A verb presses the button of the page.
  const palette = (rows) => tab.page.locator(`#palette ${rows}`);
  const search = async (words) => {
    await tab.page.keyboard.press('Control+k');
    await tab.page.keyboard.type(words);
  };
  await tab.goto('/jobs');
  await tab.page.keyboard.press('f');
  await tab.page.keyboard.type('greet');
  await tab.page.keyboard.press('Enter');
  const filtered = await tab.page.waitForURL(/[/]jobs[?]q=greet/, { timeout: SOON }).then(() => true, () => false);
  report('f goes to the filter of jobs', filtered, tab.page.url());
  await tab.goto('/audit');
  await tab.page.keyboard.press('/');
  const newest = await palette('[data-found] a[href^="/tasks/"]').first().waitFor({ timeout: SOON }).then(() => true, () => false);
  const verbs = await palette('[data-here] button').allTextContents();
  report('the palette begins with the newest tasks and a new one', newest && verbs.some((verb) => verb.includes('New task')), { newest, verbs });
  await tab.goto('/board');
  await tab.page.keyboard.press('/');
  await tab.page.keyboard.type('greet');
  const letters = await palette('input').inputValue();
  report('no letter that follows / at once is lost', letters === 'greet', letters);
  await tab.page.keyboard.press('Escape');

  await tab.goto(`/tasks/${board.task('Greet in three languages')}/review`);
  await search('send');
  await palette('[data-here] button >> text=Send back').first().waitFor({ timeout: SOON });
  await tab.page.keyboard.press('Enter');
  const verb = await tab.page.locator('details.verb[open] > summary').textContent({ timeout: SOON });
  report('a verb of the palette presses the button of the page', /Send back/.test(verb) && !(await isOpen(tab, 'palette')), verb);
  await tab.page.keyboard.press('Escape');
  await tab.page.evaluate(() => document.activeElement.blur());
  for (const [words, href] of [['lead', '/agents/lead'], [job.slice(-6), `/jobs/${job}`]]) {
    await search(words);
    const link = palette(`[data-found] a[href="${href}"]`);
    const found = await link.waitFor({ timeout: SOON }).then(() => true, () => false);
    report(`the palette finds ${href.split('/')[1]}`, found, href);
    await tab.page.keyboard.press('Escape');
  }

  // The form of a new task looks for tasks much like it while its title is written.
  await tab.goto('/tasks/new');
  await tab.page.locator('#title').fill('Greet in three languages');
  const alike = await tab.page.locator('#outlook', { hasText: 'Much alike' }).waitFor({ timeout: SOON }).then(() => true, () => false);
  const typed = await tab.page.locator('#title').inputValue();
  report('a new task is compared while its title is written', alike && typed === 'Greet in three languages', { alike, typed });

  await tab.goto('/graph');
  const nodes = () => tab.page.evaluate(() => document.activeElement.closest('foreignObject')?.id ?? '');
  await tab.page.locator('.graph-box').focus();
  const way = [];
  for (const key of ['ArrowDown', 'ArrowRight', 'ArrowLeft']) {
    await tab.page.keyboard.press(key);
    way.push(await nodes());
  }
  const [first, next, back] = way;
  const joined = await tab.page.evaluate(
    ([from, to]) => Boolean(to) && document.getElementById(from).dataset.next.split(' ').includes(to),
    [first, next],
  );
  const returned = await tab.page.evaluate(
    ([from, to]) => Boolean(to) && document.getElementById(from).dataset.deps.split(' ').includes(to),
    [next, back],
  );
  report('arrow keys go along an edge and back', joined && returned, way);
  await tab.page.keyboard.press('t');
  const listed = await tab.page.waitForURL(/as=list/, { timeout: SOON }).then(() => true, () => false);
  report('t shows the graph as a list', listed, tab.page.url());
  // The question of an agent is answered on the page of its task.
  const asks = `/tasks/${board.task('Publish version 1.0')}`;
  await tab.goto(asks);
  const shown = await tab.page.locator('#task .note', { hasText: 'git push' }).locator('time[data-left]').count();
  await tab.page.keyboard.press('y');
  const allowed = await tab.page.locator('[role=status]', { hasText: 'Allowed once' }).waitFor({ timeout: SOON }).then(() => true, () => false);
  report('a question is answered on the page of its task', shown === 1 && allowed && /[/]tasks[/]/.test(tab.page.url()), { shown, url: tab.page.url() });
  report('the console has no error', tab.broken.length === 0, tab.broken);
  await tab.close();

  const plain = await Tab.open(browser, board, { script: false });
  await plain.goto('/agents/lead');
  await plain.page.click('button[popovertarget=palette]');
  await plain.page.locator('#palette input').fill('lead');
  await plain.page.locator('#palette input').press('Enter');
  await plain.page.waitForURL(/\/search/, { timeout: SOON });
  const links = await plain.page.locator('main .palette a').evaluateAll((all) => all.map((link) => link.getAttribute('href')));
  const both = links.filter((href) => href === '/agents/lead').length;
  report('without JavaScript the search finds the agent and leads back', both === 2, links);
  await plain.goto('/agents/lead');
  await plain.page.click('button[popovertarget=remove] >> nth=0');
  const opened = await plain.page.getByText('stay in the record').isVisible();
  await plain.page.click('text=Keep as it is');
  const closed = !(await plain.page.getByText('stay in the record').isVisible());
  report('a confirmation opens and closes without JavaScript', opened && closed, { opened, closed });
  await plain.page.click('button[popovertarget=remove] >> nth=0');
  await plain.page.click('#remove form button >> nth=0');
  const left = board.json('agent', 'list').items.map((agent) => agent.id);
  report('a confirmation does what it says', !left.includes('lead'), left);
  await plain.close();

  await follows(browser);
});
