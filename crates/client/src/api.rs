//! One API as the client calls it: where it is, who we are there, and how patient we are.
//!
//! Plain values, checked when they are made: a base URL that parsed, limits that exist, a secret that
//! does not print itself. A configuration file is read into them, and a program may write them by
//! hand. The rules of the door are one field; this file adds what only a sender needs.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, Method};
use outflow_core::{Backoff, RetryBudgetSettings};
use secrecy::{ExposeSecret, SecretString};
use smol_str::SmolStr;

use crate::base_url::BaseUrl;
use crate::rules::Rules;

/// An API and everything that is configured about it.
///
/// ```
/// use outflow::{Api, Rules};
///
/// let mut api = Api::new("github", "https://api.github.com".parse()?);
/// api.rules = Rules::limited_to("10/s".parse()?);
/// api.retry.count = 1;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Api {
    /// What it is called in calls, logs and metrics.
    pub name: SmolStr,
    /// Where it is.
    pub base_url: BaseUrl,
    /// Who we are there.
    pub credential: Option<Credential>,
    /// What it allows.
    pub rules: Rules,
    /// How long we wait for it.
    pub timeouts: Timeouts,
    /// When a failed attempt is repeated.
    pub retry: RetryConfig,
    /// Whether its answers are kept.
    pub cache: CacheMode,
    /// How long past its time a kept answer may be given when the API fails, beyond what it allows
    /// itself; zero adds nothing. Choose how old an answer may be and still be better than none.
    pub stale_if_error: Duration,
    /// The methods that may be used; none means all.
    pub methods: Vec<Method>,
    /// How it is reached.
    pub proxy: Proxy,
    /// Whom we take it to be.
    pub trust: TlsTrust,
    /// Whether its name may lead into a private network.
    pub addresses: AddressPolicy,
    /// How many redirects are followed; 0 follows none.
    pub redirects: u8,
    /// The largest body that is read whole.
    pub max_body: u64,
}

impl Api {
    /// An API with the usual settings: five calls a second, ten seconds an attempt, two retries.
    pub fn new(name: &str, base_url: BaseUrl) -> Self {
        Self {
            name: SmolStr::new(name),
            base_url,
            credential: None,
            rules: Rules::with_default_limit(),
            timeouts: Timeouts::default(),
            retry: RetryConfig::default(),
            cache: CacheMode::default(),
            stale_if_error: Duration::ZERO,
            methods: Vec::new(),
            proxy: Proxy::default(),
            trust: TlsTrust::default(),
            addresses: AddressPolicy::default(),
            redirects: 5,
            max_body: 10 * 1024 * 1024,
        }
    }
}

/// A key and how it is shown to the API.
#[derive(Clone, Debug)]
pub struct Credential {
    /// The key.
    pub secret: SecretString,
    /// How it is sent.
    pub place: CredentialPlacement,
}

impl PartialEq for Credential {
    /// Two of our own are compared, when a configuration is read again: nobody measures how long that
    /// takes.
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place && self.secret.expose_secret() == other.secret.expose_secret()
    }
}

impl Eq for Credential {}

/// How a key is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CredentialPlacement {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// In a header of its own.
    Header(HeaderName),
    /// As a parameter of the query.
    Query(SmolStr),
}

/// How long one attempt may take. Waiting for a permit is bounded by the rules' `max_wait`, and both
/// by the caller's own deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// From the attempt's beginning to the end of its body, if that is read whole, or to its head.
    pub attempt: Duration,
    /// Until there is a connection, TLS included.
    pub connect: Duration,
    /// The longest silence while a response comes in.
    pub read: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            attempt: Duration::from_secs(10),
            connect: Duration::from_secs(3),
            read: Duration::from_secs(10),
        }
    }
}

/// When a failed attempt is repeated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RetryConfig {
    /// How often, at most.
    pub count: u32,
    /// How long between.
    pub backoff: Backoff,
    /// How many retries all calls together may make.
    pub budget: RetryBudgetSettings,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            count: 2,
            backoff: Backoff::default(),
            budget: RetryBudgetSettings::default(),
        }
    }
}

/// Whether answers are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheMode {
    /// Nothing is kept.
    #[default]
    Off,
    /// As the answers themselves say.
    Standard,
    /// Every good answer to a GET is kept so long, whatever it says of freshness; what it forbids to
    /// keep or to share is still not.
    Force(Duration),
}

/// How an API is reached.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Proxy {
    /// Directly, whatever the environment says: who holds keys does not follow it unasked.
    #[default]
    None,
    /// As `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` say.
    Environment,
    /// Through this proxy.
    Url(BaseUrl),
}

/// Whom we take an API to be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum TlsTrust {
    /// Whoever the machine trusts.
    #[default]
    System,
    /// Whoever this file of certificates vouches for.
    File(PathBuf),
    /// Anybody. For a test at most: whoever sits on the way reads the keys.
    Anybody,
}

/// Whether a name may lead into a private network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AddressPolicy {
    /// Public addresses, and private ones only where the base URL itself is one or says `localhost`.
    #[default]
    Public,
    /// Any.
    Any,
}
