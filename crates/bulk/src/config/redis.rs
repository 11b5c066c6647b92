//! Reads the store of the jobs.

use std::time::Duration;

use outflow_config::value_readers::{
    read_choice, read_integer, read_name, read_path, read_positive_duration, read_text,
};
use outflow_config::{Environment, FieldValue, SecretKeys, TableReader, ValueError, read_secret};
use smol_str::SmolStr;

use super::{BulkRedis, BulkStore};

/// Reads `store` and `redis`. The URL of a server may contain its password, so the text only names its
/// place.
pub(super) fn read_store(bulk: &TableReader<'_>, environment: &Environment) -> BulkStore {
    let kind = bulk.read("store", read_choice(&STORES));
    let table = bulk.section("redis");
    let url = read_secret(&table, environment, REDIS_URL);
    let ca_file = table.read("ca_file", read_path);
    let queue = table.read("queue", read_queue);
    let replicas = table.read("wait_replicas", |item| read_integer(item, 0..=MAX_REPLICAS));
    let timeout = table.read("timeout", read_positive_duration);
    table.finish();
    let has_url = ["url_env", "url_file", "url"].iter().any(|key| table.has(key));
    if kind != Some(StoreKind::Redis) {
        if has_url && (kind.is_some() || !bulk.has("store")) {
            report_unused(bulk, "redis", "say `store = \"redis\"`, or leave it out");
        }
        return BulkStore::Embedded;
    }
    if bulk.has("dir") {
        report_unused(bulk, "dir", "leave it out: a server keeps the jobs");
    }
    if !has_url {
        let error = ValueError::new("nothing says where Redis is");
        let help = "name a variable that holds its address: `redis.url_env = \"REDIS_URL\"`";
        bulk.report("store", error.help(help));
    }
    let redis = |url| BulkRedis {
        url,
        ca_file,
        queue: queue.unwrap_or(SmolStr::new_static(DEFAULT_QUEUE)),
        wait_replicas: replicas.and_then(|count| u32::try_from(count).ok()).unwrap_or_default(),
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
    };
    url.map_or(BulkStore::Embedded, |url| BulkStore::Redis(redis(url)))
}

fn report_unused(bulk: &TableReader<'_>, key: &str, help: &str) {
    let error = ValueError::warning("the chosen store does not use this");
    bulk.report(key, error.help(help));
}

/// Reads the name of the queue, which is a part of every key.
fn read_queue(item: &FieldValue<'_>) -> Result<SmolStr, ValueError> {
    read_name(read_text(item)?)
}

/// Keys of the server's URL.
const REDIS_URL: SecretKeys = SecretKeys {
    inline: "url",
    variable: "url_env",
    file: "url_file",
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum StoreKind {
    Embedded,
    Redis,
}

const STORES: [(&str, StoreKind); 2] = [("embedded", StoreKind::Embedded), ("redis", StoreKind::Redis)];

const DEFAULT_QUEUE: &str = "outflow";

/// A healthy server responds within milliseconds.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

/// More replicas than any installation has.
const MAX_REPLICAS: u64 = 100;
