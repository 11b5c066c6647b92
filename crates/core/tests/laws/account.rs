//! The account of several processes: never over a limit, nothing lost, fair.

mod fairness;
mod history;
mod processes;
mod renewals;
