//! Reads who we are at an API: a key from the environment or a file, and how it is sent.
//!
//! Never a key from the text itself. Configuration is committed, copied and shown; a key in it is a key
//! that is known. No message here holds a key, not even a wrong one.

use std::fs::File;
use std::io::{self, Read};

use http::HeaderName;
use secrecy::{ExposeSecret, SecretString};
use smol_str::SmolStr;

use super::environment::Environment;
use super::reader::{FieldValue, TableReader, ValueError};
use super::redact::is_variable_name;
use super::tree::TreeValue;
use super::value_readers::{expected, filled, text};
use crate::api::{Credential, CredentialPlacement};

/// The keys under which a secret may be named, and the one under which it may not be written.
#[derive(Clone, Copy)]
pub(super) struct SecretKeys {
    inline: &'static str,
    variable: &'static str,
    file: &'static str,
}

/// Who we are at an API.
pub(super) const API_KEY: SecretKeys = SecretKeys {
    inline: "api_key",
    variable: "api_key_env",
    file: "api_key_file",
};

/// What callers of the program must know.
pub(super) const TOKEN: SecretKeys = SecretKeys {
    inline: "token",
    variable: "token_env",
    file: "token_file",
};

/// Where Redis is: its password may be in it.
pub(super) const REDIS_URL: SecretKeys = SecretKeys {
    inline: "url",
    variable: "url_env",
    file: "url_file",
};

/// What webhooks are signed with.
pub(super) const WEBHOOK: SecretKeys = SecretKeys {
    inline: "secret",
    variable: "secret_env",
    file: "secret_file",
};

/// Reads `api_key_env` or `api_key_file`, and `key`.
pub(super) fn read(fields: &TableReader<'_>, environment: &Environment) -> Option<Credential> {
    let place = fields.read("key", place);
    let secret = secret(fields, environment, API_KEY);
    let keyless = !fields.has("api_key_env") && !fields.has("api_key_file");
    if let Some(key) = fields.item("key").filter(|_| keyless && place.is_some())
        && fields.book().is_own(key.node.at)
    {
        let wrong = ValueError::warning("this says how a key is sent, and there is no key");
        key.report(wrong.help("name its variable in `api_key_env`"));
    }
    let secret = secret?;
    let place = place.unwrap_or(CredentialPlacement::Bearer);
    check(fields, &secret, &place)?;
    Some(Credential { secret, place })
}

/// Reads a secret from the variable or the file that is named.
pub(super) fn secret(
    fields: &TableReader<'_>,
    environment: &Environment,
    named: SecretKeys,
) -> Option<SecretString> {
    refuse_inline(fields, named);
    let SecretKeys { variable, file, .. } = named;
    let by_variable = fields.read(variable, |item| from_environment(item, environment));
    let by_file = fields.read(file, |item| {
        fields.book().read_file(filled(item)?);
        from_file(item)
    });
    if fields.has(variable) && fields.has(file) {
        let wrong = ValueError::new(format!(
            "`{variable}` and `{file}` both say where the key is"
        ));
        fields.tell(file, wrong.help("keep one of them"));
    }
    by_variable.or(by_file)
}

fn refuse_inline(fields: &TableReader<'_>, named: SecretKeys) {
    let SecretKeys {
        inline,
        variable,
        file,
    } = named;
    if let Some(item) = fields.item(inline) {
        let wrong = ValueError::new("a key is never written into a configuration");
        let help = format!(
            "put it into a variable and name that: `{variable} = \"{EXAMPLE}\"`, or into a file: \
             `{file}`; and replace the key, it is known now"
        );
        item.report(wrong.help(help));
    }
}

fn from_environment(
    item: &FieldValue<'_>,
    environment: &Environment,
) -> Result<SecretString, ValueError> {
    let name = filled(item)?;
    match environment.value(name) {
        Some(value) if !value.trim().is_empty() => Ok(SecretString::from(value.trim())),
        Some(_) if is_variable_name(name) => {
            Err(ValueError::new(format!("the variable `{name}` is empty"))
                .help("put the key into it"))
        }
        None if is_variable_name(name) => {
            let wrong = ValueError::new(format!("the variable `{name}` is not set"));
            Err(wrong.help(format!("set it before starting: `export {name}=…`")))
        }
        // It may be the key itself.
        Some(_) | None => Err(ValueError::new("there is no variable of this name")
            .help("write the name of a variable, such as \"STOCK_API_KEY\", not the key itself")),
    }
}

fn from_file(item: &FieldValue<'_>) -> Result<SecretString, ValueError> {
    let path = filled(item)?;
    let help = "it must exist, be readable and hold the key alone";
    let text = beginning(path).map_err(|error| {
        ValueError::new(format!("the file cannot be read: {}", error.kind())).help(help)
    })?;
    match text.expose_secret().trim() {
        "" => Err(ValueError::new("the file is empty").help("put the key into it")),
        _ if text.expose_secret().len() > LONGEST_KEY => {
            Err(ValueError::new("the file is too large for a key").help(help))
        }
        key => Ok(SecretString::from(key)),
    }
}

/// As much of a file as a key can be, and a little more: a device or a log has no end.
fn beginning(path: &str) -> io::Result<SecretString> {
    let mut text = String::new();
    let most = u64::try_from(LONGEST_KEY).unwrap_or(u64::MAX);
    let file = File::open(path)?;
    file.take(most.saturating_add(1))
        .read_to_string(&mut text)?;
    Ok(SecretString::from(text))
}

/// Reads `"bearer"`, `{ header = "X-Api-Key" }` or `{ query = "api_key" }`.
fn place(item: &FieldValue<'_>) -> Result<CredentialPlacement, ValueError> {
    match &item.node.value {
        TreeValue::Text(word) if word == "bearer" => Ok(CredentialPlacement::Bearer),
        // Not shown: it may be the key itself.
        TreeValue::Text(_) => Err(ValueError::new("this is no way to send a key").help(
            "write \"bearer\", { header = \"X-Api-Key\" } or { query = \"api_key\" }; the key itself \
             goes into a variable",
        )),
        TreeValue::Table(_) => place_of(&item.fields()?),
        other => Err(expected("how the key is sent", other)),
    }
}

fn place_of(fields: &TableReader<'_>) -> Result<CredentialPlacement, ValueError> {
    let header = fields.read("header", header);
    let query = fields.read("query", |item| filled(item).map(SmolStr::new));
    fields.finish();
    match (fields.has("header"), fields.has("query")) {
        (true, true) => {
            Err(ValueError::new("a key is sent in one place").help("keep one of the two"))
        }
        (false, false) => {
            Err(ValueError::new("this is no way to send a key").help("say `header` or `query`"))
        }
        _ => header
            .map(CredentialPlacement::Header)
            .or(query.map(CredentialPlacement::Query))
            .ok_or(ValueError::Told),
    }
}

fn header(item: &FieldValue<'_>) -> Result<HeaderName, ValueError> {
    let name = text(item)?;
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
        ValueError::new("this is no header's name").help("write it like \"X-Api-Key\"")
    })
}

/// A key with a line break in it would end its header and begin another.
fn check(
    fields: &TableReader<'_>,
    secret: &SecretString,
    place: &CredentialPlacement,
) -> Option<()> {
    let visible = |b: u8| (b' '..=b'~').contains(&b);
    if matches!(place, CredentialPlacement::Query(_)) || secret.expose_secret().bytes().all(visible)
    {
        return Some(());
    }
    let sources = ["api_key_env", "api_key_file"];
    let from = sources.into_iter().find(|name| fields.has(name))?;
    let wrong = ValueError::new("the key holds characters that no header can carry");
    fields.tell(from, wrong.help("it must be one line of plain letters"));
    None
}

/// A variable as one might be called.
const EXAMPLE: &str = "STOCK_API_KEY";

/// The longest tokens are a few kilobytes, and no server takes a header of more than this.
const LONGEST_KEY: usize = 64 * 1024;
