//! Both stores: the contract of a job store, random histories, and what each store promises alone.

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
