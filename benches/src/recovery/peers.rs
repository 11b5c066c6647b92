//! The contenders: ours, and what users combine for the same purpose, each with the defaults that it has.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use failsafe::StateMachine;
use failsafe::backoff::EqualJittered;
use failsafe::failure_policy::{ConsecutiveFailures, OrElse, SuccessRateOverTimeWindow};
use outflow::config::{Environment, Source};
use outflow::{Config, Outflow, OutflowBuilder};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer as _, Service as _, ServiceBuilder, ServiceExt as _};
use tower_resilience::circuitbreaker::CircuitBreakerLayer;
use tower_resilience::ratelimiter::{RateLimiterLayer, WindowType};
use tower_resilience::retry::RetryLayer;

use crate::client::peers::GovernorMiddleware;
use crate::contenders::governor;

/// Client of an API.
#[async_trait]
pub(super) trait RecoveryPeer: Send + Sync {
    /// Makes one call, and returns true if it succeeded.
    async fn call(&self) -> bool;
}

type PeerBuilder = fn(&str) -> Option<Arc<dyn RecoveryPeer>>;

/// Returns ours and the peers; ours is the first.
pub(super) fn all_peers() -> Vec<(&'static str, PeerBuilder)> {
    vec![
        ("Outflow", |url| Some(Arc::new(OursFromText::new(url)?))),
        ("governor + reqwest-retry", |url| {
            Some(Arc::new(GovernorRetry::new(url)?))
        }),
        ("governor + failsafe", |url| Some(Arc::new(GovernorFailsafe::new(url)?))),
        ("tower-resilience", |url| Some(Arc::new(TowerStack::new(url)?))),
    ]
}

/// Ours, from the text that a user writes.
struct OursFromText(Outflow);

impl OursFromText {
    fn new(url: &str) -> Option<Self> {
        let text = format!("[apis.x]\nbase_url = {url:?}\nlimits = [\"35/s\"]\n");
        let config = Config::read(&[Source::new("outflow.toml", text)], &Environment::empty()).ok()?;
        // Without background services: the log of every call would bury the table.
        let apis = config.apis.into_iter();
        apis.fold(Outflow::builder(), OutflowBuilder::api)
            .build()
            .ok()
            .map(Self)
    }
}

#[async_trait]
impl RecoveryPeer for OursFromText {
    async fn call(&self) -> bool {
        let response = self.0.get("x", "/").send().await;
        response.is_ok_and(|response| response.status().is_success())
    }
}

/// reqwest with retries behind governor.
struct GovernorRetry {
    client: ClientWithMiddleware,
    url: String,
}

impl GovernorRetry {
    fn new(url: &str) -> Option<Self> {
        let backoff = ExponentialBackoff::builder().build_with_max_retries(3);
        let limiter = governor::on_os_clock(governor::quota(35, Duration::from_secs(1)));
        let client = ClientBuilder::new(reqwest::Client::builder().no_proxy().build().ok()?)
            .with(RetryTransientMiddleware::new_with_policy(backoff))
            .with(GovernorMiddleware { limiter })
            .build();
        Some(Self {
            client,
            url: url.to_owned(),
        })
    }
}

#[async_trait]
impl RecoveryPeer for GovernorRetry {
    async fn call(&self) -> bool {
        let response = self.client.get(&self.url).send().await;
        response.is_ok_and(|response| response.status().is_success())
    }
}

/// The breaker that failsafe builds by default.
type DefaultFailsafe =
    StateMachine<OrElse<SuccessRateOverTimeWindow<EqualJittered>, ConsecutiveFailures<EqualJittered>>, ()>;

/// reqwest with governor and a breaker of failsafe.
struct GovernorFailsafe {
    client: reqwest::Client,
    limiter: governor::OnOsClock,
    breaker: DefaultFailsafe,
    url: String,
}

impl GovernorFailsafe {
    fn new(url: &str) -> Option<Self> {
        Some(Self {
            client: reqwest::Client::builder().no_proxy().build().ok()?,
            limiter: governor::on_os_clock(governor::quota(35, Duration::from_secs(1))),
            breaker: failsafe::Config::new().build(),
            url: url.to_owned(),
        })
    }
}

#[async_trait]
impl RecoveryPeer for GovernorFailsafe {
    async fn call(&self) -> bool {
        if !self.breaker.is_call_permitted() {
            return false;
        }
        self.limiter.until_ready().await;
        let response = self.client.get(&self.url).send().await;
        let is_good = response.is_ok_and(|response| response.status().is_success());
        if is_good {
            self.breaker.on_success();
        } else {
            self.breaker.on_error();
        }
        is_good
    }
}

/// Retries, limit and breaker of tower-resilience around reqwest.
struct TowerStack(BoxCloneSyncService<(), (), BoxError>);

/// Response that is not a success.
#[derive(Clone, Copy, Debug)]
struct FailedCall;

impl std::fmt::Display for FailedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the call failed")
    }
}

impl std::error::Error for FailedCall {}

impl TowerStack {
    fn new(url: &str) -> Option<Self> {
        let client = reqwest::Client::builder().no_proxy().build().ok()?;
        let url = url.to_owned();
        let bare = tower::service_fn(move |()| {
            let call = client.get(&url).send();
            async move {
                let response = call.await.map_err(|_| FailedCall)?;
                if response.status().is_success() {
                    Ok(())
                } else {
                    Err(FailedCall)
                }
            }
        });
        let limiter = RateLimiterLayer::builder()
            .limit_for_period(35)
            .refresh_period(Duration::from_secs(1))
            .timeout_duration(Duration::from_secs(30))
            .window_type(WindowType::SlidingLog)
            .build();
        let breaker = CircuitBreakerLayer::builder().build();
        let retry = RetryLayer::<(), (), FailedCall>::builder()
            .max_attempts(3)
            .exponential_backoff(Duration::from_millis(100))
            .build();
        let service = limiter.ok()?.layer(retry.layer(bare));
        let service = breaker.ok()?.layer_fn(service);
        let service = ServiceBuilder::new().map_err(BoxError::from).service(service);
        Some(Self(BoxCloneSyncService::new(service)))
    }
}

#[async_trait]
impl RecoveryPeer for TowerStack {
    async fn call(&self) -> bool {
        let mut service = self.0.clone();
        match service.ready().await {
            Ok(ready) => ready.call(()).await.is_ok(),
            Err(_) => false,
        }
    }
}
