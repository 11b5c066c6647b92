//! Decides what a message, an excerpt or a listing may quote of a configuration.
//!
//! Every surface asks here: diagnostics, their excerpts, `written` values of `config show`, values set at
//! run time. A value is quoted if its key is known to hold no secret and its form is not a secret's;
//! otherwise its key and its place are shown. It knows names and forms, not the secrets themselves.

mod known_name;
mod plain_text;
mod text_scan;

pub(crate) use plain_text::{is_short_quantity, is_variable_name};

use known_name::NameKind;
use plain_text::{has_short_numbers, is_plain_name, is_plain_value};
use text_scan::{find_hidden, may_show};

/// Returns a value for display: itself, or an ellipsis if it could be a secret.
///
/// ```
/// use outflow_config::show_value;
///
/// assert_eq!(show_value("timeout", "10s"), "10s");
/// assert_eq!(show_value("timeout", "0123456789abcdef"), "…");
/// assert_eq!(show_value("auth.token", "10s"), "…");
/// ```
#[must_use]
pub fn show_value<'v>(key: &str, value: &'v str) -> &'v str {
    let names = split_key(key).into_iter().map(|name| name.trim_matches('"'));
    let kind = names.fold(NameKind::Table, NameKind::within);
    if may_show(kind, value) { value } else { ELLIPSIS }
}

/// Returns a name for display, or an ellipsis if it could be a secret.
#[must_use]
pub fn show_name(name: &str) -> &str {
    if is_plain_value(name) && has_short_numbers(name) {
        name
    } else {
        ELLIPSIS
    }
}

/// Returns a joined key for display: each part that could be a secret becomes an ellipsis.
pub(crate) fn show_key(key: &str) -> String {
    let mut shown = String::with_capacity(key.len());
    for (at, part) in split_key(key).into_iter().enumerate() {
        if at > 0 {
            shown.push('.');
        }
        let indexed = part.trim_end_matches(|c: char| c.is_ascii_digit() || "[]".contains(c));
        let (name, index) = part.split_at(if part.ends_with(']') { indexed.len() } else { part.len() });
        let is_shown = is_plain_name(name.trim_matches('"'));
        shown.push_str(if is_shown { name } else { ELLIPSIS });
        shown.push_str(index);
    }
    shown
}

/// Returns the text with covered parts; its length in bytes stays, so that every position stays valid. Only
/// [`mask`] shows it.
pub(crate) fn redact_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for hidden in find_hidden(text) {
        out.push_str(text.get(from..hidden.span.start).unwrap_or_default());
        out.push_str(&cover_with(
            text.get(hidden.span.clone()).unwrap_or_default(),
            hidden.cover,
        ));
        from = hidden.span.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

/// Returns the covered form of a text. Its lines and its length in bytes stay.
pub(crate) fn cover(text: &str) -> String {
    cover_with(text, COVER)
}

fn cover_with(text: &str, cover: char) -> String {
    let covered = |c: char| match c {
        '\n' | '\r' => std::iter::repeat_n(c, 1),
        c => std::iter::repeat_n(cover, c.len_utf8()),
    };
    text.chars().flat_map(covered).collect()
}

/// Returns a covered text for display. A covered part becomes a mask of one length: the length of a secret is
/// part of it.
pub(crate) fn mask(covered: &str) -> String {
    let mut shown = String::with_capacity(covered.len());
    let mut rest = covered;
    while let Some((plain, after)) = rest.split_once(COVER) {
        shown.push_str(plain);
        shown.push_str(MASK);
        rest = after.trim_start_matches(COVER);
    }
    shown.push_str(rest);
    shown
}

/// Returns the value of a variable that sets the key of its name, covered if it could be a secret.
pub(crate) fn redact_variable(name: &str, value: &str) -> String {
    // The prefix is that of a program.
    let name = name.split_once('_').map_or(name, |(_, levels)| levels);
    let levels: Vec<_> = name.split("__").collect();
    let prefix = format!("{} = ", levels.join(".").to_lowercase());
    let has_parts = value.trim_start().starts_with(['[', '{', '"', '\'']);
    if !has_parts && !is_plain_value(value) {
        return COVER.to_string().repeat(value.len());
    }
    let line = redact_text(&format!("{prefix}{value}"));
    line.get(prefix.len()..).unwrap_or_default().to_owned()
}

fn split_key(key: &str) -> Vec<&str> {
    let (mut parts, mut from, mut is_quoted, mut is_escaped) = (Vec::new(), 0, false, false);
    for (at, c) in key.char_indices() {
        match c {
            '\\' if is_quoted => is_escaped = !is_escaped,
            '"' if !is_escaped => is_quoted = !is_quoted,
            '.' if !is_quoted => {
                parts.push(key.get(from..at).unwrap_or_default());
                from = at + 1;
            }
            _ => is_escaped = false,
        }
    }
    parts.push(key.get(from..).unwrap_or_default());
    parts
}

/// Replaces a name or a value that is not shown.
const ELLIPSIS: &str = "…";

/// Replaces a covered part of a text.
const MASK: &str = "*****";

/// Covers a byte that is not shown: no text of a configuration has this control character.
const COVER: char = '\u{1}';

#[cfg(test)]
mod tests {
    use super::*;

    // Forms in which a user writes a key into a file by accident; most of them do not parse. `hunter` alone, a
    // word and a number have no form of a secret: their key gives them away. Two of them in a row have the form,
    // and any key.
    #[test]
    fn a_key_is_hidden_in_every_form() {
        for line in [
            "headers = { \"X Foo\" = \"hunter\" }",
            "headers = { Host = \"hunter\" }",
            "headers = { X-Foo = { value = \"hunter\" } }",
            "headers = { X-K = hunter }",
            "headers = { X-K hunter }",
            "headers = { Anthropic-Version = 2023, X-K = \"hunter\" }",
            "headers = {\n  timeout = \"hunter\",\n  X-K = [\n'hunter'] }",
            "headers.timeout = \"hunter\"",
            "header = { X-Foo = \"hunter\" }",
            "heders = { X-Foo = \"hunter\" }",
            "x = { base_url = \"http://h\", timeoutt = \"5s\", headers = { X-Foo = \"hunter\" } }",
            "[apis]\nx = { base_url = \"http://h\", timeoutt = \"5s\", headers = { X-Foo = \"hunter\" } }",
            "[apis.stock.headers]\nX-Foo = \"hunter\"\ntimeout = hunter\n\"X Foo\" = 'hunter'",
            "[[apis.stock.headers]]\nname = \"X-Foo\"\nvalue = \"hunter\"",
            "[apis.stock.header]\nX-Foo = \"hunter\"",
            "api_key =\n\"hunter\"",
            "api_key =\r\n  hunter\r\n",
            "api_key = # mine\n\n# here\n[\"hunter\"]",
            "api_key =\n[hunter]",
            "api_key =\nhunter=",
            "api_key =\n[\n\"hunter\",\n]",
            "api_key =\n{ value = \"hunter\" }",
            "api_key =\n\"\"\"\nhunter\n\"\"\"",
            "api_key\n= \"hunter\"",
            "x = { api_key =\n\"hunter\" }",
            "timeout =\nhunter",
            "value = \"hunter\"",
            "pin = hunter",
            "account = \"hunter\"",
            "client_id = \"hunter\"",
            "webhook = \"hunter\"",
            "webhook: hunter",
            "timeoutt = \"hunter\"",
            "timeoutt = { path = \"hunter\" }",
            "apis.stock = \"hunter\"",
            "timeout = \"5s\" hunter",
            "cache = { hunter }",
            "atuh = \"hunter\"",
            "api_key = \"hunter\"",
            "api_key = hunter",
            "api_kye = \"hunter\"",
            "api-key='hunter",
            "stock = { base_url = \"x\", API_KEY = \"hunter\" }",
            "\"auth token\" = \"hunter\"",
            "Authorization = \"Bearer hunter\"",
            "key = \"hunter-bearer\"",
            "key = { value = \"hunter\" }",
            "key.value = \"hunter\"",
            "auth.bearer = \"hunter\"",
            "[apis.stock.auth]\nvalue = \"hunter\"",
            "[apis.stock.key]\nvalue = \"hunter\"\n",
            "api_key_file = [ \"hunter\" ]",
            "api_key_file = [\n  \"hunter\",\n]",
            "api_key_file = { path = \"hunter\" }",
            "api_key_file = \"hunter\"",
            "api_key_env = \"hunter-1\"",
            "api_key_env = \"canary hunter\"",
            "token_env = \"canary-hunter\"",
            "redis = { url_env = \"redis:hunter\" }",
            "headers = [\"Authorization: Bearer hunter\"]",
            "headers = [\n[\"Authorization\", \"Bearer hunter\"],\n]",
            "headers = { \"Authorization: hunter\" = 1 }",
            "headers.x-api-key = [\"hunter\"]",
            "base_url = \"https://me:hunter@example.com\"",
            "base_url = \"https://me:hunter@example.com/?a=b@c d\"",
            "base_url = \"https://example.com/?key=hunter\"",
            "base_url = https://me:hunter@example.com",
            "apikey \"hunter\"",
            "api_key: hunter",
            "api_key_env: canary-hunter",
            "export API_KEY=hunter",
            "\"key\": \"hunter\"",
            "timeout = 5 # was api_key = \"hunter\"",
            "[apis.stock] # hunter",
            "# api_key = \"hunter\"",
            "timeout = \"5s\" api_key = \"hunter\"",
            "api_key = \"\"\"\nhunter\n\"\"\"",
            "api_key = '''x\nhunter'''\ntimeout = 5",
            "timeout = \"sk-live-hunter\"",
            "timeout = \"hunter2hunter\"",
            "limits = [\"10/s\", \"hunter2hunter\"",
            "hunter2hunter",
            "hunter2hunter = 5",
            "[apis.\"hunter2hunter\"]",
        ] {
            for secret in ["hunter", "tulipgarden", "8675309123456"] {
                let line = line.replace("hunter", secret);
                let shown = redact_text(&line);
                assert!(!shown.contains(secret), "{shown}");
                assert_eq!(shown.len(), line.len(), "{line}");
                assert_eq!(shown.matches('\n').count(), line.matches('\n').count());
            }
        }
    }

    #[test]
    fn a_text_without_a_key_stays() {
        for line in [
            "timeout = 10",
            "[apis.keycloak]\ntimeout = \"10s\"",
            "api_key_env = \"STOCK_KEY\"",
            "api_key_file = \"/run/stock\"",
            "key = { header = \"X-Api-Key\" }",
            "key = { query = \"api_key\", jwt = \"bearer\" }",
            "key = \"bearer\"",
            "timeout = tulipgarden",
            "timeoutt = \"5s\"",
            "limit = [\"5/s\"]",
            "max_headers = 8675309123456",
            "[apis]\nx = { base_url = \"http://h\" }",
            "[apis.headers.groups.pin]\nlimits = [\"tulipgarden\"]",
            "timeout =\n[log]\nformat = \"tulipgarden\"",
            "timeout =\nmax_wait = \"tulipgarden\"",
            "policy = { 429 = \"tulipgarden\" }",
            "base_url = \"https://example.com/v1\"",
            "routes = [\n  { path = \"/orders/**\", group = \"orders\" },\n]\n[log]\nlevel = \"info\"",
        ] {
            assert_eq!(redact_text(line), line);
        }
    }

    // An open list, an open text of several lines, an open quote.
    #[test]
    fn the_text_after_a_hidden_part_is_shown() {
        for before in ["api_key = '''\nx\n'''\n", "api_key = [\n1,\n[log]\n", "api_key = \"x\n"] {
            let shown = redact_text(&format!("{before}timeout = 5"));
            assert!(shown.ends_with("timeout = 5"), "{shown}");
        }
    }

    #[test]
    fn a_variable_is_judged_by_all_levels_of_its_name() {
        let shown = |name, value| mask(&redact_variable(name, value));
        assert_eq!(shown("OUTFLOW_APIS__STOCK__TIMEOUT", "5s"), "5s");
        assert_eq!(shown("OUTFLOW_APIS__STOCK__LIMITS", "[\"5/s\"]"), "[\"5/s\"]");
        assert_eq!(shown("OUTFLOW_APIS__STOCK__AUTH__VALUE", "hunter"), "*****");
        assert_eq!(
            shown("OUTFLOW_APIS__STOCK__HEADERS", "{ x = \"hunter2x\" }"),
            "{ x = ***** }"
        );
        assert_eq!(shown("OUTFLOW_APIS__STOCK__TIMEOUT", "hunter2x"), "*****");
    }

    // One word, several, and one beside another: none tells its length.
    #[test]
    fn a_mask_has_one_length() {
        let shown = |line: &str| mask(&redact_text(line));
        for secret in ["x", "hunter", "correct horse battery staple", "hünter"] {
            assert_eq!(shown(&format!("api_key = \"{secret}\"")), "api_key = *****");
            let two = format!("key = {{ value = \"{secret}\", auth = '{secret}' }}");
            assert_eq!(shown(&two), "key = { value = *****, auth = ***** }");
        }
    }

    #[test]
    fn a_name_that_looks_like_a_secret_is_not_shown() {
        assert_eq!(show_key("apis.stock.limits[0].rate"), "apis.stock.limits[0].rate");
        assert_eq!(show_key("apis.stock.headers.\"X Y\""), "apis.stock.headers.\"X Y\"");
        assert_eq!(show_key("apis.stock.\"a: hunter.b\"[1].x"), "apis.stock.…[1].x");
        assert_eq!(show_key("apis.stock-20261118.x"), "apis.stock-20261118.x");
        assert_eq!(show_key("apis.123456789.x"), "apis.….x");
        assert_eq!(mask(&redact_text("ba..123456789:hunter")), "*****");
        assert_eq!(show_name("4f9a8b7c6d5e4f3a"), "…");
        assert_eq!(show_name("8675309123456"), "…");
        assert_eq!(show_name("timeuot"), "timeuot");
    }
}
