// Jobs that call an API, through BullMQ with its limiter: `node bulk.js PORT`.
//
// The order is `run URL LIMIT TENANT=JOBS...`: so many jobs of each tenant, LIMIT a second for each. Limits
// for groups are not in the free edition, so each tenant has a queue of its own, with a limiter of its own
// and a worker of its own, as its manual advises. A refusal is answered as the manual says as well: the queue
// is held for as long as the API said, and the job goes back to it. Answers with how long it took in
// milliseconds, from the first job added to the last one completed, and how often the API refused.

const http = require("node:http");
const { Queue, Worker } = require("bullmq");
const { countdown, obey } = require("./lines.js");

const UNDER_WAY = 100;
const agent = new http.Agent({ keepAlive: true });

/** One call; the status and the wait that was told, in milliseconds. */
const call = (url, tenant) =>
  new Promise((resolve, reject) => {
    const told = (answer) => {
      answer.resume();
      const seconds = Number(answer.headers["retry-after"] ?? 1);
      answer.on("end", () => resolve({ status: answer.statusCode, wait: seconds * 1000 }));
    };
    http.get(url, { agent, headers: { "x-tenant": tenant } }, told).on("error", reject);
  });

const run = async (port, url, limit, wanted) => {
  const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
  const tenants = wanted.map((word) => word.split("="));
  const { all, one } = countdown(tenants.reduce((sum, [, jobs]) => sum + Number(jobs), 0));
  const limiter = { max: Number(limit), duration: 1000 };
  let refused = 0;
  const serve = (tenant) => {
    const queue = new Queue(tenant, { connection });
    const work = async (job) => {
      const { status, wait } = await call(`${url}/${tenant}/${job.data.number}`, tenant);
      if (status === 429) {
        refused += 1;
        await queue.rateLimit(wait);
        throw Worker.RateLimitError();
      }
    };
    const options = { connection, concurrency: UNDER_WAY, limiter, removeOnComplete: { count: 0 } };
    // A job that fails otherwise would never be counted, and the run never end.
    const failed = (_, error) => {
      console.error(error);
      process.exit(1);
    };
    const begin = () => new Worker(tenant, work, options).on("completed", one).on("failed", failed);
    return { queue, begin };
  };
  const lines = tenants.map(([tenant]) => serve(tenant));
  await Promise.all(lines.map(({ queue }) => queue.waitUntilReady()));
  const begun = performance.now();
  await Promise.all(
    lines.map(async ({ queue, begin }, place) => {
      const jobs = Array.from({ length: Number(tenants[place][1]) }, (_, number) => ({
        name: "call",
        data: { number },
      }));
      await queue.addBulk(jobs);
      begin();
    }),
  );
  await all;
  return [Math.round(performance.now() - begun), refused];
};

const port = Number(process.argv[2]);
obey({ run: (url, limit, ...tenants) => run(port, url, limit, tenants) });
