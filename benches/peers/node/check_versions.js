// Succeeds if the packages of this folder's manifest are installed in their exact versions below the given
// directory. The manifest is the only place of the versions, and an old installation fails.

const { readFileSync } = require("node:fs");
const { join } = require("node:path");

const wanted = JSON.parse(readFileSync(join(__dirname, "package.json"))).dependencies;
const version = (name) =>
  JSON.parse(readFileSync(join(process.argv[2], "node_modules", name, "package.json"))).version;

process.exitCode = Object.keys(wanted).every((name) => version(name) === wanted[name]) ? 0 : 1;
