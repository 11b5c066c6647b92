//! Bad days of an API, played in virtual time with the client as a user configures it.
//!
//! A [`RecoveryScenario`] says what the server does, and when. A [`RecoveryPlan`] plays it against a
//! real client that knows an address and limits, and nothing else: [`UserConfig`] lists every other
//! setting with its reason. [`RecoveryFigures`] say how well that went.
//!
//! Two loads show different things. Under the busy one there are so many workers that the limit is
//! always used: it shows how quickly the full rate is back. The open one has callers at four fifths of
//! the limit with a deadline: it shows how many of them fail without need.

mod bed;
mod call_log;
mod catalog;
mod figures;
mod load;
mod other_client;
mod plan;
mod scenario;
mod user_config;

pub use self::bed::RecoveryBed;
pub use self::call_log::RunRecord;
pub use self::figures::RecoveryFigures;
pub use self::plan::RecoveryPlan;
pub use self::scenario::{RecoveryScenario, ServerTrouble, TroubleKind};
pub use self::user_config::{ChangedSetting, UserConfig};
