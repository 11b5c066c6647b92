//! apalis on Redis, as a program: no-op tasks by order of the benchmark.
//!
//! `peer-apalis PORT` reads one order a line: `enqueue N` and `drain N`, and answers `done` to each. Tasks are
//! pushed and fetched by the hundred, a hundred may run at once, and what costs and is not asked of a no-op is
//! off: locks and events. Results are stored, because without them nothing is acknowledged either. It never stands before more than a few thousand tasks: those that
//! are due are moved by one script that hands all of them to one call, which the server refuses beyond eight
//! thousand, so the benchmark feeds it in portions.

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use apalis::prelude::{TaskSink, WorkerBuilder, WorkerBuilderExt, WorkerContext};
use apalis_redis::{Config, RedisStorage};
use tokio::runtime::{Builder, Runtime};

fn main() -> io::Result<()> {
    let Some(port) = std::env::args().nth(1) else {
        return Err(io::Error::other("usage: peer-apalis PORT"));
    };
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut queue = Queue::connect(&runtime, &format!("redis://127.0.0.1:{port}/"))?;
    say("ready")?;
    for line in io::stdin().lock().lines() {
        queue.obey(&runtime, &line?)?;
        say("done")?;
    }
    Ok(())
}

fn say(word: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{word}").and_then(|()| out.flush())
}

/// The tasks, and how many workers there were: each has a name of its own.
struct Queue {
    storage: RedisStorage<String>,
    workers: u32,
}

impl Queue {
    fn connect(runtime: &Runtime, url: &str) -> io::Result<Self> {
        let connection = runtime.block_on(apalis_redis::connect(url));
        let config = Config::default()
            .queue("bench")
            .batch_size(IN_BULK)
            .lock_tasks(false)
            .emit_events(false);
        let storage = RedisStorage::new(connection.map_err(io::Error::other)?);
        Ok(Self {
            storage: storage.with_config(config),
            workers: 0,
        })
    }

    fn obey(&mut self, runtime: &Runtime, line: &str) -> io::Result<()> {
        let (word, count) = line.split_once(' ').unwrap_or_default();
        let count = count.parse().map_err(io::Error::other)?;
        match word {
            "enqueue" => runtime.block_on(self.enqueue(count)),
            "drain" => runtime.block_on(self.drain(count)),
            _ => Err(io::Error::other("the orders are `enqueue N` and `drain N`")),
        }
    }

    async fn enqueue(&mut self, mut left: usize) -> io::Result<()> {
        // As JSON it is stored with its two quotes.
        let record = "x".repeat(RECORD - 2);
        while left > 0 {
            let now = left.min(IN_BULK);
            let pushed = self.storage.push_bulk(vec![record.clone(); now]).await;
            pushed.map_err(|error| io::Error::other(error.to_string()))?;
            left -= now;
        }
        Ok(())
    }

    async fn drain(&mut self, count: usize) -> io::Result<()> {
        let wanted = u64::try_from(count).map_err(io::Error::other)?;
        let run = Arc::new(AtomicU64::new(0));
        let work = move |_record: String, worker: WorkerContext| {
            let run = Arc::clone(&run);
            async move {
                if run.fetch_add(1, Ordering::Relaxed) + 1 == wanted {
                    worker.stop()?;
                }
                Ok::<(), apalis::prelude::BoxDynError>(())
            }
        };
        self.workers += 1;
        let worker = WorkerBuilder::new(format!("worker-{}", self.workers))
            .backend(self.storage.clone())
            .concurrency(UNDER_WAY)
            .build(work);
        // It returns when all that it began is acknowledged.
        worker.run().await.map_err(io::Error::other)
    }
}

/// Tasks of one push and one fetch.
const IN_BULK: usize = 100;

/// Tasks that run at once.
const UNDER_WAY: usize = 100;

/// Bytes of what a task is about.
const RECORD: usize = 105;
