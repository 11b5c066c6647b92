//! The law of secrets in configurations: no surface quotes one, whatever the error around it.

use outflow::config::{Diagnostics, Environment, RenderStyle, RuntimeOverrides as SetByHand, Source, set_variable};
use outflow_cli::{ConfigSources, fuzzing};

/// No report of a configuration contains a secret that stands in it. The first byte selects the secret;
/// `CANARY` in the rest of the input is where it stands. Lines of `env NAME=VALUE` are the environment,
/// lines of `set NAME=VALUE` are set by hand, and the others are a file.
pub fn config_secrets(input: &[u8]) {
    let Some((choice, text)) = input.split_first() else {
        return;
    };
    let secret = SECRETS.iter().cycle().nth((*choice).into()).expect("there are secrets");
    let text = String::from_utf8_lossy(text);
    let assigned = |word: &str| -> Vec<(String, String)> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(word));
        let pairs = lines.filter_map(|line| line.split_once('='));
        let pairs = pairs.map(|(name, value)| (name.trim().to_owned(), value.replace(MARK, secret)));
        pairs.collect()
    };
    let file = text.split('\n');
    let file = file.filter(|line| !line.starts_with("env ") && !line.starts_with("set "));
    let file = file.collect::<Vec<_>>().join("\n").replace(MARK, secret);
    let sources = ConfigSources::new(Vec::new())
        .with_text(Source::new("fuzz.toml", file))
        .in_environment(Environment::from_iter(assigned("env ")));
    let mut by_hand = SetByHand::default();
    for (variable, value) in assigned("set ") {
        set_variable(&mut by_hand, "stock", &variable, &value);
    }
    let finder = PartFinder::new(secret.as_bytes());
    let is_part = |line: &&str| finder.finds_in(line.as_bytes());
    // A text that spells a part by itself, perhaps as a plain word, says nothing.
    if text.lines().any(|line| is_part(&line)) {
        return;
    }
    for surface in surfaces(&sources, &by_hand) {
        let found = surface.lines().find(is_part);
        assert_eq!(found, None, "a part of {secret} is in this line");
    }
}

/// Returns every text that a user, a log or the admin API gets.
fn surfaces(sources: &ConfigSources, by_hand: &SetByHand) -> Vec<String> {
    let mut shown = vec![format!("{sources:?} {by_hand:?}")];
    match sources.read_with(by_hand) {
        Ok(config) => {
            shown.push(fuzzing::shown_values(&config));
            shown.extend(reports(&config.client.warnings));
        }
        Err(diagnostics) => shown.extend(reports(&diagnostics)),
    }
    shown
}

fn reports(diagnostics: &Diagnostics) -> [String; 4] {
    [
        diagnostics.render(RenderStyle::Plain),
        diagnostics.render(RenderStyle::Coloured),
        format!("{diagnostics:?}"),
        serde_json::to_string(diagnostics).expect("JSON"),
    ]
}

/// Finds the parts of a secret in a line. A report has some ten thousand places and a secret fifty parts, so the
/// first and the last byte of a part decide most of them.
struct PartFinder<'s> {
    secret: &'s [u8],
    /// A bit for each byte with which a part begins.
    first: u128,
    /// The same for the ends.
    last: u128,
}

impl<'s> PartFinder<'s> {
    fn new(secret: &'s [u8]) -> Self {
        let parts = || secret.windows(LONGEST_PART);
        Self {
            secret,
            first: parts().fold(0, |bits, part| bits | bit(part.first())),
            last: parts().fold(0, |bits, part| bits | bit(part.last())),
        }
    }

    fn finds_in(&self, line: &[u8]) -> bool {
        line.windows(LONGEST_PART).any(|place| {
            let is_possible = self.first & bit(place.first()) != 0 && self.last & bit(place.last()) != 0;
            is_possible && self.secret.windows(LONGEST_PART).any(|part| part == place)
        })
    }
}

/// Returns the bit of an ASCII byte; secrets have no others.
fn bit(byte: Option<&u8>) -> u128 {
    byte.and_then(|byte| 1_u128.checked_shl(u32::from(*byte)))
        .unwrap_or_default()
}

/// Stands for the secret.
const MARK: &str = "CANARY";

/// Less of a secret tells nothing, and longer parts are in ordinary words.
const LONGEST_PART: usize = 9;

/// Secrets in the forms of providers, generators and people. None is or was in use.
const SECRETS: [&str; 14] = [
    "4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c",
    "3f2c1b0a-9d8e-4c7b-a6f5-e4d3c2b1a098",
    "q7Zx2LmPv9TcR4kWbN1sYd8uHf3eJg6a0QiXoVr5tMs=",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI5ZjhlN2Q2YzViIn0.Xk3mQ9vT2pLwR7zYc4Nb",
    "sk-live-51Hk2jLmN9pQ",
    "ghp_x7K2mQ9vT4pLwR8zYc3NbF6hJd1sGa5eUo0i",
    "AKIAJ7X2Q9V4T8LPWR3Z",
    "xoxb-7391846205-QmZkTvRxLp",
    "123456789:AAHk0vT3xPqL9sWz2mRbYc7dFgJe",
    "Tr0ub4dor-and-3-more",
    "Bearer m9k2x7q4v1z8",
    "me:h7x9k2q4m1@",
    "correct horse battery staple",
    "84736251908473625190",
];
