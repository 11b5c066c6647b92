import assert from "node:assert/strict";
import { test } from "node:test";
import { reconnectDelay } from "../src/net/backoff";
import { FrameParser } from "../src/net/frames";

// Every split of the text gives the same events: a network cuts where it likes.
test("frames are read whatever the pieces", () => {
  const text =
    ': here\n\nid: 7\nevent: tick\ndata: {"at":1}\n\nevent: bye\r\ndata: {"reason":\r\ndata: "idle"}\r\n\r\n';
  const expected = [
    { id: "7", event: "tick", data: '{"at":1}' },
    { id: "7", event: "bye", data: '{"reason":\n"idle"}' },
  ];
  for (let cut = 0; cut <= text.length; cut++) {
    const parser = new FrameParser();
    assert.deepEqual([...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut))], expected, `cut at ${cut}`);
  }
});

test("an unfinished frame is kept for the next piece", () => {
  const parser = new FrameParser();
  assert.deepEqual(parser.push("data: 1\n"), []);
  assert.deepEqual(
    parser.push("\n").map((event) => event.data),
    ["1"],
  );
});

test("the page reconnects ever later, and spreads", () => {
  assert.deepEqual(
    [0, 1, 2, 3, 4, 99].map((failures) => reconnectDelay(failures, 0.5)),
    [1000, 2000, 4000, 8000, 15_000, 15_000],
  );
  assert.deepEqual([reconnectDelay(0, 0), reconnectDelay(0, 1)], [800, 1200]);
});
