//! Replaces possible secrets in a text with stars.
//!
//! It works on the written text and not on parsed values, because a diagnostic may show a line that does
//! not parse. It prefers hiding too much: a user still finds the line by its number. It knows names and
//! shapes, not values: it cannot recognise a secret under a harmless name.

use std::ops::Range;

/// Returns the text with stars instead of possible secrets; its length in bytes stays.
pub(crate) fn redact_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut open = None;
    for line in text.split_inclusive('\n') {
        let secret = match open {
            Some(quotes) => {
                open = open.filter(|_| !line.contains(quotes));
                Some(0..line.len())
            }
            None => find_assigned(line, &mut open)
                .or_else(|| find_unassigned(line))
                .or_else(|| find_user_info(line)),
        };
        match secret {
            Some(span) => push_hidden(&mut out, line, span),
            None => out.push_str(line),
        }
    }
    out
}

/// Returns the last level of a variable's name: `TIMEOUT` of `OUTFLOW_APIS__STOCK__TIMEOUT`.
pub(crate) fn last_level(variable: &str) -> &str {
    variable.rsplit_once("__").map_or(variable, |(_, last)| last)
}

/// Returns true if a text has the form of a variable's name and not of a secret. A secret written instead
/// of its variable must not appear in a message.
pub(crate) fn is_variable_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_uppercase())
        && text.len() <= MAX_VARIABLE_NAME
        && bytes.all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Returns the span of a value that this line assigns to a name of a secret.
fn find_assigned(line: &str, open: &mut Option<&'static str>) -> Option<Range<usize>> {
    let (at, _) = line.match_indices('=').find(|(at, _)| assigns_secret(line, *at))?;
    let value = line.get(at + 1..)?.trim_start();
    let from = line.len() - value.len();
    for quotes in ["\"\"\"", "'''"] {
        if value.starts_with(quotes) && value.matches(quotes).count() == 1 {
            *open = Some(quotes);
        }
    }
    Some(from..line.len())
}

/// Returns the span after a name of a secret if the `=` between the two is missing.
fn find_unassigned(line: &str) -> Option<Range<usize>> {
    let named = line.trim_start().trim_start_matches(['"', '\'']);
    let start = line.len() - named.len();
    let end = named.find(|c: char| !is_name_char(c))?;
    let (name, rest) = named.split_at(end);
    let bare = rest.trim_matches([' ', '\t', ':', '"', '\'', '\r', '\n']);
    let misplaced = is_variable_key(&name.to_lowercase()) && !is_variable_name(bare);
    let secret = is_secret_name(name) || misplaced;
    (secret && !line.contains('=')).then_some(start + end..line.len())
}

/// Returns the span of user and password in a URL.
fn find_user_info(line: &str) -> Option<Range<usize>> {
    let from = line.find("://")? + 3;
    let rest = line.get(from..)?;
    let end = rest
        .find(|c: char| c == '"' || c == '\'' || c.is_whitespace())
        .unwrap_or(rest.len());
    let at = rest.get(..end)?.rfind('@')?;
    Some(from..from + at)
}

fn assigns_secret(line: &str, equals: usize) -> bool {
    let (before, after) = line.split_at(equals);
    let value = after.trim_start_matches('=').trim();
    let bare = value.trim_matches(['"', '\'']);
    let name = before.trim_end().trim_end_matches(['"', '\'']);
    let start = name.rfind(|c: char| !is_name_char(c));
    let start = start.map_or(0, |at| name.ceil_char_boundary(at + 1));
    match name.get(start..).unwrap_or(name).to_lowercase().as_str() {
        "key" => !(value.starts_with('{') || bare == "bearer"),
        name if is_variable_key(name) => !is_variable_name(bare),
        name => is_secret_name(name),
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    let elsewhere = name.ends_with("env") || name.ends_with("file");
    !elsewhere && WORDS.iter().any(|word| name.contains(word))
}

/// Returns true if the value of this key is the name of a variable that holds a secret.
fn is_variable_key(name: &str) -> bool {
    let holder = name.strip_suffix("_env").or(name.strip_suffix("-env"));
    holder.is_some_and(|holder| holder == "url" || WORDS.iter().any(|word| holder.contains(word)))
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

fn push_hidden(out: &mut String, line: &str, secret: Range<usize>) {
    for (at, c) in line.char_indices() {
        if secret.contains(&at) && !c.is_whitespace() {
            out.extend(std::iter::repeat_n('*', c.len_utf8()));
        } else {
            out.push(c);
        }
    }
}

/// Parts of the names of secrets.
const WORDS: [&str; 6] = ["key", "token", "secret", "passw", "credential", "auth"];

/// Longer than any variable's name in use, shorter than most secrets without lower-case letters.
const MAX_VARIABLE_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    // Forms in which a user writes a key into a file by accident; most of them do not parse.
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
            let shown = redact_text(line);
            assert!(!shown.contains("CANARY"), "{shown}");
            assert_eq!(shown.len(), line.len(), "{line}");
            assert_eq!(shown.matches('\n').count(), line.matches('\n').count());
        }
    }

    #[test]
    fn a_text_without_a_key_stays() {
        for line in [
            "timeout = 10",
            "api_key_env = \"STOCK_KEY\"",
            "api_key_file = \"/run/stock\"",
            "key = { header = \"X-Api-Key\" }",
            "key = \"bearer\"",
            "base_url = \"https://example.com/@me\"  # ask @team",
        ] {
            let shown = redact_text(line);
            if !line.contains('@') {
                assert_eq!(shown, line);
            }
        }
    }

    #[test]
    fn the_line_after_a_hidden_text_is_shown() {
        let shown = redact_text("api_key = '''\nx\n'''\ntimeout = 5");
        assert!(shown.ends_with("timeout = 5"), "{shown}");
    }
}
