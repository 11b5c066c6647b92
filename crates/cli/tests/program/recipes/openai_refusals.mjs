// Meets every kind of refusal with OpenAI's library and prints what a user sees: one line of JSON each.

import OpenAI from "openai";

const outflow = process.env.OUTFLOW_URL;
const admin = process.env.OUTFLOW_ADMIN;
let requests = 0;

const client = (api, options = {}) =>
  new OpenAI({
    baseURL: `${outflow}/${api}`,
    apiKey: "kept by Outflow",
    fetch: (...request) => {
      requests += 1;
      return fetch(...request);
    },
    ...options,
  });

const question = { model: "m", messages: [{ role: "user", content: "Why?" }], max_tokens: 5 };
const ask = (headers, api = "chat") => client(api).chat.completions.create(question, { headers });

async function report(name, call) {
  requests = 0;
  try {
    await call();
    console.log(JSON.stringify({ name, requests }));
  } catch (error) {
    const { status, message, type, code } = error;
    const shouldRetry = error.headers?.get("x-should-retry");
    console.log(JSON.stringify({ name, status, message, type, code, shouldRetry, requests }));
  }
}

const health = (method, body) =>
  fetch(`${admin}/v1/apis/chat/health`, {
    method,
    headers: { "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
  });

await report("cost_too_high", () => ask({ "Outflow-Cost": "100000" }));
await report("unknown_group", () => ask({ "Outflow-Group": "none" }));
await report("control_header", () => ask({ "Outflow-Priority": "urgent" }));
await report("unknown_api", () => ask({}, "nowhere"));

// The first call takes the whole quota of the next ten seconds.
await ask({ "Outflow-Cost": "1000" });
await report("busy", () => client("chat", { maxRetries: 0 }).chat.completions.create(question, {
  headers: { "Outflow-Cost": "1000", "Outflow-Mode": "reject" },
}));
await report("too_late", () => client("chat", { maxRetries: 0 }).chat.completions.create(question, {
  headers: { "Outflow-Cost": "1000", "Outflow-Deadline": "1s" },
}));

// The time of the release is unknown, so a retry is pointless.
await health("POST", { state: "offline", reason: "maintenance" });
await report("blocked", () => ask({}));
await health("DELETE");

// The quota of this API is back within a second, so the library retries.
const items = client("demo");
const whole = { headers: { "Outflow-Cost": "10", "Outflow-Mode": "reject" } };
await items.get("/items", whole);
await report("retried", () => items.get("/items", whole));
