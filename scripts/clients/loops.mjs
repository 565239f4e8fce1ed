// The loops of agents that follow `start-work` or `review-queue` of each toolset, step by step. A loop
// gets the text of the prompt, yields `{tool, input}`, `{resource}` or `{shell}`, is given the result of
// each, and returns its last words. follower.mjs judges every call.

import { own } from './follower.mjs';

const POLLS_MAX = 100;

const use = (tool, input = {}) => ({ tool, input });
const shell = (command) => ({ shell: command });
const resource = (uri) => ({ resource: uri });
const commit = (folder, file) =>
  shell(`cd '${folder}' && echo done > ${file} && git add ${file} && git commit --quiet -m 'Add ${file}'`);

// The task and the actor that a prompt names; a task that the user typed comes first.
function named(prompt) {
  const [, next, actor] = /task (\S+) of this callboard,? as (\S+)\.\n/.exec(prompt);
  const typed = /use that task instead: "(\S+)"/.exec(prompt);
  return { task: typed ? typed[1] : next, actor };
}

// The tasks that a review queue lists.
function waiting(prompt) {
  return [...prompt.matchAll(/^- (\S+): /gm)].map(([, task]) => task);
}

// Repeats a call until its answer is the last one; the shell of each agent can wait.
function* poll(tool, input, isOver) {
  for (let polls = 0; polls < POLLS_MAX; polls++) {
    const seen = yield use(tool, input);
    if (isOver(seen)) return seen;
    yield shell('sleep 0.2');
  }
  throw new Error(`${tool} says nothing new`);
}

export function* graph(prompt) {
  const { task: id, actor } = named(prompt);
  yield use('get', { id });
  const begun = { id, expected_actor: actor, idempotency_key: own('led'), worktree: 'new' };
  const session = yield use('begin', begun);
  yield commit(session.live.worktree, 'graph.txt');
  yield use('heartbeat', { session: session.id, progress: own('The file is there.') });
  yield use('run_checks', { id });
  yield use('finish', { session: session.id, summary: own('graph.txt is there.') });
  return 'It is finished.';
}

export function* graphReview(prompt) {
  for (const id of waiting(prompt)) {
    const task = yield use('get', { id });
    yield use('get_session', { session: task.sessionId });
    yield use('run_checks', { id });
    yield use('transition', { id, to: 'done' });
  }
  return 'It is reviewed.';
}

export function* execution(prompt) {
  const { task: taskId } = named(prompt);
  yield use('get_task', { taskId });
  yield use('list_comments', { taskId });
  const { fence } = yield use('claim_task', { taskId });
  yield use('update_task_status', { taskId, status: 'in_progress', fence });
  yield shell('echo done > execution.txt');
  const learnings = [{ title: own('Where proofs are'), body: own('Beside the greeting.') }];
  yield use('complete_task', { taskId, output: own('execution.txt is there.'), learnings, fence });
  const isOver = ({ verificationStatus }) => verificationStatus !== 'pending';
  const { verificationStatus } = yield* poll('get_task', { taskId }, isOver);
  return verificationStatus === 'passed' ? 'It is finished.' : 'It has to be mended.';
}

export function* board(prompt) {
  const { task: task_id } = named(prompt);
  const { workspace_path, task_type } = yield use('get_context', { task_id });
  if (!workspace_path && task_type === 'AUTO') return yield* handOver(task_id);
  const opened = workspace_path ? {} : yield use('sessions_create', { task_id });
  yield commit(workspace_path ?? opened.worktree_path, 'board.txt');
  yield use('update_scratchpad', { task_id, content: own('board.txt is committed.') });
  yield use('request_review', { task_id, summary: own('Adds board.txt.') });
  return 'It is finished.';
}

function* handOver(task_id) {
  const work = { task_id, action: 'start_agent', arguments: { model: own('codex-works') } };
  const { job_id } = yield use('jobs_submit', work);
  yield use('jobs_wait', { job_id, task_id });
  yield use('tasks_wait', { task_id, wait_for_status: ['REVIEW'] });
  return 'It is finished.';
}

export function* boardReview(prompt) {
  for (const task_id of waiting(prompt)) {
    yield use('get_task', { task_id, include_review: true, include_logs: true });
    const { workspace_path } = yield use('get_context', { task_id });
    yield shell(`cd '${workspace_path}' && git log --stat main..`);
    yield use('review', { task_id, action: 'approve' });
    yield use('review', { task_id, action: 'merge' });
  }
  return 'It is reviewed.';
}

export function* relay(prompt) {
  const { task } = named(prompt);
  const description = yield resource(`callboard://tasks/${task}`);
  const place = yield shell('echo "$(pwd) on $(git branch --show-current) at $(git rev-parse HEAD)"');
  const [, path, baseBranch, baselineCommit] = /(\/\S+) on (\S+) at (\w{40})/.exec(place);
  const spec = {
    repo: { type: 'local', path, baseBranch, baselineCommit },
    task: { title: own('A kinder greeting'), description, acceptance: [] },
    scope: { readPaths: [], disallowReformatting: false },
    outputContract: ['DIFF', 'TEST_PLAN', 'NOTES'],
    execution: {
      preferredModel: own('codex-patches'),
      sandbox: 'read-only',
      askPolicy: 'untrusted',
      priority: 'P1',
      ttlS: 600,
    },
    idempotencyKey: task,
  };
  const { jobId } = yield use('jobs_submit', { spec });
  const over = ['SUCCEEDED', 'FAILED', 'CANCELED', 'EXPIRED'];
  const { artifacts, patch } = yield* poll('jobs_get', { jobId }, ({ state }) => over.includes(state));
  const read = yield resource(artifacts.patch);
  yield resource(artifacts.out);
  const tried = yield shell(`git apply --check - <<'PATCH' && echo It applies.\n${patch}PATCH`);
  return `It is finished. ${tried}\n${read}`;
}

export function* crewWorker() {
  const { data: task } = yield use('mcp__agent__get_task');
  yield use('mcp__mail__list_inbox');
  yield use('mcp__task__update_status', { status: 'IN_PROGRESS' });
  yield commit(task.worktreePath, 'crew.txt');
  yield use('mcp__system__log_decision', { title: own('One line'), body: own('An empty file is odd.') });
  yield use('mcp__task__update_status', { status: 'REVIEW' });
  return 'It is finished.';
}

export function* crewSupervisor() {
  yield use('mcp__agent__get_epic');
  yield use('mcp__mail__list_inbox');
  yield use('mcp__epic__list_tasks');
  const { data } = yield use('mcp__epic__get_review_queue');
  for (const { taskId } of data.queue) {
    yield use('mcp__epic__get_diff', { taskId });
    yield use('mcp__epic__approve_pr', { taskId });
  }
  yield use('mcp__epic__create_epic_pr');
  return 'It is reviewed.';
}

// The work of an agent that Callboard starts on a task.
export function works({ shell }) {
  return function* () {
    yield shell('echo done > auto.txt && git add auto.txt && git commit --quiet -m "Add auto.txt"');
    return 'auto.txt is there.\n<complete/>';
  };
}
