//! What tests need around the product: a network that fails on demand, servers to start and kill,
//! processes to run and virtual time.
//!
//! Two kinds of rooms. In virtual time ([`VirtualTime`], [`VirtualNet`]) a client and a server talk
//! for a month in a second, and the same seed tells the same story. In real time ([`FaultProxy`],
//! [`RedisServer`], [`Process`], [`Browser`]) real programs meet real sockets, because a kernel's reset
//! or a `kill -9` cannot be imitated. [`Background`] is the one way to start a task in a test, and
//! [`PollPoints`] drops a future wherever it can be dropped. [`laws!`] states what holds for every
//! history, on generated values. It is never published, and no crate depends on it outside its tests.

mod background;
mod browser;
mod deadline;
mod fault_proxy;
pub mod fuzz_seeds;
pub mod laws;
mod link_latency;
mod net_conditions;
pub mod parser_inputs;
mod poll_points;
mod process;
mod redis_server;
mod virtual_net;
mod virtual_time;

pub use background::Background;
pub use browser::{Browser, Met};
pub use fault_proxy::{Cut, FaultProxy};
pub use link_latency::{Direction, Jitter, LinkLatency, Path};
pub use net_conditions::{NetConditions, Traffic};
pub use poll_points::{PollPoint, PollPoints, Run, WakeCount};
pub use process::{Line, Output, Process};
pub use redis_server::{Keep, Listen, RedisOptions, RedisServer, ServerFlavor};
pub use virtual_net::{VirtualNet, VirtualStream};
pub use virtual_time::VirtualTime;
