//! The database of the embedded store: its files, its rows, and the changes written to them.

pub(crate) mod checksum;
pub(crate) mod coalesce;
pub(crate) mod counters;
pub(crate) mod database_error;
pub(crate) mod delete_garbage;
pub(crate) mod directory;
pub(crate) mod durability;
pub(crate) mod int_codec;
pub(crate) mod load;
pub(crate) mod outcome_rows;
pub(crate) mod prefetch;
pub(crate) mod private_files;
pub(crate) mod rows;
pub(crate) mod schema;
pub(crate) mod sql_writer;
pub(crate) mod store_id;
pub(crate) mod wal_check;
pub(crate) mod write_op;
