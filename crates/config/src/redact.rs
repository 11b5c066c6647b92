//! Puts stars in the place of whatever may be a key.
//!
//! It works on the written text and not on what was parsed, because the line that shows a mistake may
//! be one that does not parse. It errs on the side of hiding: a line with a star too many is still a
//! line that can be found by its number. It knows names and shapes, not values: a key under a harmless
//! name in a harmless place cannot be told from any other text.

use std::ops::Range;

/// The same text, of the same length in bytes, without what may be a key.
pub(super) fn scrubbed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut open = None;
    for line in text.split_inclusive('\n') {
        let secret = match open {
            Some(quotes) => {
                open = open.filter(|_| !line.contains(quotes));
                Some(0..line.len())
            }
            None => assigned(line, &mut open)
                .or_else(|| after_a_lone_word(line))
                .or_else(|| user_info(line)),
        };
        match secret {
            Some(span) => push_hiding(&mut out, line, span),
            None => out.push_str(line),
        }
    }
    out
}

/// The last level of a variable's name: `OUTFLOW_APIS__STOCK__TIMEOUT` is about a `TIMEOUT`.
pub(super) fn last_level(variable: &str) -> &str {
    variable
        .rsplit_once("__")
        .map_or(variable, |(_, last)| last)
}

/// True if a text is shaped like a variable's name and not like a key: one who writes the key itself
/// where its variable belongs must not find it in a message.
pub(super) fn is_variable_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_uppercase())
        && text.len() <= LONGEST_NAME
        && bytes.all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// What is assigned in this line to a name that speaks of a secret.
fn assigned(line: &str, open: &mut Option<&'static str>) -> Option<Range<usize>> {
    let (at, _) = line
        .match_indices('=')
        .find(|(at, _)| speaks_of_a_secret(line, *at))?;
    let value = line.get(at + 1..)?.trim_start();
    let from = line.len() - value.len();
    for quotes in ["\"\"\"", "'''"] {
        if value.starts_with(quotes) && value.matches(quotes).count() == 1 {
            *open = Some(quotes);
        }
    }
    Some(from..line.len())
}

/// What follows a name that speaks of a secret where the sign between the two is missing or another.
fn after_a_lone_word(line: &str) -> Option<Range<usize>> {
    let named = line.trim_start().trim_start_matches(['"', '\'']);
    let start = line.len() - named.len();
    let end = named.find(|c: char| !is_part_of_a_name(c))?;
    let (name, rest) = named.split_at(end);
    let bare = rest.trim_matches([' ', '\t', ':', '"', '\'', '\r', '\n']);
    let misplaced = names_a_variable(&name.to_lowercase()) && !is_variable_name(bare);
    let secret = names_a_secret(name) || misplaced;
    (secret && !line.contains('=')).then_some(start + end..line.len())
}

/// A user and password in a URL.
fn user_info(line: &str) -> Option<Range<usize>> {
    let from = line.find("://")? + 3;
    let rest = line.get(from..)?;
    let end = rest
        .find(|c: char| c == '"' || c == '\'' || c.is_whitespace())
        .unwrap_or(rest.len());
    let at = rest.get(..end)?.rfind('@')?;
    Some(from..from + at)
}

fn speaks_of_a_secret(line: &str, equals: usize) -> bool {
    let (before, after) = line.split_at(equals);
    let value = after.trim_start_matches('=').trim();
    let bare = value.trim_matches(['"', '\'']);
    let name = before.trim_end().trim_end_matches(['"', '\'']);
    let start = name.rfind(|c: char| !is_part_of_a_name(c));
    let start = start.map_or(0, |at| name.ceil_char_boundary(at + 1));
    match name.get(start..).unwrap_or(name).to_lowercase().as_str() {
        "key" => !(value.starts_with('{') || bare == "bearer"),
        name if names_a_variable(name) => !is_variable_name(bare),
        name => names_a_secret(name),
    }
}

fn names_a_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    let elsewhere = name.ends_with("env") || name.ends_with("file");
    !elsewhere && WORDS.iter().any(|word| name.contains(word))
}

/// Keys whose value is the name of a variable that holds a secret, and not the secret itself.
fn names_a_variable(name: &str) -> bool {
    let holder = name.strip_suffix("_env").or(name.strip_suffix("-env"));
    holder.is_some_and(|holder| holder == "url" || WORDS.iter().any(|word| holder.contains(word)))
}

fn is_part_of_a_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

fn push_hiding(out: &mut String, line: &str, secret: Range<usize>) {
    for (at, c) in line.char_indices() {
        if secret.contains(&at) && !c.is_whitespace() {
            out.extend(std::iter::repeat_n('*', c.len_utf8()));
        } else {
            out.push(c);
        }
    }
}

/// What names of secrets are made of.
const WORDS: [&str; 6] = ["key", "token", "secret", "passw", "credential", "auth"];

/// Longer than any variable's name in use, shorter than most keys that have no small letters.
const LONGEST_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    // The forms in which a key gets into a file by mistake, most of which do not even parse.
    #[test]
    fn a_key_is_hidden_in_every_form() {
        for line in [
            "api_key = \"CANARY\"",
            "api_key = CANARY",
            "api-key='CANARY",
            "stock = { base_url = \"x\", API_KEY = \"CANARY\" }",
            "\"auth token\" = \"CANARY\"",
            "Authorization = \"Bearer CANARY\"",
            "key = \"CANARY-bearer\"",
            "api_key_env = \"CANARY-1\"",
            "api_key_env = \"canary CANARY\"",
            "token_env = \"canary-CANARY\"",
            "redis = { url_env = \"redis:CANARY\" }",
            "base_url = \"https://me:CANARY@example.com\"",
            "apikey \"CANARY\"",
            "api_key: CANARY",
            "api_key_env: canary-CANARY",
            "\"key\": \"CANARY\"",
            "api_key = \"\"\"\nCANARY\n\"\"\"",
            "api_key = '''x\nCANARY'''\ntimeout = 5",
        ] {
            let shown = scrubbed(line);
            assert!(!shown.contains("CANARY"), "{shown}");
            assert_eq!(shown.len(), line.len(), "{line}");
            assert_eq!(shown.matches('\n').count(), line.matches('\n').count());
        }
    }

    #[test]
    fn what_is_no_key_stays() {
        for line in [
            "timeout = 10",
            "api_key_env = \"STOCK_KEY\"",
            "api_key_file = \"/run/stock\"",
            "key = { header = \"X-Api-Key\" }",
            "key = \"bearer\"",
            "base_url = \"https://example.com/@me\"  # ask @team",
        ] {
            let shown = scrubbed(line);
            if !line.contains('@') {
                assert_eq!(shown, line);
            }
        }
    }

    #[test]
    fn what_follows_a_hidden_text_is_shown() {
        let shown = scrubbed("api_key = '''\nx\n'''\ntimeout = 5");
        assert!(shown.ends_with("timeout = 5"), "{shown}");
    }
}
