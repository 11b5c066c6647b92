//! What tests need around the product: a network that fails on demand, servers to start and kill,
//! processes to run and virtual time.
//!
//! It will hold the fault proxy, the Redis and Valkey spawner and the process runner. It is never
//! published, and no crate depends on it outside its tests.
