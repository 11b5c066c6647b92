//! One API as the client calls it: address, credential, rules, timeouts, retries.
//!
//! The values are checked when they are created: a parsed base URL, valid limits, a secret that does not
//! print itself. A program writes them by hand, or the configuration provides them. The rules of the
//! upstream are one field; the other fields are for sending.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, HeaderName, Method};
use outflow_core::{Backoff, RetryBudgetSettings};
use secrecy::{ExposeSecret, SecretString};
use smol_str::SmolStr;

use crate::base_url::BaseUrl;
use crate::rules::Rules;

/// Configuration of one API.
///
/// ```
/// use outflow::{Api, Rules};
///
/// let mut api = Api::new("github", "https://api.github.com".parse()?);
/// api.rules = Rules::with_limit("10/s".parse()?);
/// api.retry.count = 1;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Api {
    /// The name in calls, logs and metrics.
    pub name: SmolStr,
    /// The base URL.
    pub base_url: BaseUrl,
    /// The credential.
    pub credential: Option<Credential>,
    /// The headers of every request that has no header of this name.
    pub headers: HeaderMap,
    /// The rules of its upstream.
    pub rules: Rules,
    /// The timeouts of an attempt.
    pub timeouts: Timeouts,
    /// The retries of failed attempts.
    pub retry: RetryConfig,
    /// The account of its limits, where processes share them. APIs and processes with one account share their
    /// limits; without a name the API's name, its origin and its credential are one.
    pub account: Option<SmolStr>,
    /// The caching of its responses.
    pub cache: CacheMode,
    /// The additional time that a stale response may be used if the API fails; zero adds nothing. Choose
    /// the age at which a response is still better than none.
    pub stale_if_error: Duration,
    /// The stale responses that serve calls while none may be sent.
    pub stale_offline: StaleOffline,
    /// The allowed methods; none means all.
    pub methods: Vec<Method>,
    /// The proxy.
    pub proxy: Proxy,
    /// The trusted certificates.
    pub trust: TlsTrust,
    /// The addresses that its name may resolve to.
    pub addresses: AddressPolicy,
    /// The maximum number of followed redirects; 0 follows none.
    pub redirects: u8,
    /// The largest body that is read as a whole.
    pub max_body: u64,
}

impl Api {
    /// Creates an API with the defaults: five calls a second, ten seconds an attempt, two retries.
    pub fn new(name: &str, base_url: BaseUrl) -> Self {
        Self {
            name: SmolStr::new(name),
            base_url,
            credential: None,
            headers: HeaderMap::new(),
            rules: Rules::with_default_limit(),
            timeouts: Timeouts::default(),
            retry: RetryConfig::default(),
            account: None,
            cache: CacheMode::default(),
            stale_if_error: Duration::ZERO,
            stale_offline: StaleOffline::default(),
            methods: Vec::new(),
            proxy: Proxy::default(),
            trust: TlsTrust::default(),
            addresses: AddressPolicy::default(),
            redirects: 5,
            max_body: 10 * 1024 * 1024,
        }
    }
}

/// A secret and its placement in requests.
#[derive(Clone, Debug)]
pub struct Credential {
    /// The secret.
    pub secret: SecretString,
    /// The placement.
    pub place: CredentialPlacement,
}

impl PartialEq for Credential {
    /// Compares two configured secrets on a reload. No attacker measures its time.
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place && self.secret.expose_secret() == other.secret.expose_secret()
    }
}

impl Eq for Credential {}

/// Placement of a secret in requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CredentialPlacement {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// In a header of its own.
    Header(HeaderName),
    /// As a parameter of the query.
    Query(SmolStr),
}

/// Timeouts of one attempt. The rules' `max_wait` bounds the wait for a permit, and the caller's deadline
/// bounds both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// From the start to the end of the body if it is read as a whole, or to the head otherwise.
    pub attempt: Duration,
    /// Until the connection is established, TLS included.
    pub connect: Duration,
    /// The longest pause within a response.
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

/// Retries of failed attempts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RetryConfig {
    /// The maximum number of retries.
    pub count: u32,
    /// The calls that are repeated after a throttle response.
    pub throttled: ThrottledRetry,
    /// The wait before each.
    pub backoff: Backoff,
    /// The budget that all calls share.
    pub budget: RetryBudgetSettings,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            count: 2,
            throttled: ThrottledRetry::default(),
            backoff: Backoff::default(),
            budget: RetryBudgetSettings::default(),
        }
    }
}

outflow_core::named_enum! {
    /// Calls that are repeated after a throttle response.
    #[derive(Default)]
    pub enum ThrottledRetry {
        /// All: a server that throttles a call has done nothing.
        #[default]
        Any = "any",
        /// Idempotent ones only.
        Idempotent = "idempotent",
    }
}

outflow_core::named_enum! {
    /// Stale responses that serve calls while none may be sent: in `Sleep`, in `CacheOnly`, and for a caller that
    /// asks for the cache alone.
    #[derive(Default)]
    pub enum StaleOffline {
        /// All that do not require revalidation.
        #[default]
        Allowed = "allowed",
        /// All, against the directives of the response.
        Any = "any",
    }
}

/// Caching of responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheMode {
    /// No caching.
    #[default]
    Off,
    /// As the responses say.
    Standard,
    /// Each successful response to a GET is fresh for this time, regardless of its own lifetime. It is
    /// still not stored if it forbids storing or sharing.
    Force(Duration),
}

/// Proxy of an API.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Proxy {
    /// No proxy, regardless of the environment: requests carry secrets.
    #[default]
    None,
    /// As `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` say.
    Environment,
    /// Through this proxy.
    Url(BaseUrl),
}

/// Trusted certificates of an API.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum TlsTrust {
    /// The certificates of the system.
    #[default]
    System,
    /// The certificates of this file.
    File(PathBuf),
    /// Any certificate. Only for tests: an attacker on the path could read the secrets.
    AnyCertificate,
}

outflow_core::named_enum! {
    /// Addresses that an API's name may resolve to.
    #[derive(Default)]
    pub enum AddressPolicy {
        /// Public addresses. Private ones only if the base URL is one or names `localhost`.
        #[default]
        Public = "public",
        /// Any address.
        Any = "any",
    }
}
