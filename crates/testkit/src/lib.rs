//! Test infrastructure around the product: a network that fails on demand, servers to start and
//! kill, processes to run and virtual time.
//!
//! In virtual time ([`VirtualTime`], [`VirtualNet`]) a client and a server talk for a month in a
//! second, and one seed gives one history. In real time ([`FaultProxy`],
//! [`RedisServer`], [`Process`], [`Browser`]) real programs use real sockets, because a kernel's
//! reset or a `kill -9` cannot be imitated. [`Background`] is the only way to start a task in a
//! test, and
//! [`PollPoints`] drops a future at every possible point. [`laws!`] states properties of every
//! history, on generated values. The crate is never published, and no crate depends on it outside
//! its tests.

mod background;
mod browser;
mod deadline;
#[cfg(feature = "client")]
mod event_recorder;
mod fault_proxy;
pub mod fuzz_seeds;
pub mod laws;
mod link_latency;
mod memory_ledger;
mod net_conditions;
pub mod parser_inputs;
mod poll_points;
mod process;
#[cfg(feature = "client")]
pub mod recovery;
mod redis_server;
mod virtual_net;
mod virtual_time;
pub mod zero429;

pub use background::Background;
pub use browser::{Browser, SeenRequest};
pub use deadline::Deadline;
#[cfg(feature = "client")]
pub use event_recorder::EventRecorder;
pub use fault_proxy::{Cut, FaultProxy};
pub use link_latency::{Direction, Jitter, LinkLatency, Path};
pub use memory_ledger::{LedgerLink, MemoryLedger};
pub use net_conditions::{NetConditions, Traffic};
pub use poll_points::{PollPoint, PollPoints, Run, WakeCount};
pub use process::{Line, Output, Process};
pub use redis_server::{Keep, Listen, RedisOptions, RedisSentinel, RedisServer, ServerClock, ServerFlavor};
pub use virtual_net::{VirtualNet, VirtualStream};
pub use virtual_time::VirtualTime;
