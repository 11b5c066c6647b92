// Takes a picture of every view, wide and narrow, light and dark, and reports what no picture shows.
//
// `node dev/shots.mjs URL FOLDER [VIEW…]`

import { mkdir } from "node:fs/promises";
import { chromium } from "playwright-core";

const [url, folder, ...only] = process.argv.slice(2);
const EVIL = encodeURIComponent(`<img src=x onerror="document.title='owned'">`);
const VIEWS = {
  overview: "#/overview",
  api: "#/apis/openai",
  shared: "#/apis/shop",
  evil: `#/apis/${EVIL}`,
  bulk: "#/bulk",
  tenant: "#/bulk/tenants/bolt",
  action: "#/bulk/actions/repo-audit",
  jobs: "#/jobs?state=delayed",
  job: "#/jobs/orders-2026-11-17%3A4182",
  dead: "#/dead?reason=500%20after%204%20attempts",
  explain: "#/explain?id=x1",
  ask: "#/explain",
  events: "#/events",
  config: "#/config",
};
const DIALOGS = {
  "dialog-override": ["#/apis/openai", "Override…"],
  "dialog-limit": ["#/apis/openai", "Change limit…"],
  "dialog-cancel": ["#/bulk/actions/repo-audit", "Cancel jobs…"],
  "dialog-delete": ["#/dead?reason=500%20after%204%20attempts", "Delete…"],
};
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

await mkdir(folder, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ARGUMENTS });
const faults = new Set();

async function open(width, colorScheme) {
  const page = await browser.newPage({
    viewport: { width, height: width < 600 ? 844 : 900 },
    colorScheme,
    deviceScaleFactor: 1,
    reducedMotion: "reduce",
  });
  page.on(
    "console",
    (message) => ["error", "warning"].includes(message.type()) && faults.add(`${message.type()}: ${message.text()}`),
  );
  page.on("pageerror", (error) => faults.add(`exception: ${error.message}`));
  page.on("request", (request) => !request.url().startsWith(url) && faults.add(`foreign request: ${request.url()}`));
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) =>
      console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`),
    );
  });
  return page;
}

/** Reports what is wider than the page, and text that stands for a missing value. */
async function inspect(page, name) {
  const found = await page.evaluate(() => {
    const faults = [];
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > width) {
      const wide = [...document.querySelectorAll("main *")]
        .filter((element) => element.getBoundingClientRect().right > width + 1)
        .slice(0, 3);
      faults.push(
        `scrolls sideways: ${wide.map((element) => `${element.tagName}.${element.getAttribute("class")} ${element.textContent.slice(0, 30)}`).join(" | ")}`,
      );
    }
    for (const box of document.querySelectorAll(".tw"))
      if (width !== 1024 && box.scrollWidth > box.clientWidth + 1)
        faults.push(`table scrolls: ${box.textContent.slice(0, 40)}`);
    if (document.title === "owned" || document.querySelector("main img")) faults.push("a name became markup");
    for (const word of ["undefined", "NaN", "[object", "null"])
      if (document.body.innerText.includes(word)) faults.push(`shows ${word}`);
    const rows = document.querySelectorAll("tbody tr").length;
    if (rows > 200) faults.push(`${rows} rows`);
    return faults;
  });
  for (const fault of found) faults.add(`${name}: ${fault}`);
}

for (const [width, scheme] of [
  [1440, "light"],
  [1440, "dark"],
  [390, "light"],
  [390, "dark"],
  [1024, "light"],
]) {
  for (const [name, hash] of Object.entries(VIEWS)) {
    if (only.length && !only.includes(name)) continue;
    const page = await open(width, scheme);
    await page.goto(`${url}/${hash}`);
    await page.waitForSelector("main .pane, main .banner");
    await page.waitForTimeout(500);
    await inspect(page, `${name} ${width} ${scheme}`);
    await page.screenshot({ path: `${folder}/${name}-${width}-${scheme}.png`, fullPage: true });
    await page.close();
  }
  for (const [name, [hash, button]] of Object.entries(DIALOGS)) {
    if ((only.length && !only.includes(name)) || width === 1024) continue;
    const page = await open(width, scheme);
    await page.goto(`${url}/${hash}`);
    await page.getByRole("button", { name: button }).first().click();
    await page.waitForSelector("dialog .effects");
    await page.screenshot({ path: `${folder}/${name}-${width}-${scheme}.png` });
    await page.close();
  }
}
await browser.close();
for (const fault of faults) console.log(fault);
console.log(faults.size ? `${faults.size} faults` : "no faults");
