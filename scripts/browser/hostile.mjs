// Texts that agents wrote to harm a reader: they are shown as text, run nothing, load nothing, reorder nothing around
// them and make no page wider than its window.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Board, SOON, Tab, WIDTHS, lane, report } from './board.mjs';

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
// For titles that take fewer characters.
const FEW = [TEXTS.script, TEXTS.image, TEXTS.reversed].join(' ');
const FILE = `<img src=x onerror=owned=1> ${RTL}.txt`;

// Two agents of the board itself: what one prints and commits, and what the other asks, is hostile.
async function agents(board) {
  const folder = join(board.folder, '.callboard', 'hostile');
  mkdirSync(folder, { recursive: true });
  const kept = (name, text) => (writeFileSync(join(folder, name), text), join(folder, name));
  const said = kept('said.txt', `${Object.values(TEXTS).join('\n')}\n`);
  const options = [{ optionId: 'yes', kind: 'allow_once' }, { optionId: 'no', kind: 'reject_once' }];
  const toolCall = { toolCallId: 't', kind: 'execute', title: ALL, rawInput: { command: ALL } };
  const ask = kept('ask.json', `${JSON.stringify({ jsonrpc: '2.0', id: 'p', method: 'session/request_permission', params: { sessionId: 's1', toolCall, options } })}\n`);
  const speaker = kept('speaker.sh', `cat > /dev/null
set -e
cat '${said}'
cp '${said}' plain.txt
cp '${said}' "$(cat '${kept('name.txt', FILE)}')"
git add -A
git commit -q -F '${said}'
echo '<complete/>'
`);
  const asker = kept('asker.sh', `read -r hello
echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read -r new
echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'
read -r prompt
cat '${ask}'
read -r answer
`);
  const executor = (name, kind, script) => `[executors.${name}]\nkind = "${kind}"\ncommand = ["sh", ${JSON.stringify(script)}]\n`;
  const settings = 'general.auto_review = false\nrelay.sandbox = "executor"\nrunner.drain_s = 0\nrunner.kill_grace_s = 1\n';
  writeFileSync(join(board.folder, '.callboard', 'config.local.toml'), settings + executor('speaker', 'command', speaker) + executor('asker', 'acp', asker));
  await board.stop();
  await board.serve();
  const started = {};
  for (const name of ['speaker', 'asker']) {
    started[name] = board.json('task', 'add', `${name} ${FEW}`).id;
    board.cli('run', started[name], '--agent', name);
  }
  const job = (task) => board.json('job', 'list').works.find(({ taskId }) => taskId === task);
  const until = Date.now() + 3 * SOON;
  while (Date.now() < until && !(job(started.asker)?.question && board.json('task', 'show', started.speaker).status === 'in_review'));
  return { review: started.speaker, asking: started.asker, log: job(started.speaker).id, question: job(started.asker).id };
}

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

  const planned = { title: FEW, description: ALL, acceptance_criteria: [ALL], type: 'PAIR', priority: 'low' };
  const { plan_id: plan } = board.call('agent:planner', 'propose_plan', { tasks: [planned], todos: [{ content: FEW, status: 'completed' }] });
  board.call(boss, 'store_knowledge', { title: FEW, body: ALL, tags: ['x'], confidence: 50 });
  const epic = board.json('epic', 'add', FEW, '--description', ALL).id;
  const run = await agents(board);

  for (const width of WIDTHS) {
    const tab = await Tab.open(browser, board, { width });
    await tab.goto('/mail');
    const letter = await tab.page.locator('a[href^="/mail/"]').first().getAttribute('href');
    const pages = { inbox: '/', board: '/board', task: `/tasks/${task}`, events: `/tasks/${task}?show=events`, new: `/tasks/new?title=${encodeURIComponent(ALL)}&deps=${encodeURIComponent(TEXTS.script)}&check1=${encodeURIComponent(ALL)}`, mail: '/mail', letter, agents: '/agents', decisions: '/decisions',
      review: `/tasks/${run.review}/review`, worked: `/tasks/${run.review}`, asking: `/tasks/${run.asking}`, log: `/jobs/${run.log}`, question: `/jobs/${run.question}`, jobs: '/jobs', plan: `/plans/${plan}`, plans: '/plans', knowledge: '/knowledge', epic: `/tasks/${epic}`, audit: '/audit', search: `/search?q=${encodeURIComponent(TEXTS.script)}`, filter: `/board?q=${encodeURIComponent(`"${TEXTS.script}"`)}` };
    for (const [name, path] of Object.entries(pages)) {
      await tab.goto(path);
      const seen = await look(tab.page);
      const at = `hostile texts on ${name} at ${width} px`;
      const nothing = seen.owned === undefined && seen.images + seen.scripts + seen.links === 0;
      report(`${at} run nothing`, nothing, { ...seen, text: undefined });
      if (!['agents', 'audit', 'filter'].includes(name)) report(`${at} are shown as text`, seen.text.includes(TEXTS.script), path);
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
