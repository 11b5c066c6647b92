//! Published limits of providers, as data.
//!
//! A preset is a configuration text below the user's own: every key of the user wins, and lists are
//! replaced. Only this list knows providers by name, so a provider's new limits are a change of data,
//! with date and source.

use std::fmt;

/// Published limits of a provider.
///
/// ```
/// use outflow::Preset;
///
/// let upbit = Preset::named("upbit").unwrap();
/// assert!(upbit.text().contains("Remaining-Req"));
/// assert_eq!(Preset::named("upbot"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    name: &'static str,
    text: &'static str,
}

impl Preset {
    /// All presets, sorted by name.
    pub const ALL: [Self; 7] = [
        Self::new("anthropic", include_str!("../presets/anthropic.toml")),
        Self::new("binance", include_str!("../presets/binance.toml")),
        Self::new("github", include_str!("../presets/github.toml")),
        Self::new("openai", include_str!("../presets/openai.toml")),
        Self::new("shopify", include_str!("../presets/shopify.toml")),
        Self::new("tmdb", include_str!("../presets/tmdb.toml")),
        Self::new("upbit", include_str!("../presets/upbit.toml")),
    ];

    /// Returns the preset of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name == name)
    }

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Returns its text: `source` and `as_of` name the origin of its facts, `key_env` the usual variables of a
    /// key, `[api]` has its keys.
    pub const fn text(self) -> &'static str {
        self.text
    }

    /// Returns the variables in which users keep their key, the usual one first; none if a key does not suffice.
    ///
    /// ```
    /// use outflow::Preset;
    ///
    /// let github = Preset::named("github").unwrap();
    /// assert_eq!(github.key_variables().next(), Some("GITHUB_TOKEN"));
    /// ```
    pub fn key_variables(self) -> impl Iterator<Item = &'static str> {
        let line = self.text.lines().find_map(|line| line.strip_prefix("key_env = ["));
        let names = line.unwrap_or_default().trim_end_matches(']').split(',');
        names
            .map(|name| name.trim().trim_matches('"'))
            .filter(|name| !name.is_empty())
    }

    const fn new(name: &'static str, text: &'static str) -> Self {
        Self { name, text }
    }
}

impl fmt::Debug for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Preset").field(&self.name).finish()
    }
}
