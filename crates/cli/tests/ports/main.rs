//! The two ports of the program over real sockets: the admin API and the sidecar.

mod admin;
mod sidecar;
