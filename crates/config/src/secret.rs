//! Reads a secret from a variable of the environment or from a file.
//!
//! Never from the text itself: configurations are committed, copied and shown, so a secret in one is
//! known. No message contains a secret, not even a wrong one.

use std::fs::File;
use std::io::{self, Read};

use secrecy::{ExposeSecret, SecretString};

use super::environment::Environment;
use super::reader::{FieldValue, TableReader, ValueError};
use super::redact::is_variable_name;
use super::value_readers::read_filled_text;

/// Keys that name the place of a secret, and the key for which it is often written inline.
#[derive(Clone, Copy, Debug)]
pub struct SecretKeys {
    /// Key under which a user may write the secret itself, which is an error.
    pub inline: &'static str,
    /// Key of the variable's name.
    pub variable: &'static str,
    /// Key of the file's path.
    pub file: &'static str,
}

/// Reads a secret from the variable or the file that the table names.
pub fn read_secret(table: &TableReader<'_>, environment: &Environment, keys: SecretKeys) -> Option<SecretString> {
    refuse_inline(table, keys);
    let SecretKeys { variable, file, .. } = keys;
    let by_variable = table.read(variable, |item| from_environment(item, environment));
    let by_file = table.read(file, |item| {
        item.record_file(read_filled_text(item)?);
        from_file(item)
    });
    if table.has(variable) && table.has(file) {
        let error = ValueError::new(format!("`{variable}` and `{file}` both say where the key is"));
        table.report(file, error.help("keep one of them"));
    }
    let secret = by_variable.or(by_file);
    secret.inspect(|secret| table.record_secret(secret))
}

fn refuse_inline(table: &TableReader<'_>, keys: SecretKeys) {
    let SecretKeys { variable, file, .. } = keys;
    if let Some(item) = table.refuse_inline(keys) {
        let error = ValueError::new("a key is never written into a configuration");
        let help = format!(
            "put it into a variable and name that: `{variable} = \"{EXAMPLE}\"`, or into a file: \
             `{file}`; and replace the key, it is known now"
        );
        item.report(error.help(help));
    }
}

fn from_environment(item: &FieldValue<'_>, environment: &Environment) -> Result<SecretString, ValueError> {
    let name = read_filled_text(item)?;
    match environment.value(name) {
        Some(value) if !value.trim().is_empty() => Ok(SecretString::from(value.trim())),
        Some(_) if is_variable_name(name) => {
            Err(ValueError::new(format!("the variable `{name}` is empty")).help("put the key into it"))
        }
        None if is_variable_name(name) => {
            let error = ValueError::new(format!("the variable `{name}` is not set"));
            Err(error.help(format!("set it before starting: `export {name}=…`")))
        }
        // The written name may be the secret itself.
        Some(_) | None => Err(ValueError::new("there is no variable of this name")
            .help("write the name of a variable, such as \"STOCK_API_KEY\", not the key itself")),
    }
}

fn from_file(item: &FieldValue<'_>) -> Result<SecretString, ValueError> {
    let path = read_filled_text(item)?;
    let help = "it must exist, be readable and hold the key alone";
    let text = read_beginning(path)
        .map_err(|error| ValueError::new(format!("the file cannot be read: {}", error.kind())).help(help))?;
    match text.expose_secret().trim() {
        "" => Err(ValueError::new("the file is empty").help("put the key into it")),
        _ if text.expose_secret().len() > MAX_SECRET => {
            Err(ValueError::new("the file is too large for a key").help(help))
        }
        key => Ok(SecretString::from(key)),
    }
}

/// Reads one byte more than a secret may have: a device or a log has no end.
fn read_beginning(path: &str) -> io::Result<SecretString> {
    let mut text = String::new();
    let max = u64::try_from(MAX_SECRET).unwrap_or(u64::MAX);
    let file = File::open(path)?;
    file.take(max.saturating_add(1)).read_to_string(&mut text)?;
    Ok(SecretString::from(text))
}

/// Name of a variable for the help text.
const EXAMPLE: &str = "STOCK_API_KEY";

/// The longest tokens have a few kilobytes, and no server accepts a larger header.
const MAX_SECRET: usize = 64 * 1024;
