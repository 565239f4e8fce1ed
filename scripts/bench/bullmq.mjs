// One BullMQ process: a worker whose jobs do nothing. Begins at the line `go` and prints `TIME_OF_FIRST_JOB JOBS_FINISHED`
// whenever that has changed. A finished job is one whose completion Redis has answered.
import readline from "node:readline";
import { Worker } from "bullmq";

const [port, queue, concurrency] = process.argv.slice(2);
let first;
let finished = 0;
let said = 0;

process.stdout.write("ready\n");
for await (const line of readline.createInterface({ input: process.stdin })) {
  if (line !== "go") break;
  const nothing = async () => {
    first ??= Date.now();
  };
  const worker = new Worker(queue, nothing, {
    connection: { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null },
    concurrency: Number(concurrency),
  });
  worker.on("completed", () => { finished += 1; });
  worker.on("error", (error) => {
    console.error(error);
    process.exit(1);
  });
  setInterval(() => {
    if (finished > said) process.stdout.write(`${first} ${finished}\n`);
    said = finished;
  }, 5);
}
process.exit(0);
