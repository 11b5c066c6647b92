// The protocol of a peer: one command a line on its input, one answer a line on its output.
//
// The benchmark measures the time, so a peer only prints `done`, or more words after it. A failure ends the
// program, which the benchmark notices by the missing answer.

const { createInterface } = require("node:readline");

/** Runs commands, one after another, until the input ends. */
exports.serveCommands = async (commands) => {
  console.log("ready");
  for await (const line of createInterface({ input: process.stdin })) {
    const [word, ...rest] = line.split(" ");
    const answer = await commands[word](...rest);
    console.log(["done", ...(answer ?? [])].join(" "));
  }
  process.exit(0);
};

/** Returns a promise that resolves after `count` calls of `one`. */
exports.countdown = (count) => {
  let left = count;
  let resolveAll;
  const all = new Promise((resolve) => (resolveAll = resolve));
  const one = () => --left === 0 && resolveAll();
  return { all, one };
};
