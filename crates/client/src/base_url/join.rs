//! Join of a caller's path with an API's base URL.
//!
//! A caller chooses the request, never the API. So a path is checked, not resolved: reference
//! resolution leaves the origin at `//host`, and each server decodes in its own way. Everything
//! that a server could read as a step upwards, another host or a line end is refused in every
//! encoding, even below the prefix: limits follow the path as written, and a path with another
//! meaning would count for the wrong group. Accepted paths are sent byte for byte, so signed
//! queries stay valid.

use http::Uri;
use http::uri::{Parts, PathAndQuery};
use percent_encoding::percent_decode_str;

use super::BaseUrl;

impl BaseUrl {
    /// Joins a path and an optional query with this URL. The result always has the origin of the
    /// base and the caller's bytes.
    ///
    /// ```
    /// use outflow::{BaseUrl, InvalidPath};
    ///
    /// let api: BaseUrl = "https://api.example.com/v1".parse()?;
    /// let uri = api.join("/films/17?lang=ko")?;
    /// assert_eq!(uri, "https://api.example.com/v1/films/17?lang=ko");
    /// assert_eq!(api.join("//evil.example/films"), Err(InvalidPath::Host));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the text is not exactly a path and a query, or if a server could read it as another path.
    pub fn join(&self, path_and_query: &str) -> Result<Uri, InvalidPath> {
        let path = check_path(path_and_query)?;
        let slash = if path.is_empty() && self.prefix().is_empty() {
            "/"
        } else {
            ""
        };
        let full = [self.prefix(), slash, path_and_query].concat();
        let mut parts = Parts::default();
        parts.scheme = Some(self.scheme().clone());
        parts.authority = Some(self.authority().clone());
        parts.path_and_query = Some(PathAndQuery::try_from(full).map_err(|_| InvalidPath::Character)?);
        Uri::from_parts(parts).map_err(|_| InvalidPath::Character)
    }
}

/// Returns the path if all servers read it alike.
fn check_path(written: &str) -> Result<&str, InvalidPath> {
    if written.len() > MAX_LENGTH {
        return Err(InvalidPath::TooLong);
    }
    let end = written.find(['?', '#']).unwrap_or(written.len());
    let (path, rest) = written.split_at(end);
    if !path.is_empty() && !path.starts_with('/') {
        return Err(InvalidPath::NoSlash);
    }
    if written.contains('#') {
        return Err(InvalidPath::Fragment);
    }
    if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(InvalidPath::Character);
    }
    check_readings(path)?;
    Ok(path)
}

/// Checks a path as written and as servers see it that decode it up to three times.
fn check_readings(path: &str) -> Result<(), InvalidPath> {
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(InvalidPath::Character);
    }
    if !has_valid_escapes(path) {
        return Err(InvalidPath::Encoding);
    }
    // A path without escapes has only one reading.
    if !path.contains('%') {
        return check_reading(path);
    }
    let mut reading = path.to_owned();
    for _ in 0..MAX_READINGS {
        check_reading(&reading)?;
        let decoded = decode_once(&reading)?;
        if decoded == reading {
            return Ok(());
        }
        reading = decoded;
    }
    // A triple encoding hides something.
    Err(InvalidPath::Encoding)
}

fn check_reading(reading: &str) -> Result<(), InvalidPath> {
    if reading.contains(char::is_control) {
        return Err(InvalidPath::Character);
    }
    if reading.contains('\\') {
        return Err(InvalidPath::Backslash);
    }
    if reading.starts_with("//") {
        return Err(InvalidPath::Host);
    }
    if reading.split('/').any(is_dots) {
        return Err(InvalidPath::Dots);
    }
    Ok(())
}

/// Returns true if a segment means this directory or its parent. Some servers first cut parameters
/// off (`..;a=b`), and some trim blanks.
fn is_dots(segment: &str) -> bool {
    let name = segment.split(';').next().unwrap_or(segment).trim();
    matches!(name, "." | "..")
}

/// Returns true if every percent sign precedes two hexadecimal digits: other meanings differ by
/// server.
fn has_valid_escapes(path: &str) -> bool {
    path.split('%').skip(1).all(|after| {
        after
            .as_bytes()
            .get(..2)
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// Decodes escapes once. Invalid UTF-8 is refused: it includes overlong forms of a dot or a slash.
fn decode_once(path: &str) -> Result<String, InvalidPath> {
    percent_decode_str(path)
        .decode_utf8()
        .map(|text| text.chars().map(fold_wide).collect())
        .map_err(|_| InvalidPath::Encoding)
}

/// Folds full-width forms of relevant characters, as some servers do.
fn fold_wide(character: char) -> char {
    match character {
        '\u{ff0e}' | '\u{2024}' => '.',
        '\u{ff0f}' => '/',
        '\u{ff3c}' => '\\',
        '\u{ff05}' => '%',
        other => other,
    }
}

/// Maximum of `http`, less some space for the prefix.
const MAX_LENGTH: usize = 60_000;

/// As written and decoded up to three times; legitimate paths are not encoded more often.
const MAX_READINGS: usize = 4;

outflow_core::error_enum! {
    /// Error of a path.
    pub enum InvalidPath {
        /// It does not start with a slash.
        NoSlash = "a path starts with `/`: the host comes from the API and cannot be set",
        /// It names a host, or could be read so.
        Host = "a path starts with one `/`: two could be read as a host",
        /// It has `.` or `..` as a segment, in some encoding.
        Dots = "a path holds no `.` or `..`: write the resolved path",
        /// It has a backslash, in some encoding.
        Backslash = "a path holds no backslash",
        /// It has a fragment, which is never sent.
        Fragment = "a path ends before `#`: fragments are never sent",
        /// It has a blank, a control character or a non-ASCII letter.
        Character = "a path is visible ASCII and holds no control character: percent-encode the rest",
        /// A percent sign without digits, or invalid UTF-8.
        Encoding = "write `%` as `%25`, and encode UTF-8 once",
        /// It is too long.
        TooLong = "the path has more than 60 000 bytes: put the data into the body",
    }
}
