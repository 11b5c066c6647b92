//! What providers publish about their limits, shipped as data.
//!
//! A preset is a text like any configuration and is laid under the user's own: whatever the user says
//! wins, and lists are replaced. Nothing in the program knows a provider by name except this list, so a
//! provider that changes its limits is a change of data, dated and with its source.

use std::fmt;

/// A provider's published limits.
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
    /// Every preset, by name.
    pub const ALL: [Self; 7] = [
        Self::new("anthropic", include_str!("../presets/anthropic.toml")),
        Self::new("binance", include_str!("../presets/binance.toml")),
        Self::new("github", include_str!("../presets/github.toml")),
        Self::new("openai", include_str!("../presets/openai.toml")),
        Self::new("shopify", include_str!("../presets/shopify.toml")),
        Self::new("tmdb", include_str!("../presets/tmdb.toml")),
        Self::new("upbit", include_str!("../presets/upbit.toml")),
    ];

    /// The preset of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name == name)
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Its text: `source` and `as_of` say where its facts are from, `[api]` is what it sets.
    pub const fn text(self) -> &'static str {
        self.text
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
