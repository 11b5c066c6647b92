//! Reads the credential of an API: its key, and where a request carries it.
//!
//! No message contains a key, not even a wrong one.

use http::HeaderName;
use outflow_config::value_readers::{expected, read_choice, read_filled_text, read_text};
use outflow_config::{Environment, FieldValue, SecretKeys, TableReader, TreeValue, ValueError, read_secret};
use secrecy::{ExposeSecret, SecretString};
use smol_str::SmolStr;

use crate::api::{Credential, CredentialPlacement};

/// Keys of an API's secret.
const API_KEY: SecretKeys = SecretKeys {
    inline: "api_key",
    variable: "api_key_env",
    file: "api_key_file",
};

/// Reads `api_key_env` or `api_key_file`, and `key`.
pub(super) fn read_credential(table: &TableReader<'_>, environment: &Environment) -> Option<Credential> {
    let place = table.read("key", read_placement);
    let secret = read_secret(table, environment, API_KEY);
    let keyless = !table.has("api_key_env") && !table.has("api_key_file");
    if let Some(key) = table.field("key").filter(|_| keyless && place.is_some())
        && key.is_from_user()
    {
        let error = ValueError::warning("this says how a key is sent, and there is no key");
        key.report(error.help("name its variable in `api_key_env`"));
    }
    let secret = secret?;
    check_form(table, &secret);
    let place = place.map_or(CredentialPlacement::Bearer, |place| place.of(&secret));
    check_secret(table, &secret, &place)?;
    Some(Credential { secret, place })
}

/// Placement of a key, which may depend on the form of the key.
struct KeyPlacement {
    /// Placement of an ordinary key.
    plain: CredentialPlacement,
    /// Placement of a JSON web token, if it differs.
    jwt: Option<CredentialPlacement>,
}

impl KeyPlacement {
    fn of(self, secret: &SecretString) -> CredentialPlacement {
        match self.jwt {
            Some(place) if is_jwt(secret.expose_secret()) => place,
            _ => self.plain,
        }
    }
}

/// Returns true for three parts of base64url, of which the first is a JSON object.
fn is_jwt(secret: &str) -> bool {
    let is_part = |part: &str| {
        let mut bytes = part.bytes();
        !part.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    // `{"` in base64.
    secret.starts_with("eyJ") && secret.split('.').count() == 3 && secret.split('.').all(is_part)
}

/// Reads `"bearer"`, `{ header = "X-Api-Key" }`, `{ query = "api_key" }` or `{ query = "api_key", jwt = "bearer" }`.
fn read_placement(item: &FieldValue<'_>) -> Result<KeyPlacement, ValueError> {
    match &item.node.value {
        TreeValue::Text(word) if word == "bearer" => Ok(KeyPlacement {
            plain: CredentialPlacement::Bearer,
            jwt: None,
        }),
        // Not shown: this may be the key itself.
        TreeValue::Text(_) => Err(ValueError::new("this is no way to send a key").help(
            "write \"bearer\", { header = \"X-Api-Key\" } or { query = \"api_key\" }; the key itself \
             goes into a variable",
        )),
        TreeValue::Table(_) => read_placement_table(&item.table()?),
        other => Err(expected("how the key is sent", other)),
    }
}

fn read_placement_table(table: &TableReader<'_>) -> Result<KeyPlacement, ValueError> {
    let header = table.read("header", read_header_name);
    let query = table.read("query", |item| read_filled_text(item).map(SmolStr::new));
    let jwt = table.read("jwt", read_choice(&[("bearer", ())]));
    table.finish();
    let plain = match (table.has("header"), table.has("query")) {
        (true, true) => Err(ValueError::new("a key is sent in one place").help("keep one of the two")),
        (false, false) => Err(ValueError::new("this is no way to send a key").help("say `header` or `query`")),
        _ => header
            .map(CredentialPlacement::Header)
            .or(query.map(CredentialPlacement::Query))
            .ok_or(ValueError::Reported),
    }?;
    Ok(KeyPlacement {
        plain,
        jwt: jwt.map(|()| CredentialPlacement::Bearer),
    })
}

fn read_header_name(item: &FieldValue<'_>) -> Result<HeaderName, ValueError> {
    let name = read_text(item)?;
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| ValueError::new("this is no header's name").help("write it like \"X-Api-Key\""))
}

/// Warns of a key that was copied with its surroundings.
fn check_form(table: &TableReader<'_>, secret: &SecretString) {
    let secret = secret.expose_secret();
    let is_quoted = secret.len() > 1
        && ['"', '\'']
            .iter()
            .any(|quote| secret.starts_with(*quote) && secret.ends_with(*quote));
    let words = match secret {
        _ if is_quoted => "the key has quotes around it",
        _ if secret.starts_with("Bearer ") => "the key begins with `Bearer`, which is no part of it",
        _ => return,
    };
    let sources = ["api_key_env", "api_key_file"];
    if let Some(from) = sources.into_iter().find(|name| table.has(name)) {
        table.report(from, ValueError::warning(words).help("give the key alone"));
    }
}

/// Reports a key that a header cannot carry: a line break would begin another header.
fn check_secret(table: &TableReader<'_>, secret: &SecretString, place: &CredentialPlacement) -> Option<()> {
    let visible = |b: u8| (b' '..=b'~').contains(&b);
    if matches!(place, CredentialPlacement::Query(_)) || secret.expose_secret().bytes().all(visible) {
        return Some(());
    }
    let sources = ["api_key_env", "api_key_file"];
    let from = sources.into_iter().find(|name| table.has(name))?;
    let error = ValueError::new("the key holds characters that no header can carry");
    table.report(from, error.help("it must be one line of plain letters"));
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    // TMDB has two kinds of keys: 32 hexadecimal digits, and a token with a signature.
    #[test]
    fn a_web_token_is_known_by_its_form() {
        assert!(is_jwt("eyJhbGciOiJIUzI1NiJ9.eyJhdWQiOiI5In0.c2lnbmF0dXJl_-0"));
        for other in [
            "0123456789abcdef0123456789abcdef",
            "eyJhbGciOiJIUzI1NiJ9",
            "eyJhbGci.eyJhdWQi",
            "eyJhbGci..c2ln",
            "eyJhbGci.eyJh dWQi.c2ln",
            "",
        ] {
            assert!(!is_jwt(other), "{other}");
        }
    }
}
