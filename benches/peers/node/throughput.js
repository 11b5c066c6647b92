// No-op jobs through a queue: `node throughput.js bullmq|bee-queue PORT`.
//
// Commands: `enqueue N` and `drain N`. Both queues are set up for speed as their manuals advise: jobs are added
// in bulk, a hundred are in flight at once, finished ones are removed, and unused events are off. The record is
// a text that takes 105 bytes in the store.

const { countdown, serveCommands } = require("./commands.js");

const IN_BULK = 1000;
const IN_FLIGHT = 100;
const RECORD = { r: "x".repeat(105 - '{"r":""}'.length) };

/** Adds `jobs` records, a thousand at a time. */
const inBulk = async (jobs, add) => {
  for (let left = jobs; left > 0; left -= IN_BULK) {
    await add(Math.min(left, IN_BULK));
  }
};

const bullmq = (port) => {
  const { Queue, Worker } = require("bullmq");
  const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
  const defaultJobOptions = { removeOnComplete: true };
  const queue = new Queue("bench", { connection, defaultJobOptions });
  const enqueue = (jobs) =>
    inBulk(Number(jobs), (count) =>
      queue.addBulk(Array.from({ length: count }, () => ({ name: "j", data: RECORD }))),
    );
  const drain = async (jobs) => {
    const { all, one } = countdown(Number(jobs));
    const worker = new Worker("bench", async () => {}, { connection, concurrency: IN_FLIGHT });
    worker.on("completed", one);
    await all;
    await worker.close();
  };
  return { enqueue, drain };
};

const beeQueue = (port) => {
  const Queue = require("bee-queue");
  const quiet = { redis: { port }, getEvents: false, sendEvents: false, storeJobs: false };
  const queue = new Queue("bench", { ...quiet, isWorker: false });
  const enqueue = (jobs) =>
    inBulk(Number(jobs), (count) =>
      queue.saveAll(Array.from({ length: count }, () => queue.createJob(RECORD))),
    );
  const drain = async (jobs) => {
    const { all, one } = countdown(Number(jobs));
    const worker = new Queue("bench", { ...quiet, removeOnSuccess: true });
    worker.process(IN_FLIGHT, async () => {});
    worker.on("succeeded", one);
    await all;
    await worker.close();
  };
  return { enqueue, drain };
};

const [which, port] = process.argv.slice(2);
serveCommands({ bullmq, "bee-queue": beeQueue }[which](Number(port)));
