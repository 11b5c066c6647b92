//! The peers: combinations that users build for the same features.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Extensions, Request, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::Error as HyperError;
use reqwest::Url;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer as _, Service as _, ServiceBuilder, ServiceExt as _};
use tower_resilience::bulkhead::BulkheadLayer;
use tower_resilience::circuitbreaker::CircuitBreakerLayer;
use tower_resilience::ratelimiter::{RateLimiterLayer, WindowType};
use tower_resilience::retry::RetryLayer;

use super::bare;
use super::callers::{Caller, IN_FLIGHT, LIMIT, WINDOW};
use crate::contenders::governor;

/// reqwest with its defaults.
#[derive(Clone)]
pub(crate) struct Reqwest {
    client: reqwest::Client,
    url: Url,
}

impl Reqwest {
    pub(crate) fn new(address: SocketAddr) -> Option<Self> {
        Some(Self {
            client: client()?,
            url: url(address)?,
        })
    }
}

impl Caller for Reqwest {
    async fn call(&self) -> bool {
        match self.client.get(self.url.clone()).send().await {
            Ok(answer) => answer.bytes().await.is_ok(),
            Err(_) => false,
        }
    }
}

/// reqwest with retries and a limit that calls wait for.
#[derive(Clone)]
pub(crate) struct Middlewares {
    client: ClientWithMiddleware,
    url: Url,
}

impl Middlewares {
    pub(crate) fn new(address: SocketAddr) -> Option<Self> {
        let backoff = ExponentialBackoff::builder().build_with_max_retries(2);
        let limiter = governor::on_os_clock(governor::quota(LIMIT, WINDOW));
        let client = ClientBuilder::new(client()?)
            .with(RetryTransientMiddleware::new_with_policy(backoff))
            .with(GovernorMiddleware { limiter })
            .build();
        Some(Self {
            client,
            url: url(address)?,
        })
    }
}

impl Caller for Middlewares {
    async fn call(&self) -> bool {
        match self.client.get(self.url.clone()).send().await {
            Ok(answer) => answer.bytes().await.is_ok(),
            Err(_) => false,
        }
    }
}

/// governor as a middleware; every program with it writes this by hand.
pub(crate) struct GovernorMiddleware {
    pub(crate) limiter: governor::OnOsClock,
}

#[async_trait::async_trait]
impl Middleware for GovernorMiddleware {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        self.limiter.until_ready().await;
        next.run(request, extensions).await
    }
}

fn client() -> Option<reqwest::Client> {
    reqwest::Client::builder().no_proxy().build().ok()
}

fn url(address: SocketAddr) -> Option<Url> {
    format!("http://{address}/").parse().ok()
}

type Answer = http::Response<Incoming>;

/// Retries, limit, breaker and bulkhead of tower-resilience around hyper.
#[derive(Clone)]
pub(crate) struct Tower {
    service: BoxCloneSyncService<Request<Empty<Bytes>>, Answer, BoxError>,
    uri: Uri,
}

impl Tower {
    pub(crate) fn new(address: SocketAddr) -> Option<Self> {
        let bulkhead = BulkheadLayer::builder()
            .max_concurrent_calls(usize::try_from(IN_FLIGHT).ok()?)
            .build();
        let breaker = CircuitBreakerLayer::builder()
            .failure_rate_threshold(0.5)
            .sliding_window_size(100)
            .minimum_number_of_calls(10)
            .build();
        let limiter = RateLimiterLayer::builder()
            .limit_for_period(usize::try_from(LIMIT).ok()?)
            .refresh_period(WINDOW)
            .timeout_duration(Duration::from_secs(30))
            .window_type(WindowType::SlidingLog)
            .build();
        let retry = RetryLayer::<Request<Empty<Bytes>>, Answer, HyperError>::builder()
            .max_attempts(3)
            .exponential_backoff(Duration::from_millis(100))
            .build();
        let service = retry.layer(bare::pooled());
        let service = limiter.ok()?.layer(service);
        let service = breaker.ok()?.layer_fn(service);
        let service = ServiceBuilder::new()
            .map_err(BoxError::from)
            .layer(bulkhead.ok()?)
            .service(service);
        Some(Self {
            service: BoxCloneSyncService::new(service),
            uri: bare::root(address)?,
        })
    }
}

impl Caller for Tower {
    async fn call(&self) -> bool {
        let mut service = self.service.clone();
        let Ok(ready) = service.ready().await else {
            return false;
        };
        match ready.call(bare::request(&self.uri)).await {
            Ok(answer) => answer.into_body().collect().await.is_ok(),
            Err(_) => false,
        }
    }
}
