//! What tests need around the product: a network that fails on demand, servers to start and kill,
//! processes to run and virtual time.
//!
//! Two kinds of rooms. In virtual time ([`VirtualTime`], [`VirtualNet`]) a client and a server talk
//! for a month in a second, and the same seed tells the same story. In real time ([`FaultProxy`],
//! [`RedisServer`], [`Process`]) real programs meet real sockets, because a kernel's reset or a
//! `kill -9` cannot be imitated. [`Background`] is the one way to start a task in a test, and
//! [`PollPoints`] drops a future wherever it can be dropped. It is never published, and no crate
//! depends on it outside its tests.

mod background;
mod virtual_time;

pub use background::Background;
pub use virtual_time::VirtualTime;
