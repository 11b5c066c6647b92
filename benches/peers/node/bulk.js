// Jobs that call an API, through BullMQ with its limiter: `node bulk.js PORT`.
//
// The command is `run URL LIMIT TENANT=JOBS...`: this many jobs of each tenant, LIMIT a second for each. The
// free edition has no group limits, so each tenant has its own queue, limiter and worker, as the manual
// advises. A throttle is handled as the manual says: the queue pauses for the time of the API, and the job
// returns to it. The answer is the time in milliseconds, from the first added job to the last completed one,
// and the number of throttles.

const http = require("node:http");
const { Queue, Worker } = require("bullmq");
const { countdown, serveCommands } = require("./commands.js");

const IN_FLIGHT = 100;
const agent = new http.Agent({ keepAlive: true });

/** Makes one call; resolves to the status and the requested wait in milliseconds. */
const call = (url, tenant) =>
  new Promise((resolve, reject) => {
    const onResponse = (response) => {
      response.resume();
      const seconds = Number(response.headers["retry-after"] ?? 1);
      response.on("end", () => resolve({ status: response.statusCode, wait: seconds * 1000 }));
    };
    http.get(url, { agent, headers: { "x-tenant": tenant } }, onResponse).on("error", reject);
  });

const run = async (port, url, limit, wanted) => {
  const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
  const tenants = wanted.map((word) => word.split("="));
  const { all, one } = countdown(tenants.reduce((sum, [, jobs]) => sum + Number(jobs), 0));
  const limiter = { max: Number(limit), duration: 1000 };
  let throttled = 0;
  const serve = (tenant) => {
    const queue = new Queue(tenant, { connection });
    const work = async (job) => {
      const { status, wait } = await call(`${url}/${tenant}/${job.data.number}`, tenant);
      if (status === 429) {
        throttled += 1;
        await queue.rateLimit(wait);
        throw Worker.RateLimitError();
      }
    };
    const options = { connection, concurrency: IN_FLIGHT, limiter, removeOnComplete: { count: 0 } };
    // A job that fails otherwise would never be counted, and the run would never end.
    const failed = (_, error) => {
      console.error(error);
      process.exit(1);
    };
    const begin = () => new Worker(tenant, work, options).on("completed", one).on("failed", failed);
    return { queue, begin };
  };
  const queues = tenants.map(([tenant]) => serve(tenant));
  await Promise.all(queues.map(({ queue }) => queue.waitUntilReady()));
  const begun = performance.now();
  await Promise.all(
    queues.map(async ({ queue, begin }, index) => {
      const jobs = Array.from({ length: Number(tenants[index][1]) }, (_, number) => ({
        name: "call",
        data: { number },
      }));
      await queue.addBulk(jobs);
      begin();
    }),
  );
  await all;
  return [Math.round(performance.now() - begun), throttled];
};

const port = Number(process.argv[2]);
serveCommands({ run: (url, limit, ...tenants) => run(port, url, limit, tenants) });
