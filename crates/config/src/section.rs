//! The contract of a section with the program that composes sections.

use super::environment::Environment;
use super::reader::TableReader;

/// A section of a configuration, owned by the crate that uses it.
pub trait Section: Sized {
    /// Name of the section's table.
    const NAME: &'static str;

    /// Reads the section from its table, and reports errors there.
    fn read(table: &TableReader<'_>, environment: &Environment) -> Self;

    /// Returns the keys whose new value takes effect after a restart only; `self` is the section at the
    /// start of the process.
    fn restart_keys(&self, new: &Self) -> Vec<String>;
}

/// Keys of the program's sections that a reload found changed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SectionChanges {
    /// Keys whose new value is in effect.
    pub changed: Vec<String>,
    /// Keys whose new value takes effect after a restart.
    pub restart: Vec<String>,
}

impl SectionChanges {
    /// Returns the keys of `differences` that differ.
    pub fn differing<const N: usize>(differences: [(&str, bool); N]) -> Vec<String> {
        let differing = differences.into_iter().filter(|(_, differs)| *differs);
        differing.map(|(key, _)| key.to_owned()).collect()
    }
}
