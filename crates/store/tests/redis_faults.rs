//! The store in Redis through everything that can befall its server and the way there.
//!
//! Each time: what was acknowledged is there, nothing is counted twice, the books balance, and the store
//! works again within five seconds of the fault's end without being made anew.

#[path = "redis_faults/failover.rs"]
mod failover;
#[path = "redis_faults/full.rs"]
mod full;
#[path = "redis_faults/garbage.rs"]
mod garbage;
#[path = "redis_faults/older.rs"]
mod older;
#[path = "redis_faults/rights.rs"]
mod rights;
#[path = "redis_faults/room.rs"]
mod room;
#[path = "redis_faults/server.rs"]
mod server;
#[path = "redis_faults/still.rs"]
mod still;
#[path = "redis_faults/tls.rs"]
mod tls;
#[path = "redis_faults/way.rs"]
mod way;
