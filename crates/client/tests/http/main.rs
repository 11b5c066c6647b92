//! The client against the strict API: over real sockets where the network is the point, over pipes
//! in virtual time where time is.

#[path = "../support/alone.rs"]
mod alone;
mod cached;
mod cancelled;
mod connections;
mod deadlines;
mod echoes;
mod faults;
mod floods;
mod following;
mod frames;
mod governed;
mod names;
mod outages;
mod paths;
mod policy;
mod redirects;
mod retries;
mod secrets;
mod sizes;
mod streams;
mod support;
mod tls;
mod together;
mod ways;
