//! Redis store through faults of its server and of the network.
//!
//! Each time acknowledged jobs are there, nothing counts twice, the audit finds no difference, and
//! the store works again within five seconds of the fault's end without a new connection by the
//! caller.

mod acl;
mod cluster;
mod failover;
mod frozen_server;
mod invalid_replies;
mod ledger;
mod network;
mod out_of_memory;
mod server_state;
mod stale_data;
mod support;
mod tls;
