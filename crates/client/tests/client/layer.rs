//! The tower layer in front of foreign services.

use std::convert::Infallible;
use std::future::{Future, Ready, poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use outflow::core::OutcomeClass;
use outflow::event::EventKind;
use outflow::{AcquireOptions, Events, LayerError, Rules, Upstream, UpstreamLayer, UpstreamService, WaitMode};
use outflow_testkit::{EventRecorder, VirtualTime};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

/// A service that responds at once and counts its calls.
#[derive(Clone)]
struct FixedService<B> {
    called: Arc<AtomicU32>,
    status: u16,
    body: fn() -> B,
}

impl<B> Service<Request<()>> for FixedService<B> {
    type Response = Response<B>;
    type Error = Infallible;
    type Future = Ready<Result<Response<B>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        self.called.fetch_add(1, Ordering::Relaxed);
        let mut response = Response::new((self.body)());
        *response.status_mut() = self.status.try_into().expect("a status");
        ready(Ok(response))
    }
}

fn fixed_service<B>(status: u16, body: fn() -> B) -> FixedService<B> {
    let called = Arc::default();
    FixedService { called, status, body }
}

fn upstream(rate: &str) -> Upstream {
    let rules = Rules::with_limit(rate.parse().expect("valid"));
    let time = Arc::new(VirtualTime::new());
    Upstream::new("any", rules, time, Events::new()).expect("valid")
}

fn short_body() -> Full<Bytes> {
    Full::new(Bytes::from_static(b"short"))
}

async fn call_service<S, B>(
    service: &UpstreamService<S>,
    request: Request<()>,
) -> Result<Response<outflow::UpstreamBody<B>>, LayerError<S::Error>>
where
    S: Service<Request<()>, Response = Response<B>> + Clone,
{
    let mut service = service.clone();
    poll_fn(|cx| service.poll_ready(cx)).await?;
    service.call(request).await
}

// Three calls at one a second: the third goes when the second window has passed.
#[tokio::test(start_paused = true)]
async fn every_request_waits_for_its_permit() {
    let inner = fixed_service(200, short_body);
    let called = Arc::clone(&inner.called);
    let service = UpstreamLayer::new(upstream("1/s")).layer(inner);
    let began = Instant::now();
    for _ in 0..3 {
        let response = call_service(&service, Request::new(())).await.expect("a response");
        assert_eq!(response.into_body().collect().await.expect("whole").to_bytes(), "short");
    }
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(called.load(Ordering::Relaxed), 3);
}

// The second call of the second, from a caller that does not wait.
#[tokio::test(start_paused = true)]
async fn a_refused_request_does_not_reach_the_service() {
    let inner = fixed_service(200, short_body);
    let called = Arc::clone(&inner.called);
    let upstream = upstream("1/s");
    let service = UpstreamLayer::new(upstream.clone()).layer(inner);
    call_service(&service, Request::new(())).await.expect("the first");
    let mut request = Request::new(());
    let route = upstream.route(request.method(), "/");
    let extensions = request.extensions_mut();
    extensions.insert(route);
    extensions.insert(AcquireOptions::new().with_mode(WaitMode::Reject));
    let refused = call_service(&service, request).await.err();
    assert!(matches!(refused, Some(LayerError::Refused(_))), "{refused:?}");
    assert_eq!(called.load(Ordering::Relaxed), 1);
    assert!(upstream.is_idle());
}

// The call is in flight until its body ends or its reader leaves.
#[tokio::test(start_paused = true)]
async fn a_body_holds_its_permit_until_it_ends() {
    let upstream = upstream("10/s");
    let service = UpstreamLayer::new(upstream.clone()).layer(fixed_service(200, short_body));
    let response = call_service(&service, Request::new(())).await.expect("a response");
    assert!(!upstream.is_idle());
    response.into_body().collect().await.expect("whole");
    assert!(upstream.is_idle());
    let response = call_service(&service, Request::new(())).await.expect("a response");
    assert!(!upstream.is_idle());
    drop(response);
    assert!(upstream.is_idle());
}

/// A body of one piece, after which the connection breaks.
#[derive(Clone)]
struct BrokenBody(Option<Bytes>);

impl Body for BrokenBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let gone = || Err(std::io::ErrorKind::ConnectionReset.into());
        Poll::Ready(Some(self.0.take().map(Frame::data).map_or_else(gone, Ok)))
    }
}

/// A service that fails.
#[derive(Clone)]
struct FailingService;

impl Service<Request<()>> for FailingService {
    type Response = Response<BrokenBody>;
    type Error = std::io::Error;
    type Future = Ready<Result<Response<BrokenBody>, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Err(std::io::ErrorKind::ConnectionReset.into()))
    }
}

// A status, a broken body and a broken connection, each classified by the policy table.
#[tokio::test(start_paused = true)]
async fn the_layer_reports_every_outcome_to_the_upstream() {
    let upstream = upstream("10/s");
    let recorder = EventRecorder::subscribed_to(upstream.events());
    let govern = UpstreamLayer::new(upstream.clone());
    let refused = govern.layer(fixed_service(429, short_body));
    call_service(&refused, Request::new(())).await.expect("a refusal");
    let breaking = govern.layer(fixed_service(200, || BrokenBody(Some(Bytes::from_static(b"a")))));
    let response = call_service(&breaking, Request::new(())).await.expect("a head");
    let broke = response.into_body().collect().await;
    assert!(broke.is_err());
    let failing = govern.layer(FailingService);
    let ended = call_service(&failing, Request::new(())).await;
    assert!(matches!(ended.err(), Some(LayerError::Failed(_))));
    assert!(upstream.is_idle());
    let seen = recorder.select(|kind| match kind {
        EventKind::Settled { effect, .. } => Some(*effect),
        _ => None,
    });
    assert_eq!(
        seen,
        [
            OutcomeClass::Throttled,
            OutcomeClass::Success,
            OutcomeClass::NetworkFailed
        ]
    );
    let health = &upstream.report().health[0].snapshot;
    // The throttle response started a new count, so that only later outcomes are in it.
    let counted = (health.counts.success, health.counts.network);
    assert_eq!(counted, (0, 2), "{health:?}");
}

// Ten futures are polled once and dropped: the next request gets their quota.
#[tokio::test(start_paused = true)]
async fn a_request_dropped_while_waiting_costs_nothing() {
    let upstream = upstream("1/s");
    let service = UpstreamLayer::new(upstream.clone()).layer(fixed_service(200, short_body));
    call_service(&service, Request::new(())).await.expect("the first");
    for _ in 0..10 {
        let mut waiting = pin!(service.clone().call(Request::new(())));
        let poll_once = poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_ready())).await;
        assert!(!poll_once);
    }
    let began = Instant::now();
    call_service(&service, Request::new(())).await.expect("the second");
    assert!(began.elapsed() <= Duration::from_millis(1_010), "{:?}", began.elapsed());
}

/// A service that is ready when the test says so.
#[derive(Clone)]
struct SlowService {
    ready: Arc<AtomicU32>,
    called: Arc<AtomicU32>,
}

impl Service<Request<()>> for SlowService {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        match self.ready.load(Ordering::Relaxed) {
            0 => Poll::Pending,
            _ => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        self.called.fetch_add(1, Ordering::Relaxed);
        ready(Ok(Response::new(short_body())))
    }
}

/// Polls a future once; returns true if it is finished.
fn poll_once<F: Future>(future: Pin<&mut F>) -> bool {
    let mut context = Context::from_waker(std::task::Waker::noop());
    future.poll(&mut context).is_ready()
}

// A request has its permit and waits for the inner service; meanwhile another gets a Retry-After
// of two seconds. Once the service is ready, the request still waits.
#[tokio::test(start_paused = true)]
async fn a_request_delayed_by_its_service_still_respects_retry_after() {
    let upstream = upstream("100/s");
    let (ready, called) = (Arc::default(), Arc::default());
    let inner = SlowService {
        ready: Arc::clone(&ready),
        called: Arc::clone(&called),
    };
    let mut service = UpstreamLayer::new(upstream.clone()).layer(inner);
    let began = Instant::now();
    let mut request = pin!(service.call(Request::new(())));
    assert!(!poll_once(request.as_mut()), "its service is not ready");

    let mut other = upstream
        .try_acquire(upstream.group("default").expect("known"))
        .expect("room");
    other.sending();
    let mut headers = http::HeaderMap::new();
    headers.insert("retry-after", "2".parse().expect("a value"));
    other.settle(outflow::AttemptResult::response(429, &headers));
    ready.store(1, Ordering::Relaxed);
    assert!(!poll_once(request.as_mut()));
    assert_eq!(called.load(Ordering::Relaxed), 0, "it was sent before its time");

    request.await.expect("a response");
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(called.load(Ordering::Relaxed), 1);
}
