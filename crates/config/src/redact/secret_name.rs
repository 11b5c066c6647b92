//! Judges a name: may its value be a secret?
//!
//! A user who writes a secret into a file often misspells its key, so names near a word of secrets count
//! too. The words are parts of names: `x-auth-token` and `apikey` need no entry of their own.

/// What the value of a name may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NameKind {
    /// Nothing secret: the value is judged by its form.
    Plain,
    /// The name of a variable: `api_key_env`.
    Variable,
    /// The path of a file: `api_key_file`.
    File,
    /// The place of a key in a request: `key`.
    Placement,
    /// A secret.
    Secret,
}

impl NameKind {
    /// Judges one name, without its quotes.
    pub(crate) fn of(name: &str) -> Self {
        let name = name.to_lowercase().replace('-', "_");
        match name.as_str() {
            "key" => Self::Placement,
            _ if name.ends_with("_env") => Self::Variable,
            _ if name.ends_with("_file") => Self::File,
            _ if WORDS.iter().any(|word| name.contains(word)) => Self::Secret,
            _ if name.split(['_', '.', ' ']).any(is_near_word) => Self::Secret,
            _ => Self::Plain,
        }
    }

    /// Judges a name inside of a value that another name has.
    pub(crate) fn within(self, name: &str) -> Self {
        match (self, Self::of(name)) {
            (Self::Plain, inner) => inner,
            // The parts of a placement are names of headers and parameters.
            (Self::Placement, Self::Plain | Self::Secret) if PLACES.contains(&name) => Self::Plain,
            _ => Self::Secret,
        }
    }
}

/// Returns true for a misspelt word: `kye`, `tokne`, `secert`.
fn is_near_word(part: &str) -> bool {
    MISSPELT.iter().any(|word| {
        let (first, last) = (word.as_bytes().first(), word.as_bytes().last());
        let (own_first, own_last) = (part.as_bytes().first(), part.as_bytes().last());
        // The distance is slow, and a file may have a hundred thousand names.
        part.len().abs_diff(word.len()) <= 1
            && (first == own_first || last == own_last)
            && strsim::damerau_levenshtein(part, word) <= 1
    })
}

/// Parts of the names of secrets.
const WORDS: [&str; 15] = [
    "key",
    "token",
    "secret",
    "pass",
    "pwd",
    "credential",
    "auth",
    "atuh",
    "auht",
    "bearer",
    "cookie",
    "session",
    "signature",
    "jwt",
    "login",
];

/// Words that users misspell. `auth` is near `auto`, so its misspellings are above.
const MISSPELT: [&str; 8] = [
    "key",
    "apikey",
    "token",
    "secret",
    "bearer",
    "cookie",
    "password",
    "credential",
];

/// Keys below `key`.
const PLACES: [&str; 3] = ["header", "query", "jwt"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_of_a_secret_is_one() {
        for name in [
            "api_key",
            "api_kye",
            "apikey",
            "apykey",
            "API-KEY",
            "auth",
            "bearer",
            "baerer",
            "tokne",
            "x-secert",
            "passwrod",
            "pwd",
            "cookie",
            "client_credential",
            "session_id",
            "Authorization",
            "ky",
        ] {
            assert_eq!(NameKind::of(name), NameKind::Secret, "{name}");
        }
        for name in [
            "timeout",
            "path",
            "level",
            "counts",
            "header",
            "query",
            "auto_recover",
            "retry",
            "burst",
            "dir",
            "url",
        ] {
            assert_eq!(NameKind::of(name), NameKind::Plain, "{name}");
        }
    }

    #[test]
    fn a_part_of_a_secret_is_secret_under_any_name() {
        assert_eq!(NameKind::Secret.within("timeout"), NameKind::Secret);
        assert_eq!(NameKind::File.within("path"), NameKind::Secret);
        assert_eq!(NameKind::Placement.within("value"), NameKind::Secret);
        assert_eq!(NameKind::Placement.within("header"), NameKind::Plain);
        assert_eq!(NameKind::Plain.within("api_key_env"), NameKind::Variable);
    }
}
