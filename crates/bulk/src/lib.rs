//! Runs durable jobs of many tenants through the client, fairly.
//!
//! A job leaves its queue only when its permit is in hand: the scheduler asks the API's own door for
//! leave, then claims the job whose turn it is, so that no job is ever tried, refused and put back.
//! Workers send by the client and nothing else; what they report is settled in batches; a watcher tells
//! when an action is complete. This crate sends nothing itself and touches no meter: both belong to the
//! client. Where jobs are kept belongs to the store.
//!
//! The formula that guesses how long a refused job should wait is here too, as a scheduler to choose
//! and as what levels, estimates and alerts are reckoned with.

mod bound;
mod congestion;
mod crew;
mod deed;
mod demand;
mod doors;
mod engine;
mod error;
mod gate;
mod handler;
mod house;
mod in_line;
mod lane;
mod look;
mod metrics;
mod news;
mod outcomes;
mod outlook;
mod pace;
mod pulse;
mod rules;
mod scheduler;
mod server_clock;
mod session;
mod settings;
mod settler;
mod slot;
mod staff;
mod submit;
mod summary;
mod takings;
mod upkeep;
mod voice;
mod watcher;
mod webhook;
mod worker;

pub use bound::Bound;
pub use congestion::{GroupState, Summary};
pub use deed::{HttpCall, InvalidCall};
pub use demand::{Amount, Demand, Wanted};
pub use engine::{Builder, Engine};
pub use error::BulkError;
pub use handler::{Failure, Handler, Output, Task};
pub use lane::Lane;
pub use news::{News, Progress};
pub use settings::{Crew, Retention, Scheduler, Settings, Shared};
pub use submit::{Destination, Order, Placed, Standing, Submission, Work};
pub use summary::ActionSummary;
pub use webhook::Webhook;
