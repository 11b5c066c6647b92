//! Both stores: the contract of a job store, random histories, and the promises of each store.

#[cfg(test)]
#[macro_use]
mod contract;
#[cfg(test)]
mod embedded;
#[cfg(test)]
mod model;
#[cfg(test)]
mod redis;
#[cfg(test)]
mod redis_faults;
#[cfg(test)]
mod support;
