//! A caller's path behind an API's base URL.
//!
//! A caller chooses what is asked of an API, never which API is asked. So a path is checked, not
//! resolved: the rules by which a browser resolves references leave the origin at `//host`, and each
//! server undoes encodings in its own way. What any of them could read as a step upwards, as another
//! host or as the end of a line is refused in every spelling, even where it would stay below the
//! prefix: limits are chosen by the path as written, and a path that means another one would be
//! counted against the wrong group. What passes goes out byte for byte, so signed queries stay signed.

use std::fmt;

use http::Uri;
use http::uri::{Parts, PathAndQuery};
use percent_encoding::percent_decode_str;

use super::BaseUrl;

impl BaseUrl {
    /// Puts a path, and a query if there is one, behind this URL. The origin of the result is always
    /// that of the base, and the bytes are the caller's own.
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
    /// If the text is more or less than a path and a query, or if some server could take it for
    /// another path than the one written.
    pub fn join(&self, path_and_query: &str) -> Result<Uri, InvalidPath> {
        let path = checked(path_and_query)?;
        let slash = if path.is_empty() && self.prefix().is_empty() {
            "/"
        } else {
            ""
        };
        let whole = [self.prefix(), slash, path_and_query].concat();
        let mut parts = Parts::default();
        parts.scheme = Some(self.scheme().clone());
        parts.authority = Some(self.authority().clone());
        parts.path_and_query =
            Some(PathAndQuery::try_from(whole).map_err(|_| InvalidPath::Character)?);
        Uri::from_parts(parts).map_err(|_| InvalidPath::Character)
    }
}

/// The path alone, if it means the same to everybody.
fn checked(written: &str) -> Result<&str, InvalidPath> {
    if written.len() > LONGEST {
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
    every_reading(path)?;
    Ok(path)
}

/// Looks at a path as written and as servers see it that decode it once, twice or three times.
fn every_reading(path: &str) -> Result<(), InvalidPath> {
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(InvalidPath::Character);
    }
    if !escapes_are_whole(path) {
        return Err(InvalidPath::Encoding);
    }
    // Every reading of a path without escapes is the path itself.
    if !path.contains('%') {
        return harmless(path);
    }
    let mut reading = path.to_owned();
    for _ in 0..READINGS {
        harmless(&reading)?;
        let deeper = decoded(&reading)?;
        if deeper == reading {
            return Ok(());
        }
        reading = deeper;
    }
    // Whoever encodes an encoding of an encoding hides something.
    Err(InvalidPath::Encoding)
}

fn harmless(reading: &str) -> Result<(), InvalidPath> {
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

/// Whether a segment means this directory or the one above. Some servers cut parameters off first,
/// so `..;a=b` does too; some trim blanks.
fn is_dots(segment: &str) -> bool {
    let name = segment.split(';').next().unwrap_or(segment).trim();
    matches!(name, "." | "..")
}

/// A percent sign announces two hexadecimal digits: what else it could mean differs by server.
fn escapes_are_whole(path: &str) -> bool {
    path.split('%').skip(1).all(|after| {
        after
            .as_bytes()
            .get(..2)
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// The path with its escapes undone once. Bytes that are no text are refused: over-long forms of a
/// dot or a slash are among them.
fn decoded(path: &str) -> Result<String, InvalidPath> {
    percent_decode_str(path)
        .decode_utf8()
        .map(|text| text.chars().map(folded).collect())
        .map_err(|_| InvalidPath::Encoding)
}

/// Wide forms of the characters that matter, which some servers fold into the narrow ones.
fn folded(character: char) -> char {
    match character {
        '\u{ff0e}' | '\u{2024}' => '.',
        '\u{ff0f}' => '/',
        '\u{ff3c}' => '\\',
        '\u{ff05}' => '%',
        other => other,
    }
}

/// As long as the longest that `http` can hold, less some room for the prefix.
const LONGEST: usize = 60_000;

/// As written and decoded up to three times; nothing honest is encoded more often.
const READINGS: usize = 4;

/// Why a text is no path behind a base URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidPath {
    /// It does not begin with a slash.
    NoSlash,
    /// It names a host, or could be taken to.
    Host,
    /// It holds `.` or `..` as a segment, in some spelling.
    Dots,
    /// It holds a backslash, in some spelling.
    Backslash,
    /// It holds a fragment, which is never sent.
    Fragment,
    /// It holds a blank, a control character or a letter that is not ASCII.
    Character,
    /// A percent sign that announces nothing, or something that is no text.
    Encoding,
    /// It is too long.
    TooLong,
}

impl fmt::Display for InvalidPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSlash => "a path begins with `/`: the host is the API's and cannot be named",
            Self::Host => "a path begins with one `/`: two could be taken for a host",
            Self::Dots => "a path holds no `.` or `..`: write the one that is meant",
            Self::Backslash => "a path holds no backslash",
            Self::Fragment => "a path ends before `#`: fragments are never sent",
            Self::Character => {
                "a path is visible ASCII and holds no control character: percent-encode the rest"
            }
            Self::Encoding => "write `%` as `%25`, and encode UTF-8 once",
            Self::TooLong => "a path of more than 60 000 bytes: put it into the body",
        })
    }
}

impl std::error::Error for InvalidPath {}
