//! The thread of a ledger: sends renewals, and tells observers of facts that others changed.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use outflow_core::{FactsObserver, LeaseRequest, LedgerError, RenewalReply};
use tokio::sync::mpsc::{UnboundedReceiver, error::TryRecvError};

use super::RedisAccount;
use super::facts_subscriber::{FactsNotice, FactsSubscriber};
use super::ledger_runner::LedgerRunner;
use crate::contract::StoreResult;

/// Order to the thread of a ledger.
pub(super) enum LedgerCommand {
    Renew {
        account: String,
        request: Arc<LeaseRequest>,
        reply: RenewalReply,
    },
    Watch {
        account: String,
        observer: Weak<dyn FactsObserver>,
    },
    /// A reply once everything before it is done.
    Flush(mpsc::Sender<()>),
    List(mpsc::Sender<StoreResult<Vec<RedisAccount>>>),
    Forget(String, mpsc::Sender<StoreResult<bool>>),
}

/// State of the thread.
pub(super) struct LedgerWorker {
    runner: Arc<LedgerRunner>,
    subscriber: Arc<FactsSubscriber>,
    notices: UnboundedReceiver<FactsNotice>,
    observers: Vec<FactsWatch>,
    pending: FuturesUnordered<BoxFuture<'static, Option<SeenFacts>>>,
    answers: Arc<AtomicBool>,
}

struct FactsWatch {
    account: String,
    observer: Weak<dyn FactsObserver>,
    /// Generation of the facts that the observer knows.
    seen: u64,
}

/// Facts that an answer contained.
struct SeenFacts {
    account: String,
    generation: u64,
}

/// Starts the thread. It ends with its queue, once the pending renewals are answered.
///
/// # Errors
/// If the system gives no thread.
#[expect(
    clippy::disallowed_methods,
    reason = "a ledger works without a runtime; its thread ends with its queue"
)]
pub(super) fn start(mut worker: LedgerWorker, queue: UnboundedReceiver<LedgerCommand>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let run = move || runtime.block_on(worker.run(queue));
    std::thread::Builder::new()
        .name("outflow-ledger".to_owned())
        .spawn(run)?;
    Ok(())
}

impl LedgerWorker {
    pub(super) fn new(
        runner: LedgerRunner,
        subscriber: FactsSubscriber,
        notices: UnboundedReceiver<FactsNotice>,
        answers: Arc<AtomicBool>,
    ) -> Self {
        Self {
            runner: Arc::new(runner),
            subscriber: Arc::new(subscriber),
            notices,
            observers: Vec::new(),
            pending: FuturesUnordered::new(),
            answers,
        }
    }

    async fn run(&mut self, mut queue: UnboundedReceiver<LedgerCommand>) {
        let subscriber = Arc::clone(&self.subscriber);
        let mut subscription = std::pin::pin!(subscriber.keep_subscribed());
        loop {
            tokio::select! {
                command = queue.recv() => match command {
                    Some(command) => self.serve(command).await,
                    None => break,
                },
                Some(seen) = self.pending.next(), if !self.pending.is_empty() => self.mark_seen(seen),
                Some(notice) = self.notices.recv() => self.notify_observers(&notice),
                // Without observers no notice is of use.
                () = &mut subscription, if !self.observers.is_empty() => {}
            }
        }
        self.finish_pending().await;
    }

    async fn serve(&mut self, command: LedgerCommand) {
        match command {
            LedgerCommand::Renew {
                account,
                request,
                reply,
            } => {
                let (runner, answers) = (Arc::clone(&self.runner), Arc::clone(&self.answers));
                self.pending.push(Box::pin(async move {
                    let answer = runner.renew(&account, &request).await;
                    answers.store(!matches!(answer, Err(LedgerError::Unreachable(_))), Ordering::Relaxed);
                    let facts = answer.as_ref().ok().and_then(|answer| answer.facts.as_ref());
                    let generation = facts.map(|facts| facts.generation);
                    reply(answer);
                    generation.map(|generation| SeenFacts { account, generation })
                }));
            }
            LedgerCommand::Watch { account, observer } => self.observers.push(FactsWatch {
                account,
                observer,
                seen: 0,
            }),
            LedgerCommand::Flush(done) => {
                self.finish_pending().await;
                let _the_caller_may_be_gone = done.send(());
            }
            LedgerCommand::List(reply) => {
                let runner = Arc::clone(&self.runner);
                self.pending.push(Box::pin(async move {
                    let _the_caller_may_be_gone = reply.send(runner.list_accounts().await);
                    None
                }));
            }
            LedgerCommand::Forget(account, reply) => {
                let runner = Arc::clone(&self.runner);
                self.pending.push(Box::pin(async move {
                    let _the_caller_may_be_gone = reply.send(runner.forget_account(&account).await);
                    None
                }));
            }
        }
    }

    async fn finish_pending(&mut self) {
        while let Some(seen) = self.pending.next().await {
            self.mark_seen(seen);
        }
    }

    /// An observer needs no notice of facts that it got with an answer.
    fn mark_seen(&mut self, seen: Option<SeenFacts>) {
        let Some(seen) = seen else { return };
        for watch in self.observers.iter_mut().filter(|watch| watch.account == seen.account) {
            watch.seen = watch.seen.max(seen.generation);
        }
    }

    fn notify_observers(&mut self, notice: &FactsNotice) {
        let mut notices = vec![notice.clone()];
        while let Ok(notice) = self.notices.try_recv().map_err(|_: TryRecvError| ()) {
            notices.push(notice);
        }
        self.observers.retain(|watch| watch.observer.strong_count() > 0);
        for watch in &mut self.observers {
            let news = notices
                .iter()
                .filter_map(|notice| notice.generation_for(&watch.account))
                .max();
            let Some(generation) = news.filter(|generation| *generation > watch.seen) else {
                continue;
            };
            // A reconnection names no generation: it stays unseen.
            if generation < u64::MAX {
                watch.seen = generation;
            }
            if let Some(observer) = watch.observer.upgrade() {
                observer.facts_changed(&watch.account);
            }
        }
    }
}
