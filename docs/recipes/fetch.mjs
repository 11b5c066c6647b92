// fetch of Node (18 or newer) behind Outflow: only the address is another.

const outflow = process.env.OUTFLOW_URL ?? "http://127.0.0.1:7070";

// An ordinary call. It waits for its permit, and the response reports how long.
const first = await fetch(`${outflow}/demo/films/603`);
await first.arrayBuffer();
console.log(first.status, "after", first.headers.get("outflow-wait"), "s in the queue");

// Twenty at once, to an API that allows ten a second and refuses the rest: all of them are answered.
const numbers = Array.from({ length: 20 }, (_, number) => number);
const answers = await Promise.all(
  numbers.map(async (number) => {
    const answer = await fetch(`${outflow}/demo/films/${number}`);
    await answer.arrayBuffer();
    return answer.ok;
  }),
);
console.log(answers.filter(Boolean).length, "answered with 200");

// What this one call is to be. Nothing of it reaches the API but the Idempotency-Key, with which a POST
// may be retried as well.
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

// Without patience: what cannot go now is refused at once, and nothing is sent. Proxy-Status tells a refusal
// of Outflow from one of the API.
const refused = await fetch(`${outflow}/demo/films/603`, {
  headers: { "Outflow-Mode": "reject", "Outflow-Cost": "10" },
});
if (refused.headers.get("proxy-status")?.startsWith("outflow;")) {
  const problem = await refused.json();
  console.log("refused:", refused.status, problem.type, "by", problem.limit);
  console.log("come back in", refused.headers.get("retry-after"), "s:", problem.advice);
}
