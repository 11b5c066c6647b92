//! The mock API over memory and sockets: limits, faults, protocols and its audit.

mod audit;
mod chat;
mod faults;
mod protocols;
mod server;
mod support;
