//! apalis on Redis as a program that runs no-op tasks on the benchmark's commands.
//!
//! `peer-apalis PORT` reads one command a line, `enqueue N` or `drain N`, and answers `done` to each. It pushes
//! and fetches a hundred tasks at a time and runs up to a hundred at once. Locks and events are off, as a no-op
//! needs neither. Results are stored, because apalis acknowledges nothing without them. The benchmark feeds it
//! in portions of a few thousand tasks: one script call moves all due tasks, and the server rejects more than
//! eight thousand.

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
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut queue = TaskQueue::connect(&runtime, &format!("redis://127.0.0.1:{port}/"))?;
    print_line("ready")?;
    for line in io::stdin().lock().lines() {
        queue.run_command(&runtime, &line?)?;
        print_line("done")?;
    }
    Ok(())
}

fn print_line(word: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{word}").and_then(|()| out.flush())
}

/// The tasks, and the number of workers so far: each worker has its own name.
struct TaskQueue {
    storage: RedisStorage<String>,
    workers: u32,
}

impl TaskQueue {
    fn connect(runtime: &Runtime, url: &str) -> io::Result<Self> {
        let connection = runtime.block_on(apalis_redis::connect(url));
        let config = Config::default()
            .queue("bench")
            .batch_size(BATCH)
            .lock_tasks(false)
            .emit_events(false);
        let storage = RedisStorage::new(connection.map_err(io::Error::other)?);
        Ok(Self {
            storage: storage.with_config(config),
            workers: 0,
        })
    }

    fn run_command(&mut self, runtime: &Runtime, line: &str) -> io::Result<()> {
        let (word, count) = line.split_once(' ').unwrap_or_default();
        let count = count.parse().map_err(io::Error::other)?;
        match word {
            "enqueue" => runtime.block_on(self.enqueue(count)),
            "drain" => runtime.block_on(self.drain(count)),
            _ => Err(io::Error::other("the commands are `enqueue N` and `drain N`")),
        }
    }

    async fn enqueue(&mut self, mut left: usize) -> io::Result<()> {
        // JSON stores it with two quotes.
        let record = "x".repeat(RECORD - 2);
        while left > 0 {
            let now = left.min(BATCH);
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
            .concurrency(IN_FLIGHT)
            .build(work);
        // Returns when all started tasks are acknowledged.
        worker.run().await.map_err(io::Error::other)
    }
}

/// Tasks of one push and one fetch.
const BATCH: usize = 100;

/// Tasks that run at once.
const IN_FLIGHT: usize = 100;

/// Bytes of a task's payload.
const RECORD: usize = 105;
