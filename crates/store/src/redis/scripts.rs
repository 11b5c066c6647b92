//! Steps of the store, as server functions or as scripts.
//!
//! A step applies completely or not at all. On a server with functions, one library holds all steps
//! and is set up once. Without functions, or where this user may not load any, each step is a
//! script that sets up its helpers on each call, in some tens of microseconds.
//!
//! The queue's identity is the only declared key. Other keys are built from the prefix, which holds
//! the queue's name in braces: a cluster keeps all of them on one node.

use redis::Script;

/// One step as it is sent.
pub(super) struct ScriptStep {
    /// Function name in the library.
    pub(super) function: String,
    /// Script text for servers without the library.
    pub(super) text: String,
    pub(super) hash: String,
}

/// All steps.
pub(super) struct Scripts {
    /// Library text, which the server is given once.
    pub(super) library: String,
    /// Creates the queue, and detects a replaced server.
    pub(super) init: &'static str,
    pub(super) submit: ScriptStep,
    pub(super) claim: ScriptStep,
    /// Counts a start outside of a claim.
    pub(super) count_start: ScriptStep,
    pub(super) settle: ScriptStep,
    pub(super) heartbeat: ScriptStep,
    pub(super) reap: ScriptStep,
    pub(super) release_unknown: ScriptStep,
    pub(super) rule: ScriptStep,
    pub(super) action: ScriptStep,
    /// Hands out ends of actions for notification.
    pub(super) finished: ScriptStep,
    pub(super) scope_ops: ScriptStep,
    pub(super) query: ScriptStep,
    pub(super) dead_letters: ScriptStep,
    pub(super) collect_garbage: ScriptStep,
    pub(super) snapshot: ScriptStep,
}

impl Scripts {
    pub(super) fn new() -> Self {
        let parts: Vec<String> = SOURCES.iter().map(ScriptSource::body).collect();
        let name = library_name(&parts);
        let [
            submit,
            claim,
            count_start,
            settle,
            heartbeat,
            reap,
            release_unknown,
            rule,
            action,
            finished,
            scope_ops,
            query,
            dead_letters,
            collect_garbage,
            snapshot,
        ] = SOURCES.map(|source| source.step(&name));
        Self {
            library: library(&name, &parts),
            init: include_str!("lua/init.lua"),
            submit,
            claim,
            count_start,
            settle,
            heartbeat,
            reap,
            release_unknown,
            rule,
            action,
            finished,
            scope_ops,
            query,
            dead_letters,
            collect_garbage,
            snapshot,
        }
    }
}

/// Lua sources of a step.
struct ScriptSource {
    name: &'static str,
    /// Fast path, which registers the step itself; empty if there is only the general path.
    fast: &'static str,
    general: &'static str,
    flags: &'static str,
}

impl ScriptSource {
    const fn new(name: &'static str, general: &'static str) -> Self {
        Self {
            name,
            fast: "",
            general,
            flags: WHEN_FULL,
        }
    }

    const fn with_flags(self, flags: &'static str) -> Self {
        Self { flags, ..self }
    }

    /// Adds a fast path in front.
    const fn with_fast_path(self, fast: &'static str) -> Self {
        Self { fast, ..self }
    }

    fn body(&self) -> String {
        let Self {
            name, fast, general, ..
        } = self;
        if fast.is_empty() {
            return format!("steps.{name} = function()\n{general}\nend\n");
        }
        format!("do\n{fast}\ngeneral = function()\n{general}\nend\nend\n")
    }

    /// Returns the first line of the script. A script has no flags, but a full server allows
    /// further writes after one that needs no memory.
    fn preamble(&self) -> &'static str {
        if self.flags == WHEN_FULL {
            "redis.pcall('HDEL', KEYS[1], '')\n"
        } else {
            ""
        }
    }

    /// Builds the step as a script.
    ///
    /// Common parts are nested functions, which parse at no cost and run much faster: a name of the own
    /// level is searched along the whole stack, a name of an outer level is direct, up to 60 names. All
    /// parts on one level took 100 µs to set up. The library is set up once, so there they are on one
    /// level.
    fn step(&self, library: &str) -> ScriptStep {
        let (name, preamble, body) = (self.name, self.preamble(), self.body());
        let [common, tenants, jobs] = COMMON;
        let text = format!(
            "{preamble}local steps, given = {{}}, ARGV\n{common}\nreturn (function()\n{tenants}\nreturn (function()\n\
             {jobs}\n{body}\nreturn run(steps.{name}, given)\nend)()\nend)()"
        );
        ScriptStep {
            function: format!("{library}_{name}"),
            hash: Script::new(&text).get_hash().to_owned(),
            text,
        }
    }

    fn registration(&self, library: &str) -> String {
        let Self { name, flags, .. } = self;
        format!(
            "redis.register_function{{ function_name = '{library}_{name}', flags = {{ {flags} }}, \
             callback = function(_, arguments) return take('{name}', arguments) end }}\n"
        )
    }
}

/// Derives the library's name from its content, so that machines of two versions do not remove each
/// other's library during an upgrade.
fn library_name(parts: &[String]) -> String {
    let all = [COMMON.concat(), parts.concat()].concat();
    let hash: String = Script::new(&all).get_hash().chars().take(12).collect();
    format!("outflow_{hash}")
}

/// Builds the library of all steps. While a server loads a library it hides most of the language,
/// so the first call sets everything up.
fn library(name: &str, parts: &[String]) -> String {
    let functions = SOURCES.iter().map(|source| source.registration(name));
    let functions: String = functions.collect();
    format!(
        "#!lua name={name}\nlocal function make()\nlocal steps = {{}}\n{}\n{}\
         return function(name, arguments) return run(steps[name], arguments) end\nend\n\
         local made\nlocal function take(name, arguments)\nmade = made or make()\n\
         return made(name, arguments)\nend\n{functions}",
        COMMON.join("\n"),
        parts.concat()
    )
}

/// Parts that all steps share.
const COMMON: [&str; 3] = [
    concat!(include_str!("lua/common.lua"), include_str!("lua/struct_formats.lua")),
    include_str!("lua/tenants_in_lane.lua"),
    concat!(include_str!("lua/jobs.lua"), include_str!("lua/start_counts.lua")),
];

/// Flags of functions. A full server takes no new jobs, but hands out and settles those it has, and
/// lets an operator pause them.
const WHEN_FULL: &str = "'allow-oom'";
const NOT_WHEN_FULL: &str = "";
const READ_ONLY: &str = "'no-writes'";

const SOURCES: [ScriptSource; 15] = [
    ScriptSource::new("submit", include_str!("lua/submit/general.lua"))
        .with_fast_path(include_str!("lua/submit/fast.lua"))
        .with_flags(NOT_WHEN_FULL),
    ScriptSource::new(
        "claim",
        concat!(
            include_str!("lua/claim/general.lua"),
            include_str!("lua/claim/rounds.lua"),
            include_str!("lua/claim/dispense.lua")
        ),
    )
    .with_fast_path(include_str!("lua/claim/fast.lua")),
    ScriptSource::new("count_start", include_str!("lua/count_start.lua")),
    ScriptSource::new("settle", include_str!("lua/settle/general.lua"))
        .with_fast_path(include_str!("lua/settle/fast.lua")),
    ScriptSource::new("heartbeat", include_str!("lua/heartbeat.lua")),
    ScriptSource::new("reap", include_str!("lua/reap.lua")),
    ScriptSource::new("release_unknown", include_str!("lua/release_unknown.lua")),
    ScriptSource::new("rule", include_str!("lua/rule.lua")),
    ScriptSource::new("action", include_str!("lua/action.lua")),
    ScriptSource::new("finished", include_str!("lua/finished.lua")),
    ScriptSource::new("scope_ops", include_str!("lua/scope_ops.lua")),
    ScriptSource::new("query", include_str!("lua/query.lua")).with_flags(READ_ONLY),
    ScriptSource::new("dead_letters", include_str!("lua/dead_letters.lua")),
    ScriptSource::new("collect_garbage", include_str!("lua/collect_garbage.lua")),
    ScriptSource::new("snapshot", include_str!("lua/snapshot.lua")),
];

/// Fixed keys of a queue, in order: identity and counters; tenants; leases of sessions; used job
/// names; lanes with work; idle tenants by the end of their work; all tenants by name; dead letters
/// by place; actions by name, by timeout, by removal time, and those whose end is to be notified;
/// damaged entries; rules of tenants; rarely used fields of tenants.
pub(super) const KEYS: [&str; 15] = [
    "epoch", "t", "sessions", "names", "lanes", "idle", "who", "dead", "actions", "adue", "aend", "ripe", "broken",
    "rules", "rest",
];

#[cfg(test)]
mod tests {
    use super::*;

    // The steps are bound to their fields by position.
    #[test]
    fn each_step_calls_the_function_of_its_name() {
        let scripts = Scripts::new();
        let steps = [
            (&scripts.submit, "_submit"),
            (&scripts.claim, "_claim"),
            (&scripts.count_start, "_count_start"),
            (&scripts.settle, "_settle"),
            (&scripts.heartbeat, "_heartbeat"),
            (&scripts.reap, "_reap"),
            (&scripts.release_unknown, "_release_unknown"),
            (&scripts.rule, "_rule"),
            (&scripts.action, "_action"),
            (&scripts.finished, "_finished"),
            (&scripts.scope_ops, "_scope_ops"),
            (&scripts.query, "_query"),
            (&scripts.dead_letters, "_dead_letters"),
            (&scripts.collect_garbage, "_collect_garbage"),
            (&scripts.snapshot, "_snapshot"),
        ];
        for (step, name) in steps {
            assert!(step.function.ends_with(name), "{} is no {name}", step.function);
        }
    }
}
