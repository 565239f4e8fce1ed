// The board in a real Chromium: pages that show what happens without a reload, forms that reach agents,
// what agents wrote shown as text, nothing loaded from elsewhere. Barriers are looked for in scripts/browser.
//
// Prints a line for each check, `ok` or `FAILED` first; `run` counts them. Runs in the folder where
// playwright-core is installed; CHROMIUM names the browser.

import { execFileSync } from 'node:child_process';
import { chromium } from 'playwright-core';

const { CALLBOARD_BINARY: binary, CALLBOARD_REPO: repo, CALLBOARD_URL: url } = process.env;
const SOON = 10_000;
const LIMIT = 180_000;
const HOSTILE = '<script>document.title = "owned"</script><img src=x onerror="document.title=1">';

// The address that signs a browser in, once.
const codeAddress = () => callboard('open').trim();
const callboard = (...words) => execFileSync(binary, words, { cwd: repo, encoding: 'utf8' });

function check(what, passed, seen) {
  const detail = seen instanceof Error ? seen.stack : JSON.stringify(seen);
  console.log(passed ? `ok      browser: ${what}` : `FAILED  browser: ${what}: ${detail}`);
}

async function execute(agentId, toolName, input) {
  const answer = await fetch(`${url}/mcp/execute`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ agentId, toolName, input }),
  });
  return answer.json();
}

const toPeople = (subject, body) => execute('page-boss', 'mcp__mail__send', { toHuman: true, subject, body });

const late = () => {
  check('ends in time', false, `${LIMIT} ms`);
  process.exit(1);
};
const limit = setTimeout(late, LIMIT);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ['--no-sandbox', '--disable-dev-shm-usage'],
});
try {
  callboard('agent', 'add', 'page-boss', '--type', 'SUPERVISOR');
  const epic = JSON.parse(callboard('epic', 'add', `An epic ${HOSTILE}`, '--json')).id;
  callboard('agent', 'add', 'page-lead', '--type', 'SUPERVISOR', '--epic', epic);
  const made = await execute('page-lead', 'mcp__epic__create_task', {
    title: `A task ${HOSTILE}`,
    description: HOSTILE,
  });
  await execute('page-boss', 'mcp__system__log_decision', { title: HOSTILE, body: `${HOSTILE}\nbecause` });

  const context = await browser.newContext({ viewport: { width: 390, height: 800 } });
  const [outside, broken] = [[], []];
  context.on('request', (request) => {
    if (!request.url().startsWith(url)) outside.push(request.url());
  });
  const page = await context.newPage();
  page.on('console', (message) => message.type() === 'error' && broken.push(message.text()));
  page.on('pageerror', (error) => broken.push(error.message));
  const has = (selector, text) =>
    page.locator(selector, { hasText: text }).first().waitFor({ timeout: SOON }).then(() => true, (error) => error);

  await page.goto(`${url}/mail`);
  const forms = await page.locator('form[method=post]').count();
  const hint = await page.locator('.rail').textContent();
  check('without a session pages are read only', forms === 0 && /callboard open/.test(hint), { forms, hint });
  const address = codeAddress();
  await page.goto(address);
  const signedIn = page.url() === `${url}/` && /Sign out/.test(await page.locator('.rail').textContent());
  check('a code signs in and stays in no address', signedIn, page.url());
  await page.goto(address);
  const used = await page.locator('[role=alert]').textContent();
  check('a code works once', /works once/.test(used), used);
  broken.length = 0;

  // On a phone the form for a new letter is a page without the list.
  const narrow = page.viewportSize();
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(`${url}/mail?to=`);
  await page.evaluate(() => (window.stayed = true));
  await page.fill('#body', 'not sent yet');
  await page.focus('#body');
  await toPeople(`Which one? ${HOSTILE}`, `I need to know.\n${HOSTILE}`);
  const shown = await has('#mails .title', 'Which one?');
  check('a mail appears on /mail without a reload', shown === true, shown);
  const kept = await page.evaluate(() => ({
    stayed: window.stayed,
    text: document.querySelector('#body').value,
    focus: document.activeElement.id,
    unread: document.querySelector('#unread').textContent.trim(),
    title: document.title,
  }));
  const undisturbed = kept.stayed && kept.text === 'not sent yet' && kept.focus === 'body';
  check('what is being written and the focus stay', undisturbed, kept);
  check('the navigation counts it', kept.unread === '1 unread', kept);
  const subject = await page.locator('#mails .title').first().textContent();
  check('a hostile subject is text', subject === `Which one? ${HOSTILE}` && !/owned|^1/.test(kept.title), subject);

  const elsewhere = await context.newPage();
  await elsewhere.goto(`${url}/`);
  await toPeople('A second one', 'text');
  const counted = await elsewhere
    .locator('#unread', { hasText: '2 unread' })
    .waitFor({ timeout: SOON })
    .then(() => true, (error) => error);
  check('another tab hears of it on the same stream', counted === true, counted);
  await elsewhere.close();
  const crowd = await Promise.all(Array.from({ length: 8 }, () => context.newPage()));
  const opened = await Promise.all(crowd.map((tab) => tab.goto(`${url}/agents`, { timeout: SOON })))
    .then((answers) => answers.every((answer) => answer.ok()), (error) => error);
  check('nine tabs at a time are served', opened === true, opened);
  await Promise.all(crowd.map((tab) => tab.close()));

  await page.click('#mails .title >> text=Which one?');
  await page.setViewportSize(narrow);
  await page.fill('#body', 'The blue one.\nThanks.');
  await page.click('.button-main:has-text("Send to")');
  const answered = await has('[id^=thread-]', 'The blue one.');
  check('an answer is shown as sent', answered === true, answered);
  const inbox = await execute('page-boss', 'mcp__mail__list_inbox', {});
  const [mail] = inbox.data.mails;
  const arrived = mail?.subject.startsWith('Re: Which one?') && mail.body === 'The blue one.\nThanks.';
  check('it is in the agent’s inbox', arrived, inbox);
  await execute('page-boss', 'mcp__mail__read', { mailId: mail.id });
  const seen = await has(`#letter-${mail.id} .faint`, /^read$/);
  check('that the agent read it is shown', seen === true, seen);
  await page.goto(`${url}/mail`);
  const left = await page.locator('#mails .title').allTextContents();
  check('whoever answers has read', left.length === 1 && left[0] === 'A second one', left);
  await page.click('#mails button[aria-label="Mark as read"]');
  const none = await has('#mails', 'No unread mail.');
  check('a button marks as read', none === true, none);

  await page.goto(`${url}/agents`);
  await page.click('text=Write to page-lead');
  check('an agent’s page leads to a letter', (await page.inputValue('#to')) === 'page-lead', page.url());
  await page.fill('#subject', 'From the page');
  await page.fill('#body', 'text');
  await page.click('text=Send');
  const sent = await has('[id^=thread-]', 'page-lead');
  check('it is sent', sent === true, sent);
  await page.goto(`${url}/mail?to=nobody-there`);
  await page.fill('#subject', 'Lost');
  await page.fill('#body', 'kept');
  await page.click('text=Send');
  const refused = [await page.locator('[role=alert]').textContent(), await page.inputValue('#body')];
  check('a letter to nobody is kept and says why', /nobody-there/.test(refused[0]) && refused[1] === 'kept', refused);
  broken.length = 0;

  const task = made.data.taskId;
  // A whole id leads to the address with the short name.
  await page.goto(`${url}/tasks/${epic}`);
  const epicPath = new URL(page.url()).pathname;
  await page.goto(`${url}/tasks/${task}`);
  const taskPath = new URL(page.url()).pathname;
  check('an address has the short name', /^\/tasks\/[A-Z]+-\d+$/.test(taskPath), taskPath);
  check('a task leads to its epic', await page.locator(`main a[href="${epicPath}"]`).isVisible(), task);
  await page.goto(`${url}${epicPath}`);
  check('an epic leads to its tasks', await page.locator(`main a[href="${taskPath}"]`).isVisible(), epic);
  check('no script of an agent ran', (await page.title()).startsWith('An epic <script>'), await page.title());

  const forged = await (await browser.newContext()).newPage();
  await forged.setContent(
    `<form method=post action="${url}/mail"><input name=to value=page-lead><input name=subject value=forged>` +
      `<input name=mail value="mail-00000000000000000000000001"><input name=body value=x><button>go</button></form>`,
  );
  const [answer] = await Promise.all([forged.waitForResponse(`${url}/mail`), forged.click('button')]);
  check('a form of another site is refused', answer.status() === 403, answer.status());

  const plain = await browser.newContext({ javaScriptEnabled: false });
  const still = await plain.newPage();
  await still.goto(codeAddress());
  await still.goto(`${url}/mail?to=page-lead`);
  await still.fill('#subject', 'Without a script');
  await still.fill('#body', 'text');
  await still.click('text=Send');
  check('everything works without JavaScript', /\/mail\/mail-/.test(still.url()), still.url());

  const alone = await browser.newContext();
  await alone.addInitScript(() => delete window.SharedWorker);
  const single = await alone.newPage();
  await single.goto(`${url}/mail`);
  await toPeople('Without a worker', 'text');
  const heard = await single
    .locator('#mails', { hasText: 'Without a worker' })
    .waitFor({ timeout: SOON })
    .then(() => true, (error) => error);
  check('a page without a shared worker hears by itself', heard === true, heard);

  check('nothing is asked of anybody else', outside.length === 0, outside);
  check('the console has no error', broken.length === 0, broken);

  const token = JSON.parse(callboard('token', 'add', '--actor', 'human:ana', '--json')).token;
  const signed = await browser.newContext();
  const door = await signed.newPage();
  await door.goto(`${url}/mail`);
  await door.fill('#token', token);
  await door.click('text=Open the board');
  await door.locator('#mails').waitFor({ timeout: SOON });
  callboard('--actor', 'agent:page-boss', 'mail', 'send', 'human', 'After signing in', 'text');
  const told = await door
    .locator('#mails', { hasText: 'After signing in' })
    .waitFor({ timeout: SOON })
    .then(() => true, (error) => error);
  check('with tokens, whoever signs in hears as well', told === true, told);
} catch (error) {
  check('runs to its end', false, error);
} finally {
  await browser.close();
  clearTimeout(limit);
}
