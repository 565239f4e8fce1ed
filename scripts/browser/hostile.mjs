// Texts that agents wrote to harm a reader: they are shown as text, run nothing, load nothing, reorder nothing around
// them and make no page wider than its window.

import { Board, Tab, WIDTHS, lane, report } from './board.mjs';

const ESCAPE = '\u001b';
const RTL = '\u202egnp.exe\u2066';
const TEXTS = {
  script: '<script>globalThis.owned = 1</script>',
  image: '"><img src=x onerror="globalThis.owned = 1">',
  link: '<a href="javascript:globalThis.owned = 1">go</a>',
  reversed: `invoice ${RTL} end`,
  long: 'W'.repeat(200),
  emoji: '👩‍👩‍👧‍👦🏴‍☠️ e\u0301\u0301\u0301',
  colours: `${ESCAPE}[31mred${ESCAPE}[0m ${ESCAPE}]8;;http://elsewhere.example/\u0007link${ESCAPE}]8;;\u0007`,
};
const ALL = Object.values(TEXTS).join(' ');

// What a page shows, and what ran in it.
const look = (page) =>
  page.evaluate(() => {
    const reordered = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const node = texts.currentNode;
      if (!/[\u202a-\u202e\u2066-\u2069]/.test(node.data)) continue;
      // The nearest element that ends the effect of the characters must hold nothing but the hostile text.
      let box = node.parentElement;
      while (box && getComputedStyle(box).unicodeBidi === 'normal') box = box.parentElement;
      const rest = box ? box.textContent.replace(node.data, '').replace(/\s+/g, '') : 'the page';
      if (rest !== '') reordered.push(`${box?.tagName}: ${rest.slice(0, 60)}`);
    }
    return {
      owned: globalThis.owned,
      text: document.body.textContent,
      images: document.querySelectorAll('img[src=x]').length,
      scripts: [...document.scripts].filter((script) => !script.src).length,
      links: [...document.links].filter((link) => !/^https?:/.test(link.protocol)).length,
      controls: document.body.textContent.includes('\u001b'),
      reordered,
    };
  });

await lane('hostile', async (browser) => {
  const board = await Board.fresh('hostile');
  const boss = 'agent:boss';
  board.cli('agent', 'add', 'boss', '--type', 'SUPERVISOR');
  board.cli('agent', 'add', 'W'.repeat(100), '--type', 'WORKER');
  const attempt = (...words) => {
    try {
      return board.cli(...words);
    } catch {
      return 'refused';
    }
  };
  const named = attempt('agent', 'add', TEXTS.script, '--type', 'WORKER');
  report('an agent with a hostile name is refused', named === 'refused', named);

  const task = board.call(boss, 'create', { title: ALL, body: `${ALL}\n\n${ALL}`, checks: [{ desc: ALL, cmd: 'true' }] }).id;
  board.call(boss, 'note', { id: task, text: ALL });
  board.call(boss, 'comment_on_task', { taskId: task, kind: 'note', body: ALL });
  for (const subject of Object.values(TEXTS)) {
    board.call(boss, 'mcp__mail__send', { toHuman: true, subject, body: `${ALL}\n${ALL}` });
  }
  board.call(boss, 'mcp__system__log_decision', { title: ALL, body: ALL });
  const session = board.call(boss, 'begin', { id: task, expected_actor: boss, idempotency_key: 'k', client: 'hostile' });
  board.call(boss, 'heartbeat', { session: session.id, progress: ALL });

  for (const width of WIDTHS) {
    const tab = await Tab.open(browser, board, { width });
    await tab.goto('/mail');
    const letter = await tab.page.locator('a[href^="/mail/"]').first().getAttribute('href');
    const pages = { inbox: '/', board: '/board', task: `/tasks/${task}`, events: `/tasks/${task}?show=events`, new: `/tasks/new?title=${encodeURIComponent(ALL)}&deps=${encodeURIComponent(TEXTS.script)}&check1=${encodeURIComponent(ALL)}`, mail: '/mail', letter, agents: '/agents', decisions: '/decisions' };
    for (const [name, path] of Object.entries(pages)) {
      await tab.goto(path);
      const seen = await look(tab.page);
      const at = `hostile texts on ${name} at ${width} px`;
      const nothing = seen.owned === undefined && seen.images + seen.scripts + seen.links === 0;
      report(`${at} run nothing`, nothing, { ...seen, text: undefined });
      if (name !== 'agents') report(`${at} are shown as text`, seen.text.includes(TEXTS.script), path);
      report(`${at} have no control characters`, !seen.controls, path);
      report(`${at} reorder nothing around them`, seen.reordered.length === 0, seen.reordered);
      const sideways = await tab.sideways();
      report(`${at} do not scroll sideways`, sideways <= 0, sideways);
      const barriers = await tab.barriers();
      report(`${at} leave no barrier`, barriers.length === 0, barriers);
      await tab.shot(`hostile ${name}`);
    }
    report(`hostile texts at ${width} px ask nothing of other origins`, tab.outside.length === 0, tab.outside);
    report(`hostile texts at ${width} px leave the console clean`, tab.broken.length === 0, tab.broken);
    await tab.close();
  }
});
