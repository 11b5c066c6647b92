import assert from "node:assert/strict";
import { test } from "node:test";
import { parseRoute, toAction, toApi, toJob, toTenant } from "../src/route";

// Names are whatever users chose: slashes, question marks and markup survive the way through an address.
test("a name survives its address", () => {
  for (const name of ["shop", "a/b", "a?b#c", "100 %", `<img onerror="x">`, "ümlaut"]) {
    assert.deepEqual([parseRoute(toApi(name)).view, parseRoute(toApi(name)).name], ["api", name]);
    assert.deepEqual([parseRoute(toJob(name)).view, parseRoute(toJob(name)).name], ["job", name]);
    assert.deepEqual([parseRoute(toTenant(name)).view, parseRoute(toTenant(name)).name], ["tenant", name]);
    assert.deepEqual([parseRoute(toAction(name)).view, parseRoute(toAction(name)).name], ["action", name]);
  }
});

test("an unknown address is the overview", () => {
  for (const hash of ["", "#", "#/", "#/nowhere", "#/apis/", "#/%E0%A4%A"])
    assert.equal(parseRoute(hash).view, "overview");
});

test("parameters follow the question mark", () => {
  const route = parseRoute("#/jobs?state=dead&tenant=a%20b");
  assert.deepEqual([route.view, route.query.get("state"), route.query.get("tenant")], ["jobs", "dead", "a b"]);
});
