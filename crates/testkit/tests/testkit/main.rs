//! Tests of the test infrastructure: virtual time, networks, processes and servers.

mod background;
mod fault_proxy;
mod poll_points;
mod process;
mod redis_server;
mod virtual_net;
mod virtual_time;
