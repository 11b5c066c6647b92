// Succeeds if the packages beside this file's manifest are installed in their exact versions below the
// directory that it is told: the versions stand in one place, and an old installation is found out.

const { readFileSync } = require("node:fs");
const { join } = require("node:path");

const wanted = JSON.parse(readFileSync(join(__dirname, "package.json"))).dependencies;
const version = (name) =>
  JSON.parse(readFileSync(join(process.argv[2], "node_modules", name, "package.json"))).version;

process.exitCode = Object.keys(wanted).every((name) => version(name) === wanted[name]) ? 0 : 1;
