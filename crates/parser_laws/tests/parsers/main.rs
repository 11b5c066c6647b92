//! The laws of the parsers, checked by the property runner: arbitrary bytes, and valid inputs with
//! a few bytes changed.

mod client;
mod program;
mod secrets;
mod values;
