// A review by keyboard: a comment on a line, one message to the agent, an approval that another tab sees, and two people
// who decide at a time. On the board of `callboard demo`, whose task in review changes several files.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Board, SOON, Tab, git, lane, report } from './board.mjs';

const TITLE = 'Greet in three languages';
const WORDS = 'Name the file of each language here.';
const ASK = 'Please look at my comment.';
// Text that a wrong quotation anywhere on the way would change.
const EXACT = 'Say "seconds_max" & <b>why</b> 60;\nsee `clock.rs`, über 1\\2.';
const CODE = '    let seconds = 60; // <half>';
// More files than a page shows at once.
const FILES = 150;

// A board whose agent keeps each prompt, and commits many files.
async function writing() {
  const board = await Board.fresh('prompt');
  await board.stop();
  const [script, prompts] = ['writer.sh', 'prompts'].map((name) => join(board.folder, '.callboard', name));
  mkdirSync(prompts);
  const words = [`n=$(ls '${prompts}' | wc -l)`, `cat > '${prompts}'/$n`, `cat > clock.rs <<'END'`, 'fn clock() {', CODE, '}', 'END'];
  words.push(`for f in $(seq 101 ${100 + FILES}); do echo "$f $n" > file-$f.txt; done`, 'git add -A && git commit -qm work', "echo '<complete/>'");
  writeFileSync(script, `${words.join('\n')}\n`);
  const settings = `relay.sandbox = "executor"\ngeneral.auto_review = false\n\n[executors.writer]\nkind = "command"\ncommand = ["sh", "${script}"]\n`;
  writeFileSync(join(board.folder, '.callboard', 'config.local.toml'), settings);
  await board.serve();
  const { id } = board.json('task', 'add', 'Write a clock');
  const run = () => board.cli('run', id, '--agent', 'writer', '--wait');
  return { board, id, run, prompt: (number) => readFileSync(join(prompts, `${number}`), 'utf8') };
}

// Comments that are written in the page: on a file that came later, and into the next prompt of the agent.
async function comments(browser) {
  const { board, id, run, prompt } = await writing();
  run();
  const tab = await Tab.open(browser, board, { width: 1280 });
  const { page } = tab;
  await tab.goto(`/tasks/${id}/review?ws=0`);
  const last = `file-${100 + FILES}.txt`;
  const late = page.locator(`.file[data-path="${last}"]`);
  const before = await late.count();
  await page.locator('[data-next]').scrollIntoViewIfNeeded();
  await late.waitFor({ timeout: SOON });
  await page.evaluate(() => (globalThis.stayed = true));
  await page.locator('.tree a', { hasText: last }).click();
  await page.waitForURL(/#f-/, { timeout: SOON });
  const stayed = await page.evaluate(() => globalThis.stayed === true);
  report('a file that came later is gone to without another page', before === 0 && stayed, { before, stayed });
  await late.locator('[data-viewed]').click();
  const ticks = () => page.locator('.tree li.viewed', { hasText: last }).waitFor({ timeout: SOON }).then(() => true, () => false);
  const counts = () => page.locator('#viewed', { hasText: `1 of ${FILES + 1} viewed` }).waitFor({ timeout: SOON }).then(() => true, () => false);
  const pressed = () => late.locator('[data-viewed][aria-pressed=true]').waitFor({ timeout: SOON }).then(() => true, () => false);
  const all = [await ticks(), await counts(), await pressed(), await page.evaluate(() => globalThis.stayed === true)];
  report('a tick is in the count, in the tree and on its button without a reload', all.every(Boolean), all);
  await late.locator('summary').click();
  await late.locator('a', { hasText: 'comment' }).first().click();
  await page.locator('#comment-text:focus').waitFor({ timeout: SOON });
  const about = await page.locator('#comment label').textContent();
  const address = page.url();
  report('a comment on a file that came later has its form', about.includes(last) && /ws=0/.test(address), { about, address });
  await page.locator('#comment a', { hasText: 'Cancel' }).click();
  await page.waitForURL((url) => !url.search.includes('comment='), { timeout: SOON });
  report('Cancel keeps the view of the review', /ws=0/.test(page.url()) && /#f-/.test(page.url()), page.url());

  await tab.goto(`/tasks/${id}/review?ws=0`);
  await page.locator('tr[data-line]', { hasText: 'let seconds' }).locator('td.no').last().click();
  await page.locator('#comment-text:focus').waitFor({ timeout: SOON });
  await page.locator('#comment-text').fill(EXACT);
  await page.keyboard.press('Control+Enter');
  await page.locator('.comment.is-draft', { hasText: 'seconds_max' }).waitFor({ timeout: SOON });
  const kept = { url: page.url(), flash: await page.locator('.flash').count(), seen: await page.locator('.comment.is-draft').isVisible() };
  report('a kept draft is shown at its place, in the same view', /ws=0/.test(kept.url) && /#draft-/.test(kept.url) && kept.seen, kept);
  report('a kept draft says nothing empty', kept.flash === 0, kept);
  await page.keyboard.press('b');
  const buttons = await page.locator('#send-back button.button-main').evaluate((button) => button.getBoundingClientRect().bottom <= innerHeight);
  report('the buttons of Send back are in sight', buttons, await page.locator('#send-back form').boundingBox());
  await page.keyboard.type(ASK);
  await page.keyboard.press('Control+Enter');
  await page.waitForURL(`${board.url}/`, { timeout: SOON });
  run();
  const message = `${ASK}\n\n1. clock.rs:2\n\n    ${CODE}\n\n${EXACT}\n`;
  report('the agent reads the comment word for word, with file, line and code', prompt(1).includes(message), { message, prompt: prompt(1) });
  report('the console has no error while comments are written', tab.broken.length === 0, tab.broken);
  await tab.close();
}

await lane('review', async (browser) => {
  const board = await Board.demo('demo');
  const task = board.task(TITLE);
  const path = `/tasks/${task}/review`;
  const tab = await Tab.open(browser, board, { width: 1280 });
  const { page } = tab;

  // From the inbox to the review with the keys of rows and buttons.
  await tab.goto('/');
  await page.locator('.item', { hasText: TITLE }).locator('a').click();
  await page.waitForURL(/at=/, { timeout: SOON });
  await page.keyboard.press('r');
  await page.waitForURL(/\/review$/, { timeout: SOON });
  report('the inbox leads to the review', page.url().endsWith('/review'), page.url());
  const files = await page.locator('.file').count();
  report('the review shows several files', files > 1, { files });

  await page.keyboard.press(']');
  await page.keyboard.press('j');
  await page.keyboard.press('c');
  await page.locator('#comment-text:focus').waitFor({ timeout: SOON });
  const place = await page.locator('#comment input[name=place]').getAttribute('value');
  await page.keyboard.type(WORDS);
  await page.keyboard.press('Control+Enter');
  await page.locator('.comment.is-draft', { hasText: WORDS }).waitFor({ timeout: SOON });
  report('a comment on a line is kept as a draft', /:[LR]\d+(-\d+)?$/.test(place), place);

  // The keys of hunks mark the first line below another head.
  await page.goto(`${board.url}${path}`);
  const marked = () => page.evaluate(() => {
    const line = document.querySelector('.is-line');
    const row = line?.closest('tr');
    return row && { isFirst: row.previousElementSibling?.matches('tr.hunk') ?? false, top: row.getBoundingClientRect().top + scrollY };
  });
  await page.keyboard.press('}');
  const first = await marked();
  await page.keyboard.press('}');
  const second = await marked();
  await page.keyboard.press('{');
  const back = await marked();
  const hunks = first?.isFirst && second?.isFirst && second.top > first.top && back?.top === first.top;
  report('} and { go along the hunks', hunks, { first, second, back });

  // Changes of spaces are hidden by a link; two columns are offered where there is room.
  await page.getByRole('link', { name: 'Hide spaces' }).click();
  await page.waitForURL(/ws=0/, { timeout: SOON });
  const shows = await page.getByRole('link', { name: 'Show spaces' }).count();
  const narrow = await page.getByRole('link', { name: 'Side by side' }).isVisible();
  await page.setViewportSize({ width: 1680, height: 900 });
  const wide = await page.getByRole('link', { name: 'Side by side' }).isVisible();
  report('spaces are switched by a link', shows === 1, { shows });
  report('two columns are offered from 1600 px on', !narrow && wide, { narrow, wide });
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(`${board.url}${path}`);

  const other = await Tab.open(browser, board, { width: 390 });
  await other.goto(path);
  const seen = await other.page.locator('.comment.is-draft', { hasText: WORDS }).count();
  report('a draft is there in another tab of its author', seen === 1, { seen });

  // A tick folds its file; the tick belongs to the content.
  await page.keyboard.press('v');
  const counted = await page.getByText(/1 of \d+ viewed/).waitFor({ timeout: SOON }).then(() => true, () => false);
  report('a viewed file is counted without a reload', counted, await page.locator('#viewed').textContent());
  await page.reload();
  const ticked = await page.locator('[data-viewed][aria-pressed=true]').count();
  report('a viewed file stays ticked', ticked === 1, { ticked });

  await page.keyboard.press('b');
  await page.keyboard.type(ASK);
  const preview = await page.locator('.verb[open] pre').textContent();
  await page.keyboard.press('Control+Enter');
  await page.waitForURL(`${board.url}/`, { timeout: SOON });
  const flash = await page.locator('[role=status]').textContent();
  report('the work goes back', /Sent back/.test(flash), flash);
  const { review } = board.json('review', task);
  const feedback = JSON.stringify(review ?? board.json('review', task));
  const [file, lines] = place.split(/:[LR]/);
  const whole = [ASK, WORDS, file, lines.split('-')[0]].every((part) => feedback.includes(part));
  report('the message has the words, the file, the line and the comment', whole, { feedback, preview });
  report('the preview was the message', preview.includes(WORDS) && preview.includes(file), preview);

  // The other tab still shows the forms of the review that is decided.
  await other.goto(path);
  const left = await other.page.locator('.comment.is-draft').count();
  report('sent drafts are drafts no more', left === 0, { left });
  const shown = await other.page.locator('.comment', { hasText: WORDS }).count();
  report('the sent comment stands beside the code', shown === 1, { shown });

  // The work moves on under a reader: a line says so, and the diff stays as it was.
  const reader = await Tab.open(browser, board, { width: 1280 });
  const [folder] = git(board.folder, 'worktree', 'list', '--porcelain').split('\n')
    .filter((line) => line.startsWith('worktree ') && line.includes('worktrees/'))
    .map((line) => line.slice('worktree '.length))
    .filter((path) => path.includes(task));
  await reader.goto(path);
  const filesThen = await reader.page.locator('.file').count();
  git(folder, 'commit', '--quiet', '--allow-empty', '-m', 'more');
  board.cli('note', task, 'Committed once more.');
  await reader.page.locator('#review-moved:visible').waitFor({ timeout: SOON }).catch(() => {});
  const line = await reader.page.locator('#review-moved').isVisible();
  const filesNow = await reader.page.locator('.file').count();
  report('a line says that the work moved on', line && filesNow === filesThen, { line, filesThen, filesNow });

  // The changes between two commits of the work: chosen by a form, held by the address, and nothing else is accepted.
  writeFileSync(join(folder, 'between.txt'), 'between\n');
  git(folder, 'add', 'between.txt');
  git(folder, 'commit', '--quiet', '-m', 'between');
  const [newest, before] = git(folder, 'log', '--format=%H', '-2').trim().split('\n');
  await reader.goto(path);
  await reader.page.locator('summary', { hasText: 'Commits' }).click();
  await reader.page.locator('#range-first').selectOption(before);
  await reader.page.locator('#range-last').selectOption(newest);
  await reader.page.getByRole('button', { name: 'Show these changes' }).click();
  await reader.page.waitForURL(/range=/, { timeout: SOON });
  const ranged = async () => reader.page.locator('.file').evaluateAll((all) => all.map((file) => file.dataset.path));
  report('a range shows the changes between two commits', (await ranged()).join() === 'between.txt', [reader.page.url(), await ranged()]);
  await reader.goto(`${path}?range=${before.slice(0, 8)}..${newest.slice(0, 8)}`);
  report('a range takes short ids', (await ranged()).join() === 'between.txt', await ranged());
  const barriers = await reader.barriers();
  report('the page of a range has no barrier', barriers.length === 0, barriers);
  await reader.shot('review range');
  const hostile = ['main..HEAD', '--output=x..abcd', `${newest}..${before}`, `${'0'.repeat(40)}..${newest}`, '<script>..abcd', '..'];
  for (const range of hostile) {
    const answer = await reader.goto(`${path}?range=${encodeURIComponent(range)}`);
    const alert = await reader.page.locator('[role=alert]').textContent();
    const whole = (await ranged()).length > 1;
    report(`the range ${range} is refused with its reason`, answer.status() === 400 && alert !== '' && whole, { status: answer.status(), alert });
  }

  // A verdict counts for the files that were read: the page says both commits and shows what is new.
  board.cli('task', 'move', task, 'in_review');
  await reader.goto(path);
  writeFileSync(join(folder, 'later.txt'), 'later\n');
  git(folder, 'add', 'later.txt');
  git(folder, 'commit', '--quiet', '-m', 'later');
  const sends = () => reader.page.getByRole('button', { name: /^Send back (to work|all the same)$/ }).first();
  await reader.page.locator('summary', { hasText: 'Send back' }).click();
  await reader.page.locator('#reject-text').fill('Kept words');
  await sends().click();
  const moved = await reader.page.locator('[role=alert]').textContent({ timeout: SOON });
  const heads = /you read commit [0-9a-f]{7}\. The work is at commit [0-9a-f]{7} now/.test(moved);
  const news = await reader.page.locator('.file').evaluateAll((all) => all.map((file) => file.dataset.path));
  report('a verdict on work that moved on is refused with both commits', heads, moved);
  report('the page shows what is new since', news.join() === 'later.txt', news);
  await sends().click();
  await reader.page.waitForURL(`${board.url}/`, { timeout: SOON });
  const again = JSON.stringify(board.json('review', task));
  report('one button goes on with the words of the form', again.includes('Kept words'), again);

  // A merge whose check waits shows its steps; a check that fails publishes nothing, and one that passes does.
  const gate = join(board.folder, '..', 'gate');
  const check = `until [ -e '${gate}' ]; do sleep 0.1; done; [ ! -s '${gate}' ]`;
  writeFileSync(gate, '');
  await reader.goto(`/tasks/${task}`);
  await reader.page.locator('main [data-key=e]').click();
  await reader.page.locator('#edit-checks').fill(check);
  await reader.page.getByRole('button', { name: 'Save' }).click();
  await reader.page.locator('[role=status]', { hasText: 'Saved' }).waitFor({ timeout: SOON });
  board.cli('task', 'move', task, 'in_review');
  board.cli('check', 'run', task);
  await reader.goto(path);
  await reader.page.keyboard.press('a');
  await reader.page.keyboard.press('Control+Enter');
  await reader.page.getByText('Approved', { exact: false }).first().waitFor({ timeout: SOON });
  const merges = async () => {
    rmSync(gate);
    // Another tree: the checks run on the merged files.
    git(board.folder, 'commit', '--quiet', '--allow-empty', '-m', 'theirs');
    writeFileSync(join(board.folder, `theirs-${Date.now()}.txt`), 'theirs\n');
    git(board.folder, 'add', '-A', '--', ':(glob)theirs-*.txt');
    git(board.folder, 'commit', '--quiet', '-m', 'theirs');
    await reader.goto(path);
    await reader.page.locator('summary', { hasText: 'Merge' }).click();
    await reader.page.getByRole('button', { name: /^Merge( all the same)?$/ }).first().click();
    await reader.page.locator('.merge-steps').waitFor({ timeout: SOON });
    return reader.page.locator('.merge-steps [aria-current=step]').textContent();
  };
  const step = await merges();
  report('a merge that runs shows its step', /^Look/.test(step), step);
  report('the page of a merge has no barrier', (await reader.barriers()).length === 0, await reader.barriers());
  await reader.shot('review merging');
  writeFileSync(gate, 'closed');
  const failed = await reader.shows('Nothing was published');
  const reason = await reader.page.locator('.merging').textContent();
  report('a merge that fails names the check and publishes nothing', failed && /checks not passed/.test(reason), reason);
  const tip = git(board.folder, 'log', '-1', '--format=%s', 'main').trim();
  report('the target did not move', tip === 'theirs', tip);
  await reader.shot('review not merged');
  await merges();
  writeFileSync(gate, '');
  report('a merge that ends is told', await reader.shows('Merged as'), await reader.page.locator('.merging').textContent());
  const closed = await board.ask('agent:reader', 'get', { id: task });
  report('the work is merged', closed.status === 'done', closed.status);

  // Two people decide at a time: the second is told, and nothing is done twice.
  const { id } = board.json('task', 'add', 'Decide once');
  for (const status of ['in_progress', 'in_review']) board.cli('task', 'move', id, status);
  await Promise.all([tab, other].map((one) => one.goto(`/tasks/${id}/review`)));
  await other.page.locator('summary', { hasText: 'Send back' }).click();
  await other.page.locator('#reject-text').fill('Too late');
  await page.keyboard.press('a');
  await page.keyboard.press('Control+Enter');
  await page.getByText('Approved', { exact: false }).first().waitFor({ timeout: SOON });
  // The head of the other page has heard of it; the words that are being written stay.
  await other.page.locator('#review-head', { hasText: 'Done' }).waitFor({ timeout: SOON });
  const written = await other.page.locator('#reject-text').inputValue();
  report('a panel that is written in stays when another person decides', written === 'Too late', written);
  await other.page.getByRole('button', { name: 'Send back to work' }).click();
  const told = await other.page.locator('[role=alert]').textContent({ timeout: SOON });
  const both = /had no verdict/.test(told) && /approved it/.test(told);
  report('the second person is told both versions', both, told);
  const goOn = await other.page.getByRole('link', { name: 'Go on with the review as it stands' }).count();
  const kept = await other.page.locator('pre', { hasText: 'Too late' }).count();
  report('one button goes on, with the words of the form', goOn === 1 && kept === 1, { goOn, kept });
  const events = board.cli('log', id);
  const approvals = events.split('\n').filter((line) => /approved/.test(line)).length;
  report('an approval is made once', approvals === 1, events);
  const outside = [...tab.outside, ...other.outside];
  report('nothing is asked of other origins', outside.length === 0, outside);
  // The second verdict was refused, and the console says so.
  const broken = [...tab.broken, ...other.broken].filter((words) => !/409/.test(words));
  report('the console has no error', broken.length === 0, broken);
  await comments(browser);
});
