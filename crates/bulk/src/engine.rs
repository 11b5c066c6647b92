//! The engine: what a user holds, and what its parts share.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use outflow::event::Event;
use outflow::metrics::FamilySource;
use outflow::{Events, Outflow, SharedTimer, SystemClock, Tasks};
use outflow_store::{ActionReport, JobOutcome, JobStore, Name};
use secrecy::SecretString;
use tokio::sync::{Notify, broadcast, mpsc};

use crate::congestion::SpinSavings;
use crate::error::BulkError;
use crate::events::BulkEvent;
use crate::events::event_log::EventLog;
use crate::maintenance;
use crate::metrics::{EngineCounters, MetricsPage};
use crate::progress::throughput::ThroughputTracker;
use crate::results::completion_notifier;
use crate::results::outcome_pages::OutcomePages;
use crate::results::result_writer::{self, JobReport};
use crate::results::webhook;
use crate::scheduler;
use crate::scheduler::global_rate::GlobalRate;
use crate::scheduler::tenant_limits::TenantLimiters;
use crate::session::Sessions;
use crate::settings::EngineSettings;
use crate::shared::fleet_share::FleetStarts;
use crate::worker::handler::Handler;
use crate::worker::pool::WorkerPool;

/// Runs the jobs of a store through a client. Clones are handles to the same engine.
pub struct Engine<S> {
    hub: Arc<EngineContext<S>>,
    /// Those who start jobs and work on them.
    crew: Tasks,
    /// Those who write down what came of it.
    office: Tasks,
}

/// What the parts of an engine share.
pub(crate) struct EngineContext<S> {
    pub(crate) store: Arc<S>,
    pub(crate) client: Outflow,
    pub(crate) settings: ArcSwap<EngineSettings>,
    pub(crate) clock: SharedTimer,
    pub(crate) doors: TenantLimiters,
    pub(crate) house: GlobalRate,
    pub(crate) places: Arc<WorkerPool>,
    pub(crate) sessions: Arc<Sessions>,
    /// What of a shared store comes to this machine.
    pub(crate) takings: FleetStarts,
    /// How fast actions went lately.
    pub(crate) pulses: ThroughputTracker,
    pub(crate) handlers: HashMap<String, Arc<dyn Handler>>,
    pub(crate) reports: mpsc::UnboundedSender<JobReport>,
    pub(crate) news: broadcast::Sender<BulkEvent>,
    /// Rings when a job was over: an action may be.
    pub(crate) over: Notify,
    /// Lanes that somebody schedules.
    lanes: Mutex<BTreeSet<Name>>,
    pub(crate) secret: Option<SecretString>,
    pub(crate) spins: SpinSavings,
    pub(crate) numbers: EngineCounters,
    /// Whether the store lost what it was told of tenants.
    pub(crate) forgotten: AtomicBool,
    pub(crate) voice: EventLog,
}

impl<S> EngineContext<S> {
    /// Tells whoever listens, and the log of the client what an operator wants to read; nobody need.
    pub(crate) fn emit(&self, news: BulkEvent) {
        let at = self.clock.now();
        if let Some(what) = self.voice.classify(&news, at) {
            let api = "bulk".into();
            self.client.events().notify(&Event { api, at, what });
        }
        let _nobody = self.news.send(news);
    }

    /// The lanes that somebody schedules.
    pub(crate) fn lanes(&self) -> MutexGuard<'_, BTreeSet<Name>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An engine that is being put together.
pub struct EngineBuilder<S> {
    store: Arc<S>,
    client: Outflow,
    settings: EngineSettings,
    clock: SharedTimer,
    handlers: HashMap<String, Arc<dyn Handler>>,
    secret: Option<SecretString>,
}

impl<S: JobStore> EngineBuilder<S> {
    /// Works like this.
    #[must_use]
    pub fn settings(mut self, settings: EngineSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Takes the time from there, as the client and the store do.
    #[must_use]
    pub fn clock(mut self, clock: SharedTimer) -> Self {
        self.clock = clock;
        self
    }

    /// Has tasks of this name done by this handler.
    #[must_use]
    pub fn handler(mut self, name: &str, handler: impl Handler) -> Self {
        self.handlers.insert(name.to_owned(), Arc::new(handler));
        self
    }

    /// Signs what is told to webhooks with this.
    #[must_use]
    pub fn webhook_secret(mut self, secret: SecretString) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// Outside of a tokio runtime, if the store does not take the tenants' rules, or if the webhooks' secret
    /// begins like one in base64 and is none.
    pub async fn start(self) -> Result<Engine<S>, BulkError> {
        self.secret.as_ref().map_or(Ok(()), webhook::check)?;
        let (reports, inbox) = mpsc::unbounded_channel();
        let (news, _) = broadcast::channel(NEWS_KEPT);
        let hub = Arc::new(EngineContext {
            places: WorkerPool::new(self.settings.crew),
            doors: TenantLimiters::new(Arc::clone(&self.clock)),
            house: GlobalRate::default(),
            takings: FleetStarts::default(),
            pulses: ThroughputTracker::default(),
            settings: ArcSwap::from_pointee(self.settings),
            store: self.store,
            client: self.client,
            clock: self.clock,
            sessions: Sessions::new()?,
            handlers: self.handlers,
            reports,
            news,
            over: Notify::new(),
            lanes: Mutex::default(),
            secret: self.secret,
            spins: SpinSavings::default(),
            numbers: EngineCounters::default(),
            forgotten: AtomicBool::new(false),
            voice: EventLog::default(),
        });
        let tasks = || Tasks::new("bulk", Events::new(), Arc::new(SystemClock::new()));
        let engine = Engine {
            hub,
            crew: tasks(),
            office: tasks(),
        };
        if let Some(metrics) = engine.hub.client.metrics() {
            metrics.append(engine.metrics());
        }
        engine.hub.keep_rules().await?;
        engine.begin(inbox)?;
        Ok(engine)
    }
}

impl<S: JobStore> Engine<S> {
    /// An engine for the jobs of this store, which calls by this client.
    pub fn builder(client: Outflow, store: Arc<S>) -> EngineBuilder<S> {
        EngineBuilder {
            store,
            client,
            settings: EngineSettings::default(),
            clock: Arc::new(SystemClock::new()),
            handlers: HashMap::new(),
            secret: None,
        }
    }

    fn begin(&self, inbox: mpsc::UnboundedReceiver<JobReport>) -> Result<(), BulkError> {
        let late = |_| BulkError::stopping();
        result_writer::start(&self.hub, &self.office, inbox).map_err(late)?;
        completion_notifier::start(&self.hub, &self.office).map_err(late)?;
        maintenance::start(&self.hub, &self.office).map_err(late)?;
        scheduler::start(&self.hub, &self.crew).map_err(late)
    }

    /// The store.
    pub fn store(&self) -> &Arc<S> {
        &self.hub.store
    }

    pub(crate) fn hub(&self) -> &Arc<EngineContext<S>> {
        &self.hub
    }

    /// How it works now.
    pub fn settings(&self) -> Arc<EngineSettings> {
        self.hub.settings.load_full()
    }

    /// Works otherwise from now on. Jobs that wait keep the time that they were given.
    ///
    /// # Errors
    /// If the store does not take the tenants' rules; the rest holds all the same.
    pub async fn reconfigure(&self, settings: EngineSettings) -> Result<(), BulkError> {
        self.hub.settings.store(Arc::new(settings));
        Ok(self.hub.keep_rules().await?)
    }

    /// What happens from now on. Whoever listens too slowly misses some of it.
    pub fn events(&self) -> broadcast::Receiver<BulkEvent> {
        self.hub.news.subscribe()
    }

    /// What it counts, for a page of metrics. It is on the client's already, if that has one; it does not
    /// keep the engine alive.
    pub fn metrics(&self) -> Arc<dyn FamilySource> {
        Arc::new(MetricsPage::new(&self.hub))
    }

    /// How many places there are for jobs, and how many are taken.
    pub fn worker_usage(&self) -> (usize, usize) {
        (self.hub.places.all(), self.hub.places.busy())
    }

    /// Waits until an action is over to its last job, and answers how it ended; nothing if it is not known.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn wait_finished(&self, action: &Name) -> Result<Option<ActionReport>, BulkError> {
        let mut news = self.events();
        loop {
            match self.hub.store.action(action).await? {
                Some(report) if !report.is_over() => {}
                known => return Ok(known),
            }
            // An end that was missed is found by looking again.
            let heard = tokio::time::timeout(LOOK_AGAIN, until_over(&mut news, action));
            let _either_way = heard.await;
        }
    }

    /// Goes through the outcomes of an action in the order in which they came, a page at a time.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn fold_outcomes<T>(
        &self,
        action: &Name,
        begin: T,
        mut step: impl FnMut(T, JobOutcome) -> T,
    ) -> Result<T, BulkError> {
        let mut outcomes = OutcomePages::new(self.hub.store.as_ref(), action);
        let mut sum = begin;
        while let Some(page) = outcomes.next().await? {
            sum = page.into_iter().fold(sum, &mut step);
        }
        Ok(sum)
    }

    /// Starts no more jobs, waits for those under way as long as the settings grant, gives back the rest
    /// and writes everything down. Says whether nothing had to be given back.
    pub async fn stop(&self) -> bool {
        let grace = self.settings().grace;
        let worked = self.crew.shutdown(grace).await.is_clean();
        let written = self.office.shutdown(WRITING_DOWN).await.is_clean();
        worked && written
    }
}

impl<S> Clone for Engine<S> {
    fn clone(&self) -> Self {
        Self {
            hub: Arc::clone(&self.hub),
            crew: self.crew.clone(),
            office: self.office.clone(),
        }
    }
}

impl<S> fmt::Debug for Engine<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("settings", &self.hub.settings.load())
            .finish_non_exhaustive()
    }
}

async fn until_over(news: &mut broadcast::Receiver<BulkEvent>, action: &Name) {
    loop {
        match news.recv().await {
            Ok(BulkEvent::Finished { report }) if report.spec.id == *action => return,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// As many as a page of a dashboard falls behind by.
const NEWS_KEPT: usize = 1_024;

/// How long an end that was missed stays unnoticed at most.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Enough for a disk that is busy; what is not written by then is done again.
const WRITING_DOWN: Duration = Duration::from_secs(5);
