//! Removal of known secrets from text.
//!
//! The last defence: no known secret leaves in any text. Each secret is matched raw,
//! percent-encoded and as Rust's debug output. It cannot help against an unregistered or split
//! secret, so it comes last and not alone.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};

/// Set of secrets that it removes from text. Clones share the set.
///
/// ```
/// use outflow::redact::Scrubber;
/// use secrecy::SecretString;
///
/// let scrubber = Scrubber::new();
/// scrubber.learn(&SecretString::from("k3y/4bc"));
/// assert_eq!(scrubber.scrub("GET /a?key=k3y%2F4bc"), "GET /a?key=[redacted]");
/// ```
#[derive(Clone, Default)]
pub struct Scrubber {
    /// Longest first, so that a secret within another leaves no rest.
    secrets: Arc<ArcSwap<Vec<SecretString>>>,
}

impl Scrubber {
    /// Returns an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a secret. Secrets of fewer than four bytes are ignored: they would mangle words and
    /// protect nothing.
    pub fn learn(&self, secret: &SecretString) {
        let plain = secret.expose_secret();
        if plain.len() < MIN_SECRET {
            return;
        }
        let encoded = utf8_percent_encode(plain, NON_ALPHANUMERIC).to_string();
        let printed = plain.escape_debug().to_string();
        let forms = [plain.to_owned(), encoded, printed].map(SecretString::from);
        self.secrets.rcu(|known| with_forms(known, &forms));
    }

    /// Returns the text without any known secret.
    pub fn scrub<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for secret in self.secrets.load().iter() {
            let secret = secret.expose_secret();
            if text.contains(secret) {
                text = Cow::Owned(text.replace(secret, super::REDACTED));
            }
        }
        text
    }
}

fn with_forms(known: &[SecretString], forms: &[SecretString]) -> Vec<SecretString> {
    let mut all = known.to_vec();
    for form in forms {
        let is_new = |one: &SecretString| one.expose_secret() != form.expose_secret();
        if all.iter().all(is_new) {
            all.push(form.clone());
        }
    }
    all.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
    all
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrubber")
            .field("secrets", &self.secrets.load().len())
            .finish()
    }
}

const MIN_SECRET: usize = 4;
