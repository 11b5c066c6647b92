//! The strict API: a server that enforces and audits limits by arrival time, and misbehaves on
//! script.
//!
//! It will hold the enforcement, an audit of every arrival against a log that forgets nothing, and
//! the scripts of refusals, bans, stalls and broken answers. It depends on the core alone, so that
//! nothing which is tested against it can share its mistakes.
