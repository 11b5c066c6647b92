//! The steps of the store, as functions of the server or as scripts.
//!
//! A step happens entirely or not at all. On a server that has functions, all of them are one library,
//! which is made once; on one that has none, or does not let this user have any, each is a script that
//! makes what it needs every time, for some tens of microseconds.
//!
//! The one key that is declared is the queue's identity. The others are made from the prefix, which holds
//! the queue's name in braces: a cluster keeps all of them on one node.

use redis::Script;

/// One step, as it is sent.
pub(super) struct ScriptStep {
    /// The function of the library.
    pub(super) function: String,
    /// The script, where there is no library.
    pub(super) text: String,
    pub(super) hash: String,
}

/// All of them.
pub(super) struct Scripts {
    /// What the server is given once.
    pub(super) library: String,
    /// Makes the queue, and notices a server that was replaced.
    pub(super) greet: &'static str,
    pub(super) submit: ScriptStep,
    pub(super) claim: ScriptStep,
    /// Debits a start outside of a claim, or gives one back.
    pub(super) limit: ScriptStep,
    pub(super) settle: ScriptStep,
    pub(super) beat: ScriptStep,
    pub(super) reap: ScriptStep,
    pub(super) disown: ScriptStep,
    pub(super) rule: ScriptStep,
    pub(super) action: ScriptStep,
    /// Gives out ends of actions to be told.
    pub(super) ripe: ScriptStep,
    pub(super) sweep: ScriptStep,
    pub(super) tell: ScriptStep,
    pub(super) dead: ScriptStep,
    pub(super) tidy: ScriptStep,
    pub(super) snapshot: ScriptStep,
}

impl Scripts {
    pub(super) fn new() -> Self {
        let parts: Vec<String> = SOURCES.iter().map(ScriptSource::part).collect();
        let name = library_name(&parts);
        let step = |wanted: &str| {
            let at = SOURCES.iter().position(|source| source.name == wanted);
            let part = at.and_then(|at| parts.get(at));
            let source = at.and_then(|at| SOURCES.get(at));
            let begin = source.map_or("", ScriptSource::beginning);
            step(&name, wanted, (begin, part.map_or("", String::as_str)))
        };
        Self {
            library: library(&name, &parts),
            greet: include_str!("lua/init.lua"),
            submit: step("submit"),
            claim: step("claim"),
            limit: step("limit"),
            settle: step("settle"),
            beat: step("beat"),
            reap: step("reap"),
            disown: step("disown"),
            rule: step("rule"),
            action: step("action"),
            ripe: step("ripe"),
            sweep: step("sweep"),
            tell: step("tell"),
            dead: step("dead"),
            tidy: step("tidy"),
            snapshot: step("snapshot"),
        }
    }
}

/// What a step is made of.
struct ScriptSource {
    name: &'static str,
    /// The short way, which says itself what the step is; nothing where there is one way.
    plain: &'static str,
    any: &'static str,
    flags: &'static str,
}

impl ScriptSource {
    const fn new(name: &'static str, any: &'static str) -> Self {
        Self {
            name,
            plain: "",
            any,
            flags: EVEN_IF_FULL,
        }
    }

    const fn flags(self, flags: &'static str) -> Self {
        Self { flags, ..self }
    }

    /// With a short way before it.
    const fn after(self, plain: &'static str) -> Self {
        Self { plain, ..self }
    }

    fn part(&self) -> String {
        let Self {
            name, plain, any, ..
        } = self;
        if plain.is_empty() {
            return format!("steps.{name} = function()\n{any}\nend\n");
        }
        format!("do\n{plain}\nany = function()\n{any}\nend\nend\n")
    }

    /// What its script begins with. A script has no flags, but a full server lets it write more once it has written
    /// something that needs no room.
    fn beginning(&self) -> &'static str {
        if self.flags == EVEN_IF_FULL {
            "redis.pcall('HDEL', KEYS[1], '')\n"
        } else {
            ""
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

/// Every version has a library of its own name, so that machines of two versions do not take each
/// other's away while one is replaced by the other.
fn library_name(parts: &[String]) -> String {
    let all = [COMMON.concat(), parts.concat()].concat();
    let hash: String = Script::new(&all).get_hash().chars().take(12).collect();
    format!("outflow_{hash}")
}

/// All steps. While a server loads a library it lets it see nothing of the language but functions of its
/// own, so everything is made by the first call.
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

/// One step as a script.
///
/// Common parts are functions within each other, which costs nothing to read and much less to run: what a
/// function needs of its own level is looked for along the whole stack, what it needs of the levels around
/// it is at hand, though at most 60 names of them. All parts on one level took 100 µs to set up before any
/// of them did a thing. In the library, which is set up once, they are on one level.
fn step(library: &str, name: &str, (begin, part): (&str, &str)) -> ScriptStep {
    let [base, seats, jobs] = COMMON;
    let text = format!(
        "{begin}local steps, given = {{}}, ARGV\n{base}\nreturn (function()\n{seats}\nreturn (function()\n\
         {jobs}\n{part}\nreturn run(steps.{name}, given)\nend)()\nend)()"
    );
    ScriptStep {
        function: format!("{library}_{name}"),
        hash: Script::new(&text).get_hash().to_owned(),
        text,
    }
}

/// What all steps share.
const COMMON: [&str; 3] = [
    concat!(
        include_str!("lua/common.lua"),
        include_str!("lua/struct_formats.lua")
    ),
    include_str!("lua/tenants_in_lane.lua"),
    include_str!("lua/jobs.lua"),
];

/// Flags of functions. A server that is full takes no new jobs, but gives out what it has, lets it end, and lets an
/// operator stop it.
const EVEN_IF_FULL: &str = "'allow-oom'";
const ONLY_WITH_ROOM: &str = "";
const READS: &str = "'no-writes'";

const SOURCES: [ScriptSource; 15] = [
    ScriptSource::new("submit", include_str!("lua/submit/general.lua"))
        .after(include_str!("lua/submit/fast.lua"))
        .flags(ONLY_WITH_ROOM),
    ScriptSource::new(
        "claim",
        concat!(
            include_str!("lua/claim/limits.lua"),
            include_str!("lua/claim/general.lua"),
            include_str!("lua/claim/rounds.lua"),
            include_str!("lua/claim/dispense.lua")
        ),
    )
    .after(include_str!("lua/claim/fast.lua")),
    ScriptSource::new(
        "limit",
        concat!(
            include_str!("lua/claim/limits.lua"),
            include_str!("lua/shared_limits.lua")
        ),
    ),
    ScriptSource::new("settle", include_str!("lua/settle/general.lua"))
        .after(include_str!("lua/settle/fast.lua")),
    ScriptSource::new("beat", include_str!("lua/heartbeat.lua")),
    ScriptSource::new("reap", include_str!("lua/reap.lua")),
    ScriptSource::new("disown", include_str!("lua/release_unknown.lua")),
    ScriptSource::new("rule", include_str!("lua/rule.lua")),
    ScriptSource::new("action", include_str!("lua/action.lua")),
    ScriptSource::new("ripe", include_str!("lua/finished.lua")),
    ScriptSource::new("sweep", include_str!("lua/scope_ops.lua")),
    ScriptSource::new("tell", include_str!("lua/query.lua")).flags(READS),
    ScriptSource::new("dead", include_str!("lua/dead_letters.lua")),
    ScriptSource::new("tidy", include_str!("lua/collect_garbage.lua")),
    ScriptSource::new("snapshot", include_str!("lua/snapshot.lua")),
];

/// What each is: the queue's identity and counts; tenants; leases of sessions; names that are taken; lanes
/// that have work; tenants without work, by when it ended; all tenants by name; dead letters by place;
/// actions by name, by when they are out of time, by when they are forgotten, and those whose end is to be
/// told; slots of limits; what was found damaged; rules of tenants; what few tenants have to be remembered
/// for.
pub(super) const KEYS: [&str; 16] = [
    "epoch", "t", "sessions", "names", "lanes", "idle", "who", "dead", "actions", "adue", "aend",
    "ripe", "slots", "broken", "rules", "rest",
];
