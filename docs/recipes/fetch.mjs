// fetch of Node (18 or newer) behind Outflow: only the base URL changes.

const outflow = process.env.OUTFLOW_URL ?? "http://127.0.0.1:7070";

// An ordinary call. It waits for its permit, and the response reports how long.
const first = await fetch(`${outflow}/demo/films/603`);
await first.arrayBuffer();
console.log(first.status, "after", first.headers.get("outflow-wait"), "s in the queue");

// Twenty at once, to an API that allows ten a second and throttles the rest: all get 200.
const numbers = Array.from({ length: 20 }, (_, number) => number);
const answers = await Promise.all(
  numbers.map(async (number) => {
    const answer = await fetch(`${outflow}/demo/films/${number}`);
    await answer.arrayBuffer();
    return answer.ok;
  }),
);
console.log(answers.filter(Boolean).length, "answered with 200");

// Options of this one call. Only the Idempotency-Key reaches the API; with it a POST may be retried.
const steered = await fetch(`${outflow}/demo/orders`, {
  method: "POST",
  body: JSON.stringify({ film: 603 }),
  headers: {
    "Content-Type": "application/json",
    "Outflow-Cost": "5",
    "Outflow-Priority": "high",
    "Outflow-Deadline": "10s",
    "Outflow-Group": "bulk",
    "Idempotency-Key": "order-7",
  },
});
await steered.arrayBuffer();
console.log("steered:", steered.status);

// Instead of waiting: a call that cannot go now is refused at once, and nothing is sent. Proxy-Status marks a
// refusal of Outflow.
const refused = await fetch(`${outflow}/demo/films/603`, {
  headers: { "Outflow-Mode": "reject", "Outflow-Cost": "10" },
});
if (refused.headers.get("proxy-status")?.startsWith("outflow;")) {
  const problem = await refused.json();
  console.log("refused:", refused.status, problem.type, "by", problem.limit);
  console.log("come back in", refused.headers.get("retry-after"), "s:", problem.advice);
}
