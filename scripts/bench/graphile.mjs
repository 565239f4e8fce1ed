// One graphile-worker process: real workers without a local queue, a task that does nothing. Begins
// at the line `go` and prints `TIME_OF_FIRST_JOB JOBS_RUN` whenever that has changed.
import readline from "node:readline";
import { Logger } from "@graphile/logger";
import { run } from "graphile-worker";

const [url, schema, concurrency, completeJobBatchDelay] = process.argv.slice(2);
let first;
let ran = 0;
let said = 0;
const nothing = () => {
  first ??= Date.now();
  ran += 1;
};
const quiet = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});
const worker = {
  connectionString: url,
  schema,
  concurrentJobs: Number(concurrency),
  // A connection for every worker, and some for completions and the listener.
  maxPoolSize: Number(concurrency) + 4,
  completeJobBatchDelay: Number(completeJobBatchDelay),
  logger: quiet,
};

process.stdout.write("ready\n");
for await (const line of readline.createInterface({ input: process.stdin })) {
  if (line !== "go") break;
  const runner = await run({ taskList: { nothing }, preset: { worker }, noHandleSignals: true });
  runner.promise.catch((error) => {
    console.error(error);
    process.exit(1);
  });
  setInterval(() => {
    if (ran > said) process.stdout.write(`${first} ${ran}\n`);
    said = ran;
  }, 10);
}
process.exit(0);
