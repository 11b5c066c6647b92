//! `explain` against reality: what it says of a call is what the next real call meets.
//!
//! The API is 50 ms away and the client has the settings of a user: an address and limits. Every other setting
//! is beside its reason.

mod causes;
mod situations;
mod support;
