//! Judges a text: is it plainly no secret?
//!
//! An allow-list: quantities, short words, addresses and paths made of short words. A list of the forms of
//! secrets would miss the next provider's. A random text has long words, digits between letters, changes of
//! case or rows of consonants; names that people choose have none of these.

/// Returns true for a value that a message may quote.
pub(crate) fn is_plain_value(text: &str) -> bool {
    text.len() <= MAX_VALUE && (is_quantity(text) || is_address(text))
}

/// Returns true for a name that a message may quote: of a key, an API, a group, a tenant. It may have two
/// words, as in `403 limited`.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || " _-./*{}[]".contains(c);
    let is_short = name.matches(' ').count() <= 1 && name.len() <= MAX_VALUE;
    is_short && has_short_numbers(name) && name.chars().all(fits) && are_plain_words(name)
}

/// Returns false for a name with the number of an account.
pub(crate) fn has_short_numbers(name: &str) -> bool {
    let mut numbers = name.split(|c: char| !c.is_ascii_digit());
    numbers.all(|number| number.len() <= MAX_NAME_DIGITS)
}

/// Returns true if a text has the form of a variable's name and not of a secret. A secret written instead
/// of its variable must not appear in a message.
pub(crate) fn is_variable_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    let starts = text.bytes().next().is_some_and(|b| b.is_ascii_uppercase());
    starts && text.len() <= MAX_VARIABLE_NAME && text.bytes().all(fits) && are_plain_words(text)
}

/// `10s`, `100 per minute`, `20%`, `-1.5`.
fn is_quantity(text: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || " .,/%_:+-".contains(c);
    let unsigned = text.trim_start_matches(['+', '-', '.']);
    let starts = unsigned.starts_with(|c: char| c.is_ascii_digit());
    let names = text.split(' ').filter(|word| word.starts_with(char::is_alphabetic));
    starts && names.count() <= MAX_UNIT_NAMES && text.chars().all(fits) && are_plain_words(text)
}

/// `5s`, `100/min`, `20%`, `-1.5`: too short for the number of a person or an account.
pub(crate) fn is_short_quantity(text: &str) -> bool {
    let unsigned = text.trim_start_matches(['+', '-']);
    let is_word = |word: &str| {
        word.bytes().all(|b| b.is_ascii_digit())
            || is_number_with_units(word)
            || UNITS.contains(&word.to_lowercase().as_str())
    };
    unsigned.starts_with(|c: char| c.is_ascii_digit())
        && unsigned.chars().filter(char::is_ascii_digit).count() <= MAX_UNIT_DIGITS
        && unsigned.split(['.', '/', '%', ' ']).all(is_word)
}

/// A word, a path, a host with its port, or a URL of these.
fn is_address(text: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || "_-./:*{}[],~".contains(c);
    // Keys join many words with `_`; people join the words of a phrase with `-`.
    let is_short = |part: &str| part.len() <= MAX_IDENTIFIER || !part.contains('-');
    text.chars().all(fits)
        && has_plain_colons(text)
        && are_plain_words(text)
        && text.split(['.', '/', ':', ',']).all(is_short)
}

/// Returns true if a path, a port or a part of an IPv6 address follows each colon: `user:password` is none.
fn has_plain_colons(text: &str) -> bool {
    text.split(':').skip(1).all(|after| {
        let end = after.find(['/', ']']).unwrap_or(after.len());
        let number = after.get(..end).unwrap_or_default();
        let is_port = number.len() <= MAX_PORT && number.bytes().all(|b| b.is_ascii_digit());
        is_port || (number.len() < MAX_PORT && number.bytes().all(|b| b.is_ascii_hexdigit()))
    })
}

fn are_plain_words(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let mut words = words.filter(|word| !word.is_empty()).peekable();
    let mut is_plain = true;
    while let Some(word) = words.next() {
        let is_mark = words.peek().is_some() && MARKS.contains(&word.to_lowercase().as_str());
        is_plain &= is_plain_word(word) && !is_mark;
    }
    is_plain
}

fn is_plain_word(word: &str) -> bool {
    if word.bytes().all(|b| b.is_ascii_digit()) {
        return word.len() <= MAX_DIGITS;
    }
    if word.chars().all(char::is_alphabetic) {
        return word.len() <= MAX_LETTERS && has_one_case(word) && is_pronounceable(word);
    }
    word.len() <= MAX_MIXED || is_number_with_units(word)
}

/// `stock`, `STOCK`, `Stock`: a change of case inside of a word is a sign of chance.
fn has_one_case(word: &str) -> bool {
    let rest = word.chars().skip(1);
    word.len() <= MAX_MIXED || word.chars().all(char::is_uppercase) || rest.clone().all(char::is_lowercase)
}

/// Returns false for a row of consonants that no word has.
fn is_pronounceable(word: &str) -> bool {
    let is_consonant = |c: char| c.is_ascii_alphabetic() && !"aeiouyAEIOUY".contains(c);
    let rows = word.split(|c: char| !is_consonant(c));
    rows.map(str::len).max().unwrap_or_default() <= MAX_CONSONANTS
}

/// `1m30s`, `250ms`, `100MiB`.
fn is_number_with_units(word: &str) -> bool {
    let mut units = word.split(|c: char| c.is_ascii_digit()).filter(|unit| !unit.is_empty());
    let mut numbers = word.split(char::is_alphabetic).filter(|number| !number.is_empty());
    word.starts_with(|c: char| c.is_ascii_digit())
        && word.ends_with(char::is_alphabetic)
        && units.all(|unit| UNITS.contains(&unit.to_lowercase().as_str()))
        && numbers.all(|number| number.len() <= MAX_UNIT_DIGITS)
}

/// The longest path or URL that a message quotes.
const MAX_VALUE: usize = 100;

/// Longer than the names that people type, shorter than passphrases.
const MAX_IDENTIFIER: usize = 24;

/// The largest number that a key takes; a longer one is an account's, or a secret.
const MAX_DIGITS: usize = 13;

/// A date in a name; a longer number is an account's.
const MAX_NAME_DIGITS: usize = 8;

/// Longer words are rare; keys are longer.
const MAX_LETTERS: usize = 16;

/// Letters and digits: `v2`, `http2`, `sha256`. Passwords are longer.
const MAX_MIXED: usize = 6;

/// `ngths`, `tchst`: no English word has more consonants in a row without a `y`.
const MAX_CONSONANTS: usize = 5;

/// `per fortnight`. More words are a phrase.
const MAX_UNIT_NAMES: usize = 2;

/// The digits before a unit.
const MAX_UNIT_DIGITS: usize = 7;

/// Units of time and size, right or nearly so.
const UNITS: [&str; 25] = [
    "ns", "us", "µs", "ms", "s", "m", "h", "d", "w", "b", "k", "g", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib",
    "min", "mins", "sec", "secs", "per",
];

/// The digits of a port; a part of an IPv6 address has one less.
const MAX_PORT: usize = 5;

/// Longer than any variable's name in use.
const MAX_VARIABLE_NAME: usize = 64;

/// Words that come before a secret, or are its first part.
const MARKS: [&str; 11] = [
    "basic", "bearer", "sk", "pk", "rk", "ghp", "gho", "ghs", "glpat", "xoxb", "xoxp",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_plain() {
        for text in [
            "",
            "10s",
            "1m30s",
            "10 per fortnight",
            "100/min",
            "20%",
            "-1",
            "1.5GiB",
            "1000000000000",
            "standard",
            "INFO",
            "cache_only",
            "https://api.stock.example/v1",
            "http://localhost:9/v1",
            "127.0.0.1:8080",
            "[::1]:7070",
            "unix:/run/outflow/admin.sock",
            "/orders/{id}/**",
            "/var/lib/outflow/jobs.db",
            "eu-central-1",
            "max_connections_per_client",
        ] {
            assert!(is_plain_value(text), "{text}");
        }
    }

    #[test]
    fn what_chance_or_a_provider_wrote_is_not() {
        for text in [
            "hunter2-hunter2",
            "0123456789abcdef0123456789abcdef",
            "550e8400-e29b-41d4-a716-446655440000",
            "sk-live-abc",
            "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
            "AKIAIOSFODNN7EXAMPLE",
            "eyJhbGciOiJIUzI1NiJ9.eyJhdWQiOiI5In0.c2ln",
            "Bearer abc",
            "https://me:pw@stock.example/",
            "https://stock.example/?key=abc",
            "123456:AAHk0vT3xPqL9sWz2mRbYc",
            "user:password",
            "correct horse battery staple",
            "correct-horse-battery-staple",
            "zxcvbnmqwrtp",
            "QwErTyUiOpAs",
            "4111111111111111",
            "p@ss",
            "a\\u0041",
        ] {
            assert!(!is_plain_value(text), "{text}");
        }
    }

    #[test]
    fn a_key_of_capitals_is_no_variable() {
        assert!(is_variable_name("STOCK_API_KEY_2"));
        for text in ["AKIAIOSFODNN7EXAMPLE", "JBSWY3DPEHPK3PXP", "stock", "", "1A"] {
            assert!(!is_variable_name(text), "{text}");
        }
    }
}
