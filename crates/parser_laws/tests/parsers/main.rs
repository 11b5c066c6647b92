//! The laws of the parsers, kept by the property runner: arbitrary bytes, and bytes that look like what
//! a parser wants with a few of them changed.

mod client;
mod program;
mod values;
