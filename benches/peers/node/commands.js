// How a peer is talked with: one order a line on its input, one answer a line on its output.
//
// The benchmark keeps the watch, so a peer says nothing but `done` when it is done, or more words behind
// it. Whatever fails ends the program, which the benchmark notices by the missing answer.

const { createInterface } = require("node:readline");

/** Obeys orders, one after another, until the input ends. */
exports.obey = async (orders) => {
  console.log("ready");
  for await (const line of createInterface({ input: process.stdin })) {
    const [word, ...rest] = line.split(" ");
    const said = await orders[word](...rest);
    console.log(["done", ...(said ?? [])].join(" "));
  }
  process.exit(0);
};

/** A promise for the moment at which `count` things have happened, and what to call at each. */
exports.countdown = (count) => {
  let left = count;
  let over;
  const all = new Promise((resolve) => (over = resolve));
  const one = () => --left === 0 && over();
  return { all, one };
};
