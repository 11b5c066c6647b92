//! Scripts of the accounts, as server functions or as scripts.

use redis::Script;

use crate::redis::scripts::ScriptStep;

/// All steps of a ledger.
pub(super) struct LedgerScripts {
    /// Library text, which the server is given once.
    pub(super) library: String,
    /// Creates the identity of the ledger, and detects a replaced server.
    pub(super) init: &'static str,
    pub(super) renew: ScriptStep,
    pub(super) list_accounts: ScriptStep,
    pub(super) forget_account: ScriptStep,
}

impl LedgerScripts {
    pub(super) fn new() -> Self {
        let hash = Script::new(&format!("{BASE}{ACCOUNT}{STEPS}")).get_hash().to_owned();
        let name: String = format!("outflow_ledger_{}", hash.get(..12).unwrap_or_default());
        let step = |function: &str| step(&name, function);
        Self {
            library: library(&name),
            init: include_str!("../lua/ledger/init.lua"),
            renew: step("renew"),
            list_accounts: step("list_accounts"),
            forget_account: step("forget_account"),
        }
    }
}

/// Builds a step as a script. A full server allows further writes after one that needs no memory. The parts are
/// nested, because a function reaches names of an outer level faster than those of a long own level.
fn step(library: &str, function: &str) -> ScriptStep {
    let text = format!(
        "redis.pcall('HDEL', KEYS[1], '')\nlocal given = ARGV\n{BASE}\nreturn (function()\n{ACCOUNT}\n\
         return (function()\n{STEPS}\nopen_ledger(given)\nreturn {function}()\nend)()\nend)()"
    );
    ScriptStep {
        function: format!("{library}_{function}"),
        hash: Script::new(&text).get_hash().to_owned(),
        text,
    }
}

/// Builds the library. While a server loads a library it hides most of the language, so the first call sets
/// everything up.
fn library(name: &str) -> String {
    let registration = |function: &str| {
        format!(
            "redis.register_function{{ function_name = '{name}_{function}', flags = {{ 'allow-oom' }}, callback = \
             function(_, arguments) return run('{function}', arguments) end }}\n"
        )
    };
    let functions = FUNCTIONS.map(registration).concat();
    let table = FUNCTIONS.map(|function| format!("{function} = {function}, ")).concat();
    format!(
        "#!lua name={name}\nlocal function make()\n{BASE}\n{ACCOUNT}\n{STEPS}\nlocal steps = {{ {table} }}\n\
         return function(name, arguments)\nopen_ledger(arguments)\nreturn steps[name]()\nend\nend\n\
         local made\nlocal function run(name, arguments)\nmade = made or make()\nreturn made(name, arguments)\nend\n\
         {functions}"
    )
}

const FUNCTIONS: [&str; 3] = ["renew", "list_accounts", "forget_account"];

const BASE: &str = concat!(
    include_str!("../lua/ledger/call_state.lua"),
    include_str!("../lua/ledger/arrival_ring.lua"),
    include_str!("../lua/ledger/counted_limit.lua"),
);
const ACCOUNT: &str = concat!(
    include_str!("../lua/ledger/holders.lua"),
    include_str!("../lua/ledger/fair_order.lua"),
    include_str!("../lua/ledger/account.lua"),
);
const STEPS: &str = concat!(
    include_str!("../lua/ledger/renew.lua"),
    include_str!("../lua/ledger/list_accounts.lua"),
);
