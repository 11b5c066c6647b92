// Permits of a shared limit: `node ledger.js rate-limiter-flexible|bottleneck PORT`.
//
// Command: `acquire N`. A hundred calls are in flight at once, on limits that are never full.

const { serveCommands } = require("./commands.js");

const IN_FLIGHT = 100;

/** Runs `permits` calls, a hundred at a time. */
const inFlight = async (permits, call) => {
  for (let left = permits; left > 0; left -= IN_FLIGHT) {
    const many = Math.min(left, IN_FLIGHT);
    await Promise.all(Array.from({ length: many }, (_, number) => call(number)));
  }
};

const rateLimiterFlexible = (port) => {
  const Redis = require("ioredis");
  const { RateLimiterRedis } = require("rate-limiter-flexible");
  const storeClient = new Redis({ port, host: "127.0.0.1" });
  const limiter = new RateLimiterRedis({ storeClient, points: 1e8, duration: 1, keyPrefix: "rlf" });
  return { acquire: (permits) => inFlight(Number(permits), (number) => limiter.consume(String(number))) };
};

const bottleneck = (port) => {
  const Redis = require("ioredis");
  const Bottleneck = require("bottleneck");
  const limiter = new Bottleneck({
    id: "bench",
    datastore: "ioredis",
    Redis,
    clearDatastore: true,
    clientOptions: { host: "127.0.0.1", port },
    reservoir: 1e8,
  });
  return { acquire: (permits) => inFlight(Number(permits), () => limiter.schedule(async () => {})) };
};

const [which, port] = process.argv.slice(2);
serveCommands({ "rate-limiter-flexible": rateLimiterFlexible, bottleneck }[which](Number(port)));
