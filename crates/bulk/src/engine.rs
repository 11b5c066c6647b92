//! The engine that a user holds, and the state that its parts share.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use outflow::metrics::FamilySource;
use outflow::{Events, Outflow, SharedTimer, SystemClock, Tasks};
use outflow_store::{ActionReport, ControlScope, JobOutcome, JobStore, Name, StoreError};
use outflow_sync::Mutex;
use secrecy::SecretString;
use tokio::sync::{broadcast, mpsc};
use tokio::time::sleep;

use crate::congestion::lane_shares::ShareTable;
use crate::error::BulkError;
use crate::events::{BulkEvent, EventSink};
use crate::maintenance;
use crate::maintenance::tenant_rules::RuleSync;
use crate::metrics::{EngineMetrics, MetricsPage};
use crate::progress::competing_work::BacklogTable;
use crate::progress::throughput::LaneSpeeds;
use crate::results::outcome_pages::OutcomePages;
use crate::results::result_writer::JobReport;
use crate::results::summary::ActionSummary;
use crate::results::{ResultSink, completion_notifier, result_writer, webhook};
use crate::scheduler::start_permission::StartLimits;
use crate::scheduler::{self, MIN_WAIT, POLL_INTERVAL};
use crate::session::Sessions;
use crate::settings::EngineSettings;
use crate::worker::handler::Handler;
use crate::worker::lane_history::{LaneError, LaneHistories};
use crate::worker::pool::WorkerPool;

/// Engine that runs the jobs of a store through a client. Clones are handles to the same engine.
pub struct Engine<S> {
    pub(crate) context: Arc<EngineContext<S>>,
    /// Tasks that start and run jobs.
    workers: Tasks,
    /// Tasks that store results and maintain the store; they end after the workers.
    background: Tasks,
}

/// Registered handlers by name.
type HandlerMap = HashMap<String, Arc<dyn Handler>>;

/// State that the parts of an engine share.
pub(crate) struct EngineContext<S> {
    pub(crate) store: Arc<S>,
    pub(crate) client: Outflow,
    pub(crate) settings: ArcSwap<EngineSettings>,
    pub(crate) clock: SharedTimer,
    pub(crate) start_limits: StartLimits,
    /// Handlers of tasks by name.
    pub(crate) handlers: HandlerMap,
    /// Lanes that have a loop.
    pub(crate) served_lanes: Mutex<BTreeSet<Name>>,
    /// Recent attempts of lanes.
    pub(crate) lanes: LaneHistories,
    /// Operators that paused tenants and actions.
    pub(crate) pauses: Mutex<HashMap<ControlScope, String>>,
    /// Last error of the store.
    pub(crate) store_error: Mutex<Option<LaneError>>,
    pub(crate) pool: Arc<WorkerPool>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) results: ResultSink,
    pub(crate) speeds: LaneSpeeds,
    /// Speeds of APIs, by name: their lanes share limits.
    pub(crate) api_speeds: LaneSpeeds,
    /// Speeds of tenants with a limit of their own, by name.
    pub(crate) tenant_speeds: LaneSpeeds,
    pub(crate) backlogs: BacklogTable,
    pub(crate) shares: ShareTable,
    pub(crate) events: EventSink,
    pub(crate) metrics: EngineMetrics,
    pub(crate) rule_sync: RuleSync,
}

impl<S> EngineContext<S> {
    /// Counts and reports an error of the store.
    pub(crate) fn report_store_error(&self, error: &StoreError) {
        self.metrics.counters.store_failed();
        let (message, at) = (error.to_string(), self.clock.now());
        *self.store_error.lock() = Some(LaneError { message, at });
        self.rule_sync.note_error(error);
        self.events.emit(BulkEvent::Error {
            message: error.to_string(),
        });
    }

    /// Reports an error of the store, and waits before the next request.
    pub(crate) async fn wait_after_store_error(&self, error: &StoreError) {
        self.report_store_error(error);
        let wait = if error.is_passing() {
            MIN_WAIT * 10
        } else {
            POLL_INTERVAL
        };
        sleep(wait).await;
    }
}

/// Builder of an [`Engine`].
pub struct EngineBuilder<S> {
    store: Arc<S>,
    client: Outflow,
    settings: EngineSettings,
    clock: SharedTimer,
    handlers: HandlerMap,
    webhook_secret: Option<SecretString>,
}

impl<S: JobStore> EngineBuilder<S> {
    /// Sets the settings.
    #[must_use]
    pub fn settings(mut self, settings: EngineSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the clock: use the clock of the client and the store.
    #[must_use]
    pub fn clock(mut self, clock: SharedTimer) -> Self {
        self.clock = clock;
        self
    }

    /// Registers the handler of tasks with this name.
    #[must_use]
    pub fn handler(mut self, name: &str, handler: impl Handler) -> Self {
        self.handlers.insert(name.to_owned(), Arc::new(handler));
        self
    }

    /// Sets the secret that signs webhook requests.
    #[must_use]
    pub fn webhook_secret(mut self, secret: SecretString) -> Self {
        self.webhook_secret = Some(secret);
        self
    }

    /// Starts the engine.
    ///
    /// # Errors
    /// Outside of a tokio runtime, if the store does not accept the tenants' rules, or if the webhook secret has
    /// the base64 prefix and is not base64.
    pub async fn start(self) -> Result<Engine<S>, BulkError> {
        self.webhook_secret.as_ref().map_or(Ok(()), webhook::check_secret)?;
        let (results, inbox) = ResultSink::new(self.webhook_secret);
        let context = Arc::new(EngineContext {
            start_limits: StartLimits::new(Arc::clone(&self.clock)),
            handlers: self.handlers,
            served_lanes: Mutex::default(),
            lanes: LaneHistories::default(),
            pauses: Mutex::default(),
            store_error: Mutex::default(),
            pool: WorkerPool::new(self.settings.workers.bounds(0).min),
            sessions: Sessions::new()?,
            results,
            speeds: LaneSpeeds::default(),
            api_speeds: LaneSpeeds::default(),
            tenant_speeds: LaneSpeeds::default(),
            backlogs: BacklogTable::default(),
            shares: ShareTable::default(),
            events: EventSink::new(&self.client, &self.clock),
            metrics: EngineMetrics::default(),
            rule_sync: RuleSync::default(),
            settings: ArcSwap::from_pointee(self.settings),
            store: self.store,
            client: self.client,
            clock: self.clock,
        });
        let tasks = || Tasks::new("bulk", Events::new(), Arc::new(SystemClock::new()));
        let engine = Engine {
            context,
            workers: tasks(),
            background: tasks(),
        };
        if let Some(metrics) = engine.context.client.metrics() {
            metrics.append(engine.metrics());
        }
        engine.context.store_rules().await?;
        engine.spawn_tasks(inbox)?;
        Ok(engine)
    }
}

impl<S: JobStore> Engine<S> {
    /// Returns a builder of an engine for this store, which calls through this client.
    pub fn builder(client: Outflow, store: Arc<S>) -> EngineBuilder<S> {
        EngineBuilder {
            store,
            client,
            settings: EngineSettings::default(),
            clock: Arc::new(SystemClock::new()),
            handlers: HandlerMap::new(),
            webhook_secret: None,
        }
    }

    fn spawn_tasks(&self, inbox: mpsc::UnboundedReceiver<JobReport>) -> Result<(), BulkError> {
        let stopping = |_| BulkError::stopping();
        let (context, background) = (&self.context, &self.background);
        result_writer::start(context, background, inbox).map_err(stopping)?;
        completion_notifier::start(context, background).map_err(stopping)?;
        maintenance::start(context, background).map_err(stopping)?;
        scheduler::start(context, &self.workers).map_err(stopping)
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<S> {
        &self.context.store
    }

    /// Returns the current settings.
    pub fn settings(&self) -> Arc<EngineSettings> {
        self.context.settings.load_full()
    }

    /// Applies new settings. Deferred jobs keep their time.
    ///
    /// # Errors
    /// If the store does not accept the tenants' rules; all other settings apply anyway.
    pub async fn reconfigure(&self, settings: EngineSettings) -> Result<(), BulkError> {
        self.context.settings.store(Arc::new(settings));
        Ok(self.context.store_rules().await?)
    }

    /// Subscribes to events from now on. A slow receiver misses some.
    pub fn events(&self) -> broadcast::Receiver<BulkEvent> {
        self.context.events.subscribe()
    }

    /// Returns the engine's metrics. The client's page has them already, if it has one; they do not keep the
    /// engine alive.
    pub fn metrics(&self) -> Arc<dyn FamilySource> {
        Arc::new(MetricsPage::new(&self.context))
    }

    /// Returns the number of worker slots, and the number of busy ones.
    pub fn worker_usage(&self) -> (usize, usize) {
        (self.context.pool.size(), self.context.pool.busy())
    }

    /// Returns the number of attempts that this engine made, of ended jobs and of others.
    pub fn attempts(&self) -> u64 {
        self.context.metrics.counters.attempts()
    }

    /// Waits until the last job of an action has ended, and returns the report; nothing for an unknown action.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn wait_finished(&self, action: &Name) -> Result<Option<ActionReport>, BulkError> {
        let mut events = self.events();
        loop {
            match self.context.store.action(action).await? {
                Some(report) if !report.is_over() => {}
                known => return Ok(known),
            }
            // The next poll finds an end whose event was missed.
            let finished = recv_finished(&mut events, action);
            let _either_way = tokio::time::timeout(POLL_INTERVAL, finished).await;
        }
    }

    /// Returns the summary of an action, final or so far; nothing for an unknown action.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn summary(&self, action: &Name) -> Result<Option<ActionSummary>, BulkError> {
        let store = self.store();
        let Some(report) = store.action(action).await? else {
            return Ok(None);
        };
        Ok(Some(ActionSummary::new(store.as_ref(), &report).await?))
    }

    /// Folds the outcomes of an action in the order in which jobs ended, one page at a time.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn fold_outcomes<T>(
        &self,
        action: &Name,
        begin: T,
        mut step: impl FnMut(T, JobOutcome) -> T,
    ) -> Result<T, BulkError> {
        let mut outcomes = OutcomePages::new(self.context.store.as_ref(), action);
        let mut sum = begin;
        while let Some(page) = outcomes.next().await? {
            sum = page.into_iter().fold(sum, &mut step);
        }
        Ok(sum)
    }

    /// Shuts down: starts no more jobs, waits for jobs in flight within the grace period, returns the others and
    /// stores all results. Returns true if no job had to be returned.
    pub async fn stop(&self) -> bool {
        let grace = self.settings().grace;
        self.context.lanes.close();
        let worked = self.workers.shutdown(grace).await.is_clean();
        let stored = self.background.shutdown(STORE_RESULTS).await.is_clean();
        worked && stored
    }
}

impl<S> Clone for Engine<S> {
    fn clone(&self) -> Self {
        Self {
            context: Arc::clone(&self.context),
            workers: self.workers.clone(),
            background: self.background.clone(),
        }
    }
}

impl<S> fmt::Debug for Engine<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("settings", &self.context.settings.load())
            .finish_non_exhaustive()
    }
}

async fn recv_finished(events: &mut broadcast::Receiver<BulkEvent>, action: &Name) {
    loop {
        match events.recv().await {
            Ok(BulkEvent::Finished { report }) if report.spec.id == *action => return,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Enough for a busy disk; a result that is not stored by then makes its job run again.
const STORE_RESULTS: Duration = Duration::from_secs(5);
