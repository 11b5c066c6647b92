//! The store in Redis through everything that can befall its server and the way there.
//!
//! Each time: what was acknowledged is there, nothing is counted twice, the books balance, and the store
//! works again within five seconds of the fault's end without being made anew.

mod acl;
mod failover;
mod frozen_server;
mod invalid_replies;
mod network;
mod out_of_memory;
mod server_state;
mod stale_data;
mod support;
mod tls;
