//! JSON forms of jobs, actions, tenants and outcomes, for files and for the admin API.

mod job_line;
mod shape_error;
pub mod views;

pub use job_line::JobLine;
