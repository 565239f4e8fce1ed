// What holds for every page, on the board of `callboard demo`: no barrier that axe knows of, no error in the console,
// nothing asked of another origin, no sideways scroll, and all of it readable without JavaScript.

import { Board, SOON, Tab, THEMES, WIDTHS, lane, report } from './board.mjs';

// Every page of the board. {TITLE} stands for the id of the task with that title, and a name of `IDS` for that id.
const PAGES = [
  '/',
  '/?kind=mail',
  '/?kind=question',
  '/?snoozed=1',
  '/board',
  '/board?group=epic&projects=all',
  '/board?q=check:fail',
  '/board?view=you',
  '/board?view=failing',
  '/board?view=silent',
  '/board?done=7d&whole=done',
  '/search?q=greet',
  '/tasks/new',
  '/tasks/new?title=Greet+in+four+languages&deps={Greet in three languages}&checks=true',
  '/tasks/new?title=Greet+in+four+languages&deps=nothing-like-it&check1=make&kind2=person&check2=reads+well&lines=5&contract=manual',
  '/tasks/{Greet in three languages}/review',
  '/tasks/{Shorten the README}/review?conflict=README.md',
  '/mail',
  '/mail?all=1',
  '/mail?box=agents',
  '/mail?to=lead',
  '/mail/{a letter}',
  '/mail/{a letter about a task}',
  '/jobs',
  '/jobs?state=failed',
  '/jobs?q=greet',
  '/jobs?q=verb:task.+nothing-like-it',
  '/jobs/{the job that asks}',
  '/jobs/{the job that failed}',
  '/jobs/{the job that failed}?find=nothing-like-it',
  '/jobs/{the job that is over}?errors=1',
  '/agents',
  '/agents?view=silent',
  '/agents/{an agent}',
  '/graph',
  '/graph?as=list',
  '/plans',
  '/plans/{a plan}',
  '/knowledge',
  '/knowledge?q=greet',
  '/audit',
  '/audit?q=verb:call.refused',
  '/decisions',
  '/audit?q=verb:task.claimed+actor:nobody',
  '/decisions?q=actor:lead',
  '/decisions?q=since:1d',
  '/stats',
  '/stats?span=90d&by=agent',
  '/stats?by=epic',
  '/settings',
  '/tasks/{Greet in three languages}',
  '/tasks/{Greet in three languages}?show=notes',
  '/tasks/{Greet in three languages}?show=mail',
  '/tasks/{Greet in three languages}?show=events&before=1000000',
  '/tasks/{Publish version 1.0}',
  '/tasks/{Shorten the README}',
  '/tasks/{Greetings 1.0}',
  '/tasks/{Announce version 1.0}',
];

// The screens whose menus, folds and overlays are opened, too.
const PANELS = [
  '/',
  '/board',
  '/tasks/{Greet in three languages}',
  '/tasks/{Greet in three languages}/review',
  '/tasks/new',
  '/agents',
  '/agents/{an agent}',
  '/jobs/{the job that asks}',
  '/plans/{a plan}',
  '/knowledge',
  '/settings',
];
// So many menus of a page are opened, one by one.
const MENUS_OPENED = 4;

// Where an id comes from that no title leads to.
const IDS = {
  'a letter': (board) => board.json('mail', 'list', '--human').items[0].id,
  'a letter about a task': (board) => board.json('mail', 'list', '--human').items.find(({ subject }) => subject.startsWith('The release')).id,
  'the job that asks': (board) => job(board, 'RUNNING'),
  'the job that failed': (board) => job(board, 'FAILED'),
  'the job that is over': (board) => job(board, 'SUCCEEDED'),
  'a plan': (board) => board.json('plan', 'list').items[0].id,
  'an agent': () => 'lead',
};

// The loop that asks git looks every 5 s.
const CONFLICT_WITHIN = 15_000;

const job = (board, state) => {
  const found = board.json('job', 'list').works.find((one) => one.state === state);
  if (!found) throw new Error(`no job is ${state}`);
  return found.id;
};

// Whether a page is sound, and what was seen. Axe is a script, too, and needs a page that runs scripts.
const sound = async (tab, name, { errors = true, script = true } = {}) => {
  const seen = {
    barriers: script ? await tab.barriers() : [],
    sideways: await tab.sideways(),
    outside: tab.outside.splice(0),
    broken: errors ? tab.broken.splice(0) : [],
  };
  await tab.shot(name);
  return [seen.barriers.length + seen.outside.length + seen.broken.length === 0 && seen.sideways <= 0, seen];
};

// Opens the overlays of a page one by one, then all its folds.
const panels = async (tab, name, path) => {
  await tab.goto(path);
  const barriers = [];
  const look = async (opened, place) => barriers.push(...(await tab.barriers(place)).map((barrier) => `${opened}: ${barrier}`));
  const overlays = tab.page.locator(`${path === '/' ? '' : 'main '}:is(details.menu > summary, button[popovertarget]:not([popovertargetaction]))`);
  for (let at = 0, opened = 0; at < (await overlays.count()) && opened < MENUS_OPENED; at += 1) {
    const overlay = overlays.nth(at);
    // The verbs of a card are there for the card under the pointer.
    if (!(await overlay.isVisible())) continue;
    await overlay.click({ force: true });
    // What an overlay covers in part is no target meanwhile.
    await look(await overlay.textContent(), 'details.menu[open], [popover]:popover-open');
    await tab.page.keyboard.press('Escape');
    opened += 1;
  }
  await tab.page.evaluate(() => document.querySelectorAll('main details:not(.menu)').forEach((fold) => (fold.open = true)));
  await look('folds');
  const wide = await tab.sideways();
  report(`the panels of ${name} ${tab.name}`, barriers.length === 0 && wide <= 0, { barriers, wide });
};

// The text of a page as a reader gets it, without what says how fresh the page is.
const text = (page) =>
  page.evaluate(() => {
    const main = (document.querySelector('main') ?? document.body).cloneNode(true);
    main.querySelectorAll('time, script, noscript, [data-live-state]').forEach((part) => part.remove());
    // Text by text: an age beside a title is no word with it.
    const texts = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
    const words = [];
    while (texts.nextNode()) words.push(...texts.currentNode.data.split(/\s+/));
    return words.filter((word) => /^\p{L}{3,}$/u.test(word));
  });

await lane('pages', async (browser) => {
  const board = await Board.demo('demo');
  const paths = PAGES.map((path) => ({ name: path, path: path.replace(/{(.*)}/, (_, name) => IDS[name]?.(board) ?? board.task(name)) }));
  const words = new Map();
  for (const theme of THEMES) {
    for (const width of WIDTHS) {
      const tab = await Tab.open(browser, board, { theme, width });
      for (const { name, path } of paths) {
        const answer = await tab.goto(path);
        report(`${name} ${theme} at ${width} px`, ...(answer.ok() ? await sound(tab, name) : [false, answer.status()]));
        words.set(path, await text(tab.page));
      }
      await tab.close();
    }
  }

  // Git is asked in the background how the work in review would merge; the lists name its conflicts.
  const lists = await Tab.open(browser, board);
  for (const [path, words] of [['/board', 'Conflicts with main in 1 file'], ['/?kind=review', '1 file conflicts']]) {
    let seen = false;
    for (const end = Date.now() + CONFLICT_WITHIN; !seen && Date.now() < end; ) {
      await lists.goto(path);
      seen = await lists.shows(words, 500);
    }
    report(`${path} names a conflict before the review is opened`, seen, words);
  }
  // A question is no silence, however long it waits for its answer.
  await lists.goto('/board');
  const waiter = await lists.page.locator('.card', { hasText: 'Announce version 1.0' }).textContent();
  report('a task behind a question says so', waiter.includes('which asks you'), waiter);
  // The view of silent agents is a link: the span and the view are in its address.
  await lists.goto('/agents?span=3h');
  const everyone = await lists.page.locator('table.agents tbody tr').count();
  const taken = await lists.page.locator('#facts').textContent();
  report('the page of agents says how many places are taken', /\d+ of \d+ places taken/.test(taken), taken);
  const counts = [];
  for (const path of ['/', '/board', '/agents']) {
    await lists.goto(path);
    counts.push(await lists.page.locator('#at-work').textContent(), (await lists.page.locator('#facts').textContent()).trim().slice(0, 15));
  }
  // The others are silent or ask.
  report('every screen has the same number of agents at work', counts.every((count) => /^1 (at work|agent at work)/.test(count)), counts);
  await lists.goto('/agents');
  const usual = await lists.page.locator('nav[aria-label=Span] [aria-current=page]').textContent();
  report('a young board opens its agents with a short span', ['10 min', '1 h'].includes(usual), usual);
  await lists.goto('/agents?span=3h');
  await lists.page.locator('nav[aria-label=Views] a', { hasText: 'Silent' }).click();
  await lists.page.waitForURL(/span=3h&view=silent/, { timeout: SOON });
  const silent = await lists.page.locator('table.agents tbody tr').allTextContents();
  const only = silent.length > 0 && silent.length < everyone && silent.every((row) => row.includes('silent'));
  report('the view of silent agents lists only those', only, { everyone, silent });
  await lists.page.locator('nav[aria-label=Span] a', { hasText: '12 h' }).click();
  await lists.page.waitForURL(/span=12h&view=silent/, { timeout: SOON });
  report('another span keeps the view', (await lists.page.locator('[aria-current=page]', { hasText: 'Silent' }).count()) === 1, lists.page.url());
  // The filter language on jobs.
  const jobs = async (query) => (await lists.goto(`/jobs?${query}`), lists.page.locator('.jobs tbody tr').allTextContents());
  const every = await jobs('');
  const found = await jobs('q=GREET+actor:you+-moon');
  const fits = found.length > 0 && found.length < every.length && found.every((row) => /greet/i.test(row));
  report('jobs are found by the filter', fits, { every, found });
  const none = await jobs('q=since:1d+epic:nothing-like-it');
  const drop = await lists.page.locator('#jobs a', { hasText: 'Drop the filter' }).getAttribute('href');
  report('a filter of jobs without a hit can be dropped', none.length === 0 && drop === '/jobs', { none, drop });
  await jobs('q=verb:task.claimed&state=failed');
  const hint = await lists.page.locator('.filter-hint').textContent();
  const tab = await lists.page.locator('nav[aria-label="Which jobs"] a').last().getAttribute('href');
  report('a key that says nothing of jobs is a hint', /another key was left out/.test(hint), hint);
  report('the states of jobs keep the filter', tab === '/jobs?state=expired&q=verb:task.claimed', tab);
  // A menu of a card stands over the links of that card.
  await lists.goto('/board');
  const waits = lists.page.locator('.card', { hasText: 'Announce version 1.0' });
  await waits.hover();
  await waits.locator('.tools summary').click();
  const covered = await waits.locator('.tools .menu[open] > :last-child').evaluate((menu) => {
    const { left, top, width, height } = menu.getBoundingClientRect();
    const places = [0.2, 0.5, 0.8].flatMap((x) => [0.2, 0.4, 0.6, 0.8].map((y) => [left + width * x, top + height * y]));
    return places.filter(([x, y]) => !menu.contains(document.elementFromPoint(x, y)));
  });
  report('nothing stands over an open menu of a card', covered.length === 0, covered);
  // All tasks of the demo were closed today: the chart of lead times has one place with values, and says them.
  for (let n = 0; n < 9; n++) {
    const { id } = await board.ask('agent:eva', 'create', { title: `Small step ${n}` });
    await board.ask('agent:eva', 'claim', { id });
    for (const to of ['in_progress', 'done']) await board.ask('agent:eva', 'transition', { id, to });
  }
  await lists.goto('/stats');
  const plot = lists.page.locator('#chart-lead svg, #chart-lead-time svg').first();
  const marks = await plot.locator('circle.mark').count();
  report('a chart of a single day says its values', marks === 2 && /Median .*p90|p90 .*Median/.test(await plot.textContent()), marks);

  // An agent that takes a task with its digest uses the entries of the digest.
  board.cli('learn', 'Greetings are tested in every language', '--body', 'greet greeting languages polite test');
  const { id: polite } = board.json('task', 'add', 'Greet in every language, and test the greetings', '--body', 'greet greeting languages polite test', '--priority', '0');
  const { tasks } = await board.ask('agent:eva', 'get_next_actionable', { limit: 20 }, 'execution');
  const offered = tasks.find((task) => JSON.stringify(task).includes(polite));
  await board.ask('agent:eva', 'claim_task', { taskId: polite }, 'execution');
  await lists.goto('/knowledge');
  const known = await lists.page.locator('li', { hasText: 'Greetings are tested in every language' }).first().textContent();
  report('an entry names the task that used it', /used by .*Greet in every language.*eva/.test(known), { known, offered });
  await lists.goto('/tasks/NOTHING-77');
  const way = await lists.page.locator('a[href="/search?q=NOTHING-77"]').count();
  report('a page that is missing names what was looked for', (await lists.shows('NOTHING-77')) && way === 1, way);
  await lists.close();

  // Panels are closed on every page above.
  for (const theme of THEMES) {
    for (const width of WIDTHS) {
      const tab = await Tab.open(browser, board, { theme, width });
      for (const path of PANELS) await panels(tab, path, path.replace(/{(.*)}/, (_, name) => IDS[name]?.(board) ?? board.task(name)));
      await tab.close();
    }
  }

  {
    // A menu leaves the page as it is, and the form that edits a task opens from its link, too.
    const menus = await Tab.open(browser, board);
    await menus.goto(`/tasks/${board.task('Publish version 1.0')}`);
    const top = () => menus.page.locator('.phases').evaluate((phases) => phases.getBoundingClientRect().top);
    const before = await top();
    await menus.page.keyboard.press('.');
    const more = await menus.page.locator('.others[open]').count();
    report('More opens over the page', more === 1 && (await top()) === before, { more, before, after: await top() });
    await menus.page.keyboard.press('Escape');
    await menus.page.getByRole('button', { name: 'Add one' }).click();
    const edits = await menus.page.locator('#edit-title').evaluate((field) => field.checkVisibility());
    report('a task without checks offers the form for one', edits && (await top()) === before, edits);
    await menus.goto(`/jobs/${job(board, 'SUCCEEDED')}`);
    const notes = await menus.page.locator('#log-notes').getAttribute('open');
    const words = await menus.page.locator('#log').textContent();
    report('the notes of a run are folded', notes === null && !words.includes('callboard: '), { notes, words });
    await menus.goto('/board');
    const terms = await menus.page.locator('#filter-terms option').evaluateAll((all) => all.map((one) => one.value));
    const completes = ['actor:ada', 'check:fail', 'phase:review'].every((term) => terms.includes(term)) && terms.some((term) => /^epic:DEMO-/.test(term));
    report('the filter completes actors, epics and words', completes, terms);
    // The record does not move: new events wait until they are asked for.
    await menus.goto('/audit');
    const newest = () => menus.page.locator('#events tr').first().getAttribute('id');
    const known = await newest();
    board.cli('task', 'add', 'One more event');
    await menus.page.locator('button.held').waitFor({ timeout: SOON });
    const kept = (await newest()) === known;
    await menus.page.keyboard.press('s');
    report('new events wait until they are asked for', kept && (await newest()) !== known, { known, now: await newest() });
    // A row that leaves under the pointer stays, and says why.
    await menus.goto('/board');
    await menus.page.locator('.live[data-state=live]').waitFor({ timeout: SOON });
    const leaves = menus.page.locator('.column > ul > li', { hasText: 'One more event' }).first();
    await leaves.hover();
    board.call('human:ana', 'transition', { id: board.task('One more event'), to: 'canceled' });
    const why = await menus.page.locator('.is-gone .left').textContent({ timeout: SOON }).catch(String);
    report('a row that left says why', /to canceled/.test(why), why);
    await menus.close();
  }

  const plain = await Tab.open(browser, board, { script: false });
  for (const { name, path } of paths) {
    await plain.goto(path);
    let [whole, read] = [words.get(path), new Set(await text(plain.page))];
    const missing = () => whole.filter((word) => !read.has(word));
    if (missing().length > 0) {
      // Ages and silence change pages by themselves, so both ways are read again, one right after the other.
      const tab = await Tab.open(browser, board, {});
      await tab.goto(path);
      whole = await text(tab.page);
      await tab.close();
      await plain.goto(path);
      read = new Set(await text(plain.page));
    }
    const lost = missing();
    report(`${name} reads without JavaScript`, whole.length > 0 && lost.length === 0, { lost, words: whole.length });
  }
  await plain.close();

  const reader = await Tab.open(browser, board, { signIn: false });
  for (const { name, path } of paths) {
    await reader.goto(path);
    const forms = await reader.page.locator('main form[method=post]').count();
    report(`${name} has no form for a reader who did not sign in`, forms === 0, { forms });
  }
  await reader.close();

  {
    // A server that is away is said, and nothing is sent to it.
    const gone = await Board.fresh('gone');
    gone.cli('task', 'add', 'Stay');
    const left = await Tab.open(browser, gone);
    await left.goto(`/tasks/${gone.task('Stay')}`);
    await left.page.locator('.live[data-state=live]').waitFor({ timeout: SOON });
    await gone.stop();
    const away = left.page.locator('main > .away');
    const said = await away.textContent({ timeout: SOON });
    const send = left.page.locator('main form[action$="/tell"] button').last();
    report('a server that is away is said, and forms wait', /^As of .*the server is away/.test(said) && (await send.isDisabled()), said);
    await gone.serve();
    await away.waitFor({ state: 'detached', timeout: 2 * SOON });
    report('forms go on when the server is back', !(await send.isDisabled()), await away.count());
    await left.close();
  }

  // With a token the board is closed, and the page of a stranger is the form for the token.
  const closed = await Board.fresh('closed');
  const { token } = closed.json('token', 'add', '--actor', 'human:ana');
  for (const theme of THEMES) {
    for (const width of WIDTHS) {
      for (const script of [true, false]) {
        const name = `sign-in ${theme} at ${width} px ${script ? 'with' : 'without'} JavaScript`;
        const tab = await Tab.open(browser, closed, { theme, width, script, signIn: false });
        await tab.goto('/mail');
        // The status of the page itself is 401, and the console says so.
        report(name, ...(await sound(tab, 'sign-in', { errors: false, script })));
        await tab.page.locator('input[name=token]').fill(token);
        await tab.page.locator('input[name=token]').press('Enter');
        await tab.page.waitForURL(`${closed.url}/mail`);
        const inside = (await tab.page.locator('input[name=token]').count()) === 0;
        report(`${name} leads back to the page`, inside, tab.page.url());
        await tab.goto('/');
        const ways = await tab.page.locator('.empty .charts > li').count();
        const [isSound, seen] = await sound(tab, 'begin', { errors: false, script });
        const pane = await tab.page.locator('.split-pane').isVisible();
        report(`${name}: a new board shows the ways to begin`, isSound && ways === 3 && !pane, { ...seen, ways, pane });
        await tab.close();
      }
    }
  }
});
