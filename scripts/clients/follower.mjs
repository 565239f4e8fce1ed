// A model that knows callboard only from what it is told: the server's `instructions`, the text of one
// prompt, and the results of its calls. It calls a tool only if one of these names the tool, with
// arguments that are in the tool's schema, and with values that it has read. Words that it makes up
// itself (a summary, a line of progress) are marked with `own`.

import { dialects, json } from './scripts.mjs';

class Own extends String {}

// Words of the model itself.
export const own = (text) => new Own(text);

// `script` is for model.mjs; it takes its calls from `loop`, a generator (loops.mjs). `told` holds the
// texts that the server has for this client, as the lane fetched them. `seen` has the names of those that
// came in a request, `calls` the tools that were called, `faults` the rules that were broken.
export function follower(agent, loop) {
  const dialect = dialects[agent];
  const self = { told: {}, seen: new Set(), calls: new Set(), faults: [], script };
  return self;

  function* script(asked) {
    const instructions = found('instructions', asked) && self.told.instructions;
    // The whole message: opencode fills in what its user typed.
    const prompt = found('prompt', asked);
    const read = [instructions, prompt];
    const turns = loop(prompt);
    let turn = turns.next();
    for (let at = 0; !turn.done; at++) {
      const wish = turn.value;
      if (at === asked.results.length) judge(wish, read, asked.tools);
      const result = yield callOf(wish);
      read.push(result);
      turn = turns.next(wish.tool ? granted(wish.tool, result) : result);
    }
    return turn.value;
  }

  // The text of a request that has one of `told` in it.
  function found(name, { texts }) {
    const text = texts.find((given) => given.includes(self.told[name]));
    if (text) self.seen.add(name);
    return text ?? '';
  }

  function callOf({ tool, input, shell, resource }) {
    if (shell) return dialect.shell(shell);
    return resource ? dialect.resource(resource) : dialect.callboard(tool, input);
  }

  // A call that follows the texts must not be refused.
  function granted(tool, result) {
    const answer = json(result);
    if (answer.success === false) fail([`${tool} is refused: ${result}`]);
    return answer;
  }

  function judge(wish, read, tools) {
    const faults = wish.tool ? faultsOf(wish, read, tools[callOf(wish).tool]) : [];
    if (wish.resource && !isRead(wish.resource, read)) faults.push(`nothing names ${wish.resource}`);
    if (faults.length > 0) fail(faults);
    if (wish.tool) self.calls.add(wish.tool);
  }

  function fail(faults) {
    self.faults.push(...faults);
    throw new Error(faults.join('; '));
  }
}

function faultsOf({ tool, input = {} }, read, schema) {
  if (!schema) return [`${tool} is not offered`];
  const faults = isNamed(tool, read) ? [] : [`nothing names ${tool}`];
  const known = [...read, JSON.stringify(schema)];
  return [...faults, ...faultsIn(input, schema, `${tool} `, known)];
}

// A name with an underscore is no other word. A plain one, such as `get`, is a name in backticks, and
// in the instructions, which have none.
function isNamed(tool, [instructions, ...others]) {
  const word = new RegExp(`(?<![\\w-])${tool}(?![\\w-])`);
  const names = (text) => text.includes(`\`${tool}\``) || (tool.includes('_') && word.test(text));
  return word.test(instructions) || others.some(names);
}

function isRead(value, read) {
  const quoted = JSON.stringify(value).slice(1, -1);
  return read.some((text) => text.includes(value) || text.includes(quoted));
}

function faultsIn(value, schema, place, known) {
  if (value instanceof Own) return [];
  if (Array.isArray(value)) return value.flatMap((one) => faultsIn(one, schema.items ?? {}, place, known));
  if (typeof value === 'string') return isRead(value, known) ? [] : [`${place}: nothing says "${value}"`];
  if (typeof value !== 'object' || value === null) return [];
  const { properties = {}, required = [] } = schema;
  const missing = required.filter((name) => !(name in value)).map((name) => `${place}lacks ${name}`);
  const fields = Object.entries(value).flatMap(([name, one]) =>
    name in properties
      ? faultsIn(one, properties[name], `${place}${name} `, known)
      : [`${place}has no argument ${name}`],
  );
  return [...missing, ...fields];
}
