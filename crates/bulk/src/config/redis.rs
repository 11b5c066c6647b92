//! Reads where jobs are kept.

use std::time::Duration;

use smol_str::SmolStr;

use super::super::credential;
use super::super::environment::Environment;
use super::super::reader::{FieldValue, TableReader, ValueError};
use super::super::value_readers::{choice, name, path, span, text, whole};
use super::{BulkRedis, BulkStore};

/// Reads `store` and `redis`. The address of a server may hold its password, so it is named and not
/// written.
pub(super) fn store(bulk: &TableReader<'_>, environment: &Environment) -> BulkStore {
    let word = bulk.read("store", |item| choice(item, &STORES));
    let fields = bulk.section("redis");
    let url = credential::secret(&fields, environment, credential::REDIS_URL);
    let ca_file = fields.read("ca_file", path);
    let queue = fields.read("queue", queue);
    let replicas = fields.read("wait_replicas", |item| whole(item, 0..=MOST_REPLICAS));
    let timeout = fields.read("timeout", span);
    fields.finish();
    let says_where = ["url_env", "url_file", "url"]
        .iter()
        .any(|key| fields.has(key));
    if word != Some(RedisWord::Redis) {
        if says_where && (word.is_some() || !bulk.has("store")) {
            report_unused(bulk, "redis", "say `store = \"redis\"`, or leave it out");
        }
        return BulkStore::Embedded;
    }
    if bulk.has("dir") {
        report_unused(bulk, "dir", "leave it out: a server keeps the jobs");
    }
    if !says_where {
        let wrong = ValueError::new("nothing says where Redis is");
        let help = "name a variable that holds its address: `redis.url_env = \"REDIS_URL\"`";
        bulk.tell("store", wrong.help(help));
    }
    let redis = |url| BulkRedis {
        url,
        ca_file,
        queue: queue.unwrap_or(SmolStr::new_static(USUAL_QUEUE)),
        wait_replicas: replicas
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or_default(),
        timeout: timeout.unwrap_or(USUAL_TIMEOUT),
    };
    url.map_or(BulkStore::Embedded, |url| BulkStore::Redis(redis(url)))
}

fn report_unused(bulk: &TableReader<'_>, key: &str, help: &str) {
    let wrong = ValueError::warning("this is of no use with the store that is chosen");
    bulk.tell(key, wrong.help(help));
}

/// It goes into every key, so it keeps to the rule of other names.
fn queue(item: &FieldValue<'_>) -> Result<SmolStr, ValueError> {
    name(text(item)?)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RedisWord {
    Embedded,
    Redis,
}

const STORES: [(&str, RedisWord); 2] = [
    ("embedded", RedisWord::Embedded),
    ("redis", RedisWord::Redis),
];

const USUAL_QUEUE: &str = "outflow";

/// A server that answers within a millisecond and is silent for two seconds is ill.
const USUAL_TIMEOUT: Duration = Duration::from_secs(2);

/// More replicas than anyone has.
const MOST_REPLICAS: u64 = 100;
