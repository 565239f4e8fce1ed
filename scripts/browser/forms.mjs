// Every form of the board, used once by a browser that runs no script: it is filled in, sent, and its effect is seen. On
// the board of `callboard demo`, where agents work, ask and hand over.

import { once } from 'node:events';
import { createServer } from 'node:http';
import { Board, SOON, Tab, lane, report } from './board.mjs';

const REVIEW = 'Greet in three languages';
const CONFLICT = 'Shorten the README';
const AGAIN = 'Say how greet.sh exits';

// The forms that were used and those that pages showed, with a star for each id.
const used = new Set();
const shown = new Set();
// Forms that another check uses, and those that repeat the effect of one that is used here.
const ELSEWHERE = ['/login'];

const shape = (action) => action.replace(/^\/(tasks|mail|plans|jobs|agents)\/(?!new)[^/]+\//, '/$1/*/').replace(/redeliver\/.*/, 'redeliver/*');

// One person at a browser without scripts.
class Person {
  constructor(tab) {
    this.tab = tab;
    this.page = tab.page;
  }

  async goto(path) {
    await this.tab.goto(path);
    await this.note();
  }

  // Notes the forms of the page.
  async note() {
    const forms = this.page.locator('form[method=post]');
    for (const action of await forms.evaluateAll((all) => all.map((form) => form.getAttribute('action')))) shown.add(shape(action));
    const others = this.page.locator('button[formaction]');
    for (const action of await others.evaluateAll((all) => all.map((one) => one.getAttribute('formaction')))) shown.add(shape(action));
  }

  // Follows a link or presses a button, and waits for the page that it leads to.
  async press(locator, within = SOON) {
    await Promise.all([this.page.waitForNavigation({ timeout: within }), locator.click({ timeout: SOON })]);
    await this.note();
  }

  // Opens what a place is folded into, from the outside in.
  async reveal(place) {
    const folds = place.locator('xpath=ancestor::details[not(@open)]');
    for (let left = await folds.count(); left > 0; left = await folds.count()) await folds.first().locator('> summary').click();
    const popover = place.locator('xpath=ancestor::*[@popover]');
    if (await popover.count()) {
      const id = await popover.first().getAttribute('id');
      await this.page.locator(`[popovertarget=${id}]:visible`).first().click();
    }
  }

  // Fills a form of this page in and sends it; the words of the page that follows.
  async send(action, fields = {}, button = 'button') {
    const form = this.page.locator(`form[method=post][action$="${action}"]`).first();
    await form.waitFor({ state: 'attached', timeout: SOON });
    await this.reveal(form.locator('xpath=./*').first());
    for (const [name, value] of Object.entries(fields)) {
      const field = form.locator(`[name="${name}"]`);
      const kind = await field.evaluate((element) => element.localName);
      await (kind === 'select' ? field.selectOption(value) : field.fill(value));
    }
    const pressed = form.locator(button).first();
    const target = await pressed.evaluate((element) => element.getAttribute('formaction') ?? element.form.getAttribute('action'));
    used.add(shape(target));
    await this.press(pressed);
    return this.page.locator('body').textContent();
  }

  said() {
    return this.page.locator('[role=status]').first().textContent({ timeout: SOON });
  }
}

await lane('forms', async (browser) => {
  // The receiver of a webhook: the ids of the messages that came.
  const letters = [];
  const receiver = createServer((request, response) => {
    request.resume().on('end', () => {
      letters.push(request.headers['webhook-id']);
      response.writeHead(204).end();
    });
  });
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const hook = `http://127.0.0.1:${receiver.address().port}/`;
  const board = await Board.demo('demo', { CALLBOARD_CREW_WEBHOOK: hook, CALLBOARD_RELAY_WEBHOOK_ALLOW_PRIVATE: 'true' });
  const tab = await Tab.open(browser, board, { script: false });
  const ana = new Person(tab);
  const show = (id) => board.ask('agent:reader', 'get', { id });
  const tasks = async () => (await board.ask('agent:reader', 'list', { limit: 1000 })).tasks;
  const named = async (words) => (await tasks()).find((task) => task.title === words);
  const priority = async (id) => (await ana.goto(`/tasks/${id}`), Number(await ana.page.locator('[name=priority]').inputValue()));
  const lookAt = (id) => ana.goto(`/tasks/${id}/review`);

  // A part that throws fails, and the walk goes on.
  const part = (name, steps) => steps().catch((error) => report(`${name}: every form is there`, false, error));

  // A new task, and everything that a person can say about it.
  await ana.goto('/tasks/new');
  // Another line and a look at the outcome keep what was typed.
  const typed = { title: 'Say goodbye', body: 'When it ends.', check1: 'true', check2: 'reads well', kind2: 'person', deps: 'announce version', priority: '900' };
  const form = ana.page.locator('form[action="/tasks/new"]');
  for (const [name, value] of Object.entries(typed)) {
    const field = form.locator(`[name="${name}"]`);
    await ((await field.evaluate((element) => element.localName)) === 'select' ? field.selectOption(value) : field.fill(value));
  }
  await ana.press(ana.page.getByRole('button', { name: 'Another line' }));
  const lines = await form.locator('[name^=check]').count();
  await ana.press(ana.page.getByRole('button', { name: 'Look what will happen' }));
  const outlook = await ana.page.locator('#outlook').textContent();
  const [title, body, second] = await Promise.all(['title', 'body', 'check2'].map((name) => form.locator(`[name="${name}"]`).inputValue()));
  report('another line keeps the form', lines === 3 && title === typed.title && body === typed.body && second === 'reads well', { lines, title, body, second });
  const says = ['Starts blocked', '1 command and 1 look', "callboard task add 'Say goodbye'"].every((words) => outlook.includes(words));
  report('the form says what will happen', says, outlook);
  // The dep was found by a part of its title, and a tick less leaves it out.
  await form.locator('input[name=dep]').uncheck();
  await ana.send('/tasks/new', {}, 'button.button-main');
  const made = await show((await named('Say goodbye')).id);
  report('a new task is made', made.checks.length === 2 && (await priority(made.id)) === 900, made);
  const here = `/tasks/${made.id}`;
  const on = async (verb, fields, holds, button) => {
    await ana.goto(here);
    await ana.send(`/${verb}`, fields, button);
    const [said, task] = [await ana.said().catch(() => ''), await show(made.id)];
    report(`${verb}: ${said}`, await holds(task, said), { said, task });
  };
  await on('edit', { title: 'Say goodbye politely', checks: 'true\nfalse\nmanual: reads well' },
    (task) => task.title === 'Say goodbye politely' && task.checks.length === 3);
  await on('sooner', {}, async () => (await priority(made.id)) === 800);
  await on('later', {}, async () => (await priority(made.id)) === 900);
  const other = await named('Announce version 1.0');
  await on('dep', { dep: other.id }, (task) => JSON.stringify(task.deps).includes(other.id));
  await on('undep', {}, (task) => !JSON.stringify(task.deps).includes(other.id));
  await on('note', { text: 'Ask the translators first.' }, (task) => JSON.stringify(task).includes('Ask the translators first.'));
  await on('block', { text: 'The words are missing.' }, (task) => JSON.stringify(task).includes('The words are missing.'));
  await on('unblock', {}, (task) => !JSON.stringify(task.blocked ?? null).includes('The words are missing.'));
  const blocker = { taskId: made.id, kind: 'blocker', body: 'Two words are possible.', rationale: 'Nobody decided.' };
  await board.ask('agent:someone', 'comment_on_task', blocker, 'execution');
  await on('resolve', { text: 'Take the shorter one.' }, async (_, said) => /resolved/.test(said) && !(await ana.page.locator('form[action$="/resolve"]').count()));
  await on('tell', { text: 'Keep it short.' }, (_, said) => /Sent/.test(said));
  await on('check', {}, (task) => task.checks[0].result === 'pass' && task.checks[1].result === 'fail');
  await on('attest', {}, (task) => task.checks[2].result === 'pass');

  // The whole way of a task that only a person moves.
  await board.ask('agent:someone', 'claim', { id: made.id });
  await on('release', {}, (task) => !task.assignee);
  await board.ask('agent:someone', 'transition', { id: made.id, to: 'canceled' });
  await on('reopen', {}, (task) => task.status !== 'canceled');
  // An agent that asks before it does anything: it is stopped once at its task, once at its job.
  const running = async () => {
    for (const until = Date.now() + SOON; Date.now() < until; ) {
      const job = board.json('job', 'list').works.find(({ taskId, question }) => taskId === made.id && question);
      if (job) return job.id;
    }
    throw new Error('the agent does not ask');
  };
  await part('agents', async () => {
    await on('run', { agent: 'asker', text: 'Begin.' }, (_, said) => /asked to start/.test(said));
    await running();
    await on('stop', {}, (_, said) => /stopped/.test(said), 'button.button-bad');
    await on('run', { agent: 'asker' }, (_, said) => /asked to start/.test(said));
    await ana.goto(`/jobs/${await running()}`);
    await ana.send('/answer', {}, 'button[value=no]');
    report('a question is answered at its job', /[Rr]efused/.test(await ana.said()), await ana.page.locator('main').textContent());
    // The agent's own page, and its job, end it as well.
    await on('run', { agent: 'asker' }, (_, said) => /asked to start/.test(said));
    await running();
    const holder = (await show(made.id)).assignee.replace('agent:', '');
    await ana.goto(`/agents/${holder}`);
    await ana.send(`/agents/${holder}/stop`);
    report('an agent is stopped at its page', /stopped/.test(await ana.said()), ana.page.url());
    await on('run', { agent: 'asker' }, (_, said) => /asked to start/.test(said));
    await ana.goto(`/jobs/${await running()}`);
    await ana.send('/cancel');
    report('a run is canceled at its job', /[Cc]ancel|stopped/.test(await ana.said()), await ana.said());
  });
  await ana.goto(here);
  await ana.send('/remove', {}, 'button.button-bad');
  report('a task is removed', (await named('Say goodbye politely')) === undefined, await ana.said());

  // Several cards at a time, and one from its menu.
  await part('cards', async () => {
    const queued = await board.ask('agent:someone', 'create', { title: 'First of two' });
    const before = await priority(queued.id);
    await ana.goto('/board');
    await ana.page.locator(`#card-${queued.id} input[name=task]`).first().check();
    await ana.send('/board/bulk', { verb: 'later' });
    report('ticked cards come later', (await priority(queued.id)) === before + 100, ana.page.url());
    await ana.goto('/board');
    const card = ana.page.locator(`#card-${queued.id}`);
    const sooner = card.locator('button[formaction$="/sooner"]');
    await ana.reveal(sooner);
    used.add(shape(await sooner.getAttribute('formaction')));
    await ana.press(sooner);
    report('a card comes sooner', (await priority(queued.id)) === before, ana.page.url());
  });

  // A review that is approved and merged.
  await part('a review', async () => {
    const review = (await named(REVIEW)).id;
    await lookAt(review);
    await ana.send('/review/viewed');
    report('a file is viewed', (await ana.page.locator('[data-viewed][aria-pressed=true]').count()) === 1, ana.page.url());
    if (await ana.page.locator('form[action$="/attest"]').count()) await ana.send('/attest');
    report('a check is attested on the review', (await show(review)).checks.every((check) => check.result === 'pass'), ana.page.url());
    await ana.send('/review/approve', { text: 'Fine.' });
    report('work is approved', /Approved/.test(await ana.said()), await ana.page.locator('main').textContent());
    await lookAt(review);
    await ana.send('/review/merge');
    report('work is merged', (await show(review)).status === 'done', await show(review));
  });

  // Work that goes back with a comment on a hunk.
  await part('work that goes back', async () => {
    const again = (await named(AGAIN)).id;
    await lookAt(again);
    await ana.press(ana.page.locator('a[href*="comment="]').first());
    await ana.send('/review/draft', { text: 'Keep the second line.' });
    await ana.send('/review/undraft');
    report('a draft is deleted', (await ana.page.locator('.comment.is-draft').count()) === 0, ana.page.url());
    await ana.press(ana.page.locator('a[href*="comment="]').first());
    await ana.send('/review/draft', { text: 'Keep the last line.' });
    report('a comment on a hunk is a draft', await ana.tab.shows('Keep the last line.'), ana.page.url());
    await ana.send('/review/reject', { text: 'Please look again.' }, 'button[value=queue]');
    const feedback = JSON.stringify(board.json('review', again));
    report('work goes back with the comment', feedback.includes('Keep the last line.') && feedback.includes('Please look again.'), feedback);
  });

  // Work that conflicts with main. An agent goes on with it after the rebase.
  await part('a rebase', async () => {
    const conflict = (await named(CONFLICT)).id;
    const rebase = ana.page.locator('button[formaction$="/rebase"], form[action$="/rebase"] button').first();
    // The page does not wait long for git, which says whether the work conflicts.
    for (const until = Date.now() + 3 * SOON; (await rebase.count()) === 0 && Date.now() < until; ) await lookAt(conflict);
    await ana.reveal(rebase);
    used.add('/tasks/*/review/rebase');
    // A rebase in a worktree of its own takes several calls of git.
    await ana.press(rebase, 3 * SOON);
    report('a rebase names its conflicts', /Not rebased: conflicts in README.md/.test(await ana.said()), await ana.said());
  });

  // The inbox: a question, and a row that waits until tomorrow.
  await part('the inbox', async () => {
    await ana.goto('/');
    await ana.press(ana.page.locator('.item', { hasText: 'git push' }).locator('a').first());
    await ana.send('/answer', {}, 'button[value=yes]');
    report('a question is answered', /Allowed/.test(await ana.said()), await ana.said());
    await ana.goto('/');
    const row = await ana.page.locator('.item a[data-row]').last().getAttribute('href');
    await ana.press(ana.page.locator(`.item a[href="${row}"]`));
    await ana.send('/inbox/snooze', {}, 'button[value=day]');
    report('a row is put off', (await ana.page.locator(`.item a[href="${row}"]`).count()) === 0, row);
  });

  // Mail to an agent, an answer, and a letter that is read.
  await part('mail', async () => {
    await ana.goto('/mail?to=lead');
    await ana.send('/mail', { to: 'lead', subject: 'French first', body: 'Then Spanish.' });
    const letters = async (agent) => (await ana.goto(`/agents/${agent}`), ana.page.locator('main').textContent());
    report('mail is sent', (await letters('lead')).includes('French first'), ana.page.url());
    await ana.goto('/mail');
    await ana.press(ana.page.locator('main a[href^="/mail/"]', { hasText: 'Which language' }).first());
    await ana.send('/reply', { body: 'French.' });
    report('mail is answered', (await letters('lead')).includes('Re: Which language'), ana.page.url());
    await ana.goto('/mail');
    const unread = await ana.page.locator('form[action$="/read"]').count();
    await ana.send('/read');
    await ana.goto('/mail');
    report('mail is marked as read', (await ana.page.locator('form[action$="/read"]').count()) < unread, { unread });
    // A letter about a task that another agent holds: the answer goes to both.
    await ana.goto('/mail?box=all');
    await ana.press(ana.page.locator('main a[href^="/mail/"]', { hasText: 'The release is ready' }).first());
    const offered = await ana.page.locator('[name=also]').isChecked();
    await ana.send('/reply', { body: 'Say how far you are.' });
    await ana.goto(`/tasks/${(await named('Measure how fast it greets')).id}`);
    const told = (await ana.page.locator('main').textContent()).includes('Say how far you are.');
    report('the agent that holds the task hears an answer, too', offered && told, { offered, told });
  });

  // A plan becomes tasks; another one is put away.
  await part('plans', async () => {
    const count = (await tasks()).length;
    await ana.goto('/plans');
    await ana.press(ana.page.locator('main a[href^="/plans/"]').first());
    await ana.send('/approve');
    report('a plan is approved', (await tasks()).length > count, { count });
    const { plan_id: plan } = board.call('agent:planner', 'propose_plan', { tasks: [{ title: 'Sing', type: 'PAIR', priority: 'low' }], todos: [] });
    await ana.goto(`/plans/${plan}`);
    await ana.send('/reject');
    report('a plan is put away', (await named('Sing')) === undefined && /away/.test(await ana.said()), ana.page.url());
  });

  // Something that is known.
  await part('knowledge', async () => {
    await ana.goto('/knowledge');
    await ana.send('/knowledge', { title: 'Hebrew reads from right to left', body: 'Terminals turn it around.', tags: 'i18n' });
    await ana.goto('/knowledge?q=Hebrew');
    report('knowledge is kept', await ana.tab.shows('Hebrew reads from right to left'), ana.page.url());
  });

  // An agent's own page, and a job of one.
  await part('agents and jobs', async () => {
    await ana.goto('/agents');
    await ana.send('/agents', { name: 'guest', kind: 'SUPERVISOR' });
    report('an agent joins the crew', /Added/.test(await ana.said()), await ana.said());
    await ana.send('/agents/guest/remove');
    report('an agent leaves the crew', /Removed from the crew/.test(await ana.said()), await ana.said());
    await ana.goto('/agents/ada');
    await ana.send('/tell', { text: 'Show me what you have.' });
    report('an agent is written to', /Sent/.test(await ana.said().catch(() => '')), await ana.page.locator('main').textContent());
    const [failed] = board.json('job', 'list', '--state', 'failed').works;
    await ana.goto(`/jobs/${failed.id}`);
    await ana.send('/again');
    report('a job runs again', (await ana.said().catch(() => '')) !== '', await ana.page.locator('main').textContent());
  });

  // Settings of the board, of this browser, and tokens.
  await part('settings', async () => {
    await ana.goto('/settings');
    const number = '[name="general.max_concurrent_agents"]';
    const setting = (await ana.page.locator(number).count()) ? 'general.max_concurrent_agents' : 'max_concurrent_agents';
    await ana.send('/settings/update', { [setting]: '7' });
    await ana.goto('/settings');
    report('a setting is kept', (await ana.page.locator(`[name="${setting}"]`).inputValue()) === '7', await ana.page.locator(`[name="${setting}"]`).inputValue());
    // The mail of the demo was told to the receiver.
    const came = letters.length;
    const row = ana.page.locator('tr[id^=delivery-]', { hasText: 'delivered' }).first();
    for (const until = Date.now() + SOON; (await row.count()) === 0 && Date.now() < until; ) await ana.goto('/settings');
    const again = row.locator('form button');
    used.add(shape(await row.locator('form').getAttribute('action')));
    await ana.press(again);
    const said = await ana.said();
    for (const until = Date.now() + SOON; letters.length === came && Date.now() < until; ) await ana.goto('/settings');
    report('a message is sent again', /sent again/.test(said) && letters.length > came, { said, letters });
    await ana.send('/settings/look');
    report('the board looks at its health again', (await ana.page.locator('main').textContent()).includes('Doctor'), ana.page.url());
    await ana.send('/settings/clients');
    report('the clients are looked at again', /looks at the clients/.test(await ana.said()), await ana.said());
    await ana.send('/settings/you', { theme: 'dark', keys: 'off' });
    report('a theme is kept', (await ana.page.locator('html').getAttribute('data-theme')) === 'dark', ana.page.url());
    await ana.send('/settings/token', { actor: 'agent:ci-1' });
    const token = board.json('token', 'list').items.find((one) => JSON.stringify(one).includes('agent:ci-1'));
    report('a token is made', token !== undefined, await ana.page.locator('main').textContent());
    await ana.goto('/settings');
    await ana.send('/settings/revoke', {}, 'button.button-bad');
    const revoked = board.json('token', 'list').items.find((one) => one.id === token?.id);
    report('a token is revoked', JSON.stringify(revoked ?? {}).includes('revoked'), revoked);
  });

  await ana.send('/logout');
  await ana.goto('/board');
  report('a person signs out', (await ana.page.locator('form[action="/logout"]').count()) === 0, ana.page.url());
  const left = [...shown].filter((action) => !used.has(action) && !ELSEWHERE.includes(action)).sort();
  report('every form that a page showed was used', left.length === 0, left);
  report('nothing is asked of other origins', tab.outside.length === 0, tab.outside);
  receiver.close();
});
