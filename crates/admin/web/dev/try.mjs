// Tries the page as an operator would, with the fixture server: keys, dialogs, token, reconnection, many tenants.
//
// `npm run try` starts its own servers. It fails with the first thing that is not as it should be.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const ARGUMENTS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const SERVER = fileURLToPath(new URL("server.mjs", import.meta.url));

async function serve(environment = {}, port = 0) {
  const child = spawn(process.execPath, [SERVER, String(port)], {
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const url of createInterface({ input: child.stdout })) return { url, child };
  throw new Error("the fixture server did not start");
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ARGUMENTS });
const faults = [];

async function open(url, hash = "") {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.on("pageerror", (error) => faults.push(error.message));
  page.on(
    "console",
    (message) => message.type() === "error" && !/401|404|422|ERR_/.test(message.text()) && faults.push(message.text()),
  );
  await page.addInitScript(() =>
    addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective}`)),
  );
  await page.goto(`${url}/${hash}`);
  return page;
}

const TRIALS = {
  async "space freezes the page, and no key acts in an input"(url) {
    const page = await open(url);
    await page.waitForSelector("[data-api=shop]");
    await page.keyboard.press("Space");
    const frozen = await page.locator("main .stack").innerHTML();
    await page.waitForTimeout(2500);
    assert.equal(await page.locator("main .stack").innerHTML(), frozen);
    await page.keyboard.press("Space");
    await page.waitForFunction((old) => document.querySelector("main .stack").innerHTML !== old, frozen);
    await page.keyboard.press("/");
    await page.keyboard.type("shop b");
    await page.waitForFunction(() => document.querySelectorAll("tbody[data-api]").length === 0);
    assert.equal(new URL(page.url()).hash, "");
    await page.close();
  },
  async "every view opens by its key"(url) {
    const page = await open(url);
    await page.waitForSelector("[data-api=shop]");
    for (const [key, title] of [
      ["b", "Bulk"],
      ["j", "Jobs"],
      ["d", "Dead letters"],
      ["x", "Explain"],
      ["e", "Events"],
      ["c", "Configuration"],
      ["g", "Overview"],
    ]) {
      await page.keyboard.press(key);
      await page.waitForFunction((text) => document.querySelector("h1")?.textContent === text, title);
    }
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[open]");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.close();
  },
  async "an override says what it will do, needs a reason, and can be released"(url) {
    const page = await open(url, "#/apis/tmdb");
    await page.getByRole("button", { name: "Override…" }).first().click();
    await page.getByText("46 waiting calls will be refused").waitFor();
    await page.getByRole("button", { name: "Override tmdb" }).click();
    assert.ok(await page.locator("dialog[open]").isVisible(), "without a reason it stays open");
    await page.locator("input[name=reason]").fill("a trial");
    await page.locator("select[name=state]").selectOption("offline");
    const sent = page.waitForRequest((request) => request.method() === "POST" && !request.postData().includes('"dry"'));
    await page.getByRole("button", { name: "Override tmdb" }).click();
    assert.deepEqual((await sent).postDataJSON(), { state: "offline", reason: "a trial" });
    await page.locator(".top .state", { hasText: "Sleep" }).waitFor();
    await page.getByRole("button", { name: "Release…" }).click();
    await page.getByRole("button", { name: "Release", exact: true }).click();
    await page.locator(".top .state", { hasText: "Normal" }).waitFor();
    await page.close();
  },
  async "deleting asks for the count"(url) {
    const page = await open(url, "#/dead?reason=500%20after%204%20attempts");
    await page.getByRole("button", { name: "Delete…" }).first().click();
    await page.locator("input[name=reason]").fill("a trial");
    const button = page.getByRole("button", { name: "Delete", exact: true });
    assert.ok(await button.isDisabled());
    await page.locator("input[name=count]").fill("13");
    assert.ok(await button.isDisabled());
    await page.locator("input[name=count]").fill("14");
    const sent = page.waitForRequest(
      (request) => request.url().endsWith("/purge") && !request.postData().includes('"dry"'),
    );
    await button.click();
    assert.deepEqual((await sent).postDataJSON(), { error: "500 after 4 attempts", reason: "a trial", expect: 14 });
    await page.locator(".notice").waitFor();
    await page.close();
  },
  async "an invalid value is refused in words"(url) {
    const page = await open(url, "#/apis/shop");
    await page.getByRole("button", { name: "Change limit…" }).click();
    await page.locator("input[name=value]").fill("");
    await page.getByText("is empty: write a rate").waitFor();
    await page.close();
  },
  async "10,214 tenants are sorted and searched by the server, in few rows"(url) {
    const page = await open(url, "#/bulk?rows=many");
    await page.waitForSelector("td.name");
    const tenants = page.locator("table", { hasText: "Tenants with their shares" }).locator("tbody tr");
    assert.equal(await tenants.count(), 50);
    await page.locator("input.q").fill("tenant-07");
    await page.waitForFunction(() => document.body.textContent.includes("of 1,000"));
    await page.getByRole("button", { name: "Next" }).click();
    await page.waitForFunction(() => document.body.textContent.includes("51–100"));
    assert.ok((await tenants.count()) <= 60);
    await page.close();
  },
  async "prints the longest task of ten seconds in each live view"(url) {
    for (const hash of ["", "#/apis/openai", "#/bulk?rows=many", "#/events"]) {
      const page = await open(url, hash);
      await page.waitForSelector("main .pane table");
      const longest = await page.evaluate(
        () =>
          new Promise((done) => {
            let longest = 0;
            new PerformanceObserver((list) =>
              list.getEntries().forEach((entry) => {
                longest = Math.max(longest, entry.duration);
              }),
            ).observe({ type: "longtask" });
            setTimeout(() => done(longest), 10_000);
          }),
      );
      console.log(`  longest task of ${hash || "#/overview"}: ${longest || "below 50"} ms`);
      await page.close();
    }
  },
  async "a hidden tab rests after a minute, and wakes"(url) {
    const page = await open(url);
    await page.waitForSelector("[data-api=shop]");
    await page.clock.install();
    const hide = (hidden) =>
      page.evaluate((value) => {
        Object.defineProperty(document, "hidden", { value, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, hidden);
    await hide(true);
    await page.clock.runFor(61_000);
    await page.locator(".live", { hasText: "Resting" }).waitFor();
    await hide(false);
    await page.locator(".live.on").waitFor();
    await page.close();
  },
  async "a state change is announced, and nothing else is live"(url) {
    const page = await open(url);
    await page.waitForSelector("[data-api=shop]");
    assert.equal(await page.locator("[aria-live]").count(), 1);
    const unnamed = await page.evaluate(
      () =>
        [...document.querySelectorAll("[role=img]")].filter((node) => !node.getAttribute("aria-label")).length +
        [...document.querySelectorAll("table")].filter((node) => !node.caption).length,
    );
    assert.equal(unnamed, 0);
    await page.close();
  },
  async "with a token nothing is shown without it"() {
    const { url, child } = await serve({ TOKEN: "secret" });
    const page = await open(url);
    await page.locator("#token").waitFor();
    assert.ok(!(await page.locator("body").textContent()).includes("shop"));
    await page.locator("#token").fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByText("This token is wrong").waitFor();
    await page.locator("#token").fill("secret");
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-api=shop]");
    assert.equal(
      await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])),
      '[{},{},""]',
    );
    await page.close();
    child.kill();
  },
  async "a restart reconnects, and keeps the history"() {
    const first = await serve();
    const page = await open(first.url, "#/apis/shop");
    await page.waitForSelector(".chart path.line");
    first.child.kill();
    await page.getByText("Not connected since").waitFor();
    assert.ok(await page.locator(".chart path.line").first().isVisible(), "the last picture stays");
    const again = await serve({}, Number(new URL(first.url).port));
    await page.locator(".live.on").waitFor({ timeout: 20_000 });
    await page.close();
    again.child.kill();
  },
};

const { url, child } = await serve();
try {
  for (const [name, trial] of Object.entries(TRIALS)) {
    await trial(url);
    assert.deepEqual(faults, [], name);
    console.log(`ok: ${name}`);
  }
} finally {
  await browser.close();
  child.kill();
}
