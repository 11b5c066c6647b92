//! The door in front of services that are not ours.

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
use outflow::{
    AcquireOptions, Events, LayerError, Rules, Upstream, UpstreamLayer, UpstreamService, WaitMode,
};
use outflow_testkit::{EventRecorder, VirtualTime};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

/// A service that answers at once, and counts.
#[derive(Clone)]
struct Answers<B> {
    called: Arc<AtomicU32>,
    status: u16,
    body: fn() -> B,
}

impl<B> Service<Request<()>> for Answers<B> {
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

fn answering<B>(status: u16, body: fn() -> B) -> Answers<B> {
    let called = Arc::default();
    Answers {
        called,
        status,
        body,
    }
}

fn door(rate: &str) -> Upstream {
    let rules = Rules::with_limit(rate.parse().expect("valid"));
    let time = Arc::new(VirtualTime::new());
    Upstream::new("any", rules, time, Events::new()).expect("valid")
}

fn short() -> Full<Bytes> {
    Full::new(Bytes::from_static(b"short"))
}

async fn through<S, B>(
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
    let inner = answering(200, short);
    let called = Arc::clone(&inner.called);
    let service = UpstreamLayer::new(door("1/s")).layer(inner);
    let began = Instant::now();
    for _ in 0..3 {
        let response = through(&service, Request::new(()))
            .await
            .expect("an answer");
        assert_eq!(
            response
                .into_body()
                .collect()
                .await
                .expect("whole")
                .to_bytes(),
            "short"
        );
    }
    assert!(
        began.elapsed() >= Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(called.load(Ordering::Relaxed), 3);
}

// The second call of the second, from a caller who does not wait.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_refused_does_not_reach_the_service() {
    let inner = answering(200, short);
    let called = Arc::clone(&inner.called);
    let door = door("1/s");
    let service = UpstreamLayer::new(door.clone()).layer(inner);
    through(&service, Request::new(()))
        .await
        .expect("the first");
    let mut request = Request::new(());
    let route = door.route(request.method(), "/");
    let extensions = request.extensions_mut();
    extensions.insert(route);
    extensions.insert(AcquireOptions::new().with_mode(WaitMode::Reject));
    let refused = through(&service, request).await.err();
    assert!(
        matches!(refused, Some(LayerError::Refused(_))),
        "{refused:?}"
    );
    assert_eq!(called.load(Ordering::Relaxed), 1);
    assert!(door.is_idle());
}

// The body is what takes long; until it ended, or its reader left, the call is in flight.
#[tokio::test(start_paused = true)]
async fn a_body_holds_its_place_until_it_ends() {
    let door = door("10/s");
    let service = UpstreamLayer::new(door.clone()).layer(answering(200, short));
    let response = through(&service, Request::new(()))
        .await
        .expect("an answer");
    assert!(!door.is_idle());
    response.into_body().collect().await.expect("whole");
    assert!(door.is_idle());
    let response = through(&service, Request::new(()))
        .await
        .expect("an answer");
    assert!(!door.is_idle());
    drop(response);
    assert!(door.is_idle());
}

/// One piece, and then the connection is gone.
#[derive(Clone)]
struct Broken(Option<Bytes>);

impl Body for Broken {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let gone = || Err(std::io::ErrorKind::ConnectionReset.into());
        Poll::Ready(Some(self.0.take().map(Frame::data).map_or_else(gone, Ok)))
    }
}

/// A service that fails.
#[derive(Clone)]
struct Fails;

impl Service<Request<()>> for Fails {
    type Response = Response<Broken>;
    type Error = std::io::Error;
    type Future = Ready<Result<Response<Broken>, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Err(std::io::ErrorKind::ConnectionReset.into()))
    }
}

// A status, a broken body and a broken connection, each as the one table judges it.
#[tokio::test(start_paused = true)]
async fn the_door_learns_what_became_of_a_request() {
    let door = door("10/s");
    let recorder = EventRecorder::subscribed_to(door.events());
    let govern = UpstreamLayer::new(door.clone());
    let refused = govern.layer(answering(429, short));
    through(&refused, Request::new(()))
        .await
        .expect("a refusal");
    let breaking = govern.layer(answering(200, || Broken(Some(Bytes::from_static(b"a")))));
    let response = through(&breaking, Request::new(())).await.expect("a head");
    let broke = response.into_body().collect().await;
    assert!(broke.is_err());
    let failing = govern.layer(Fails);
    let ended = through(&failing, Request::new(())).await;
    assert!(matches!(ended.err(), Some(LayerError::Failed(_))));
    assert!(door.is_idle());
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
    let health = &door.report().health[0].snapshot;
    // The refusal began a new count, so only what came after it is in.
    let counted = (health.counts.success, health.counts.network);
    assert_eq!(counted, (0, 2), "{health:?}");
}

// Ten futures that were polled once and dropped: what they waited for is there for the next.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_while_it_waits_costs_nothing() {
    let door = door("1/s");
    let service = UpstreamLayer::new(door.clone()).layer(answering(200, short));
    through(&service, Request::new(()))
        .await
        .expect("the first");
    for _ in 0..10 {
        let mut waiting = pin!(service.clone().call(Request::new(())));
        let polled = poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_ready())).await;
        assert!(!polled);
    }
    let began = Instant::now();
    through(&service, Request::new(()))
        .await
        .expect("the second");
    assert!(
        began.elapsed() <= Duration::from_millis(1_010),
        "{:?}",
        began.elapsed()
    );
}

/// A service that is ready when it is told to be.
#[derive(Clone)]
struct Slow {
    ready: Arc<AtomicU32>,
    called: Arc<AtomicU32>,
}

impl Service<Request<()>> for Slow {
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
        ready(Ok(Response::new(short())))
    }
}

/// Whether a future is over when it is looked at once.
fn polled<F: Future>(future: Pin<&mut F>) -> bool {
    let mut context = Context::from_waker(std::task::Waker::noop());
    future.poll(&mut context).is_ready()
}

// A request has its permit and waits for the service below; meanwhile another is told to stay away for
// two seconds. When the service is ready at last, the request waits like everybody.
#[tokio::test(start_paused = true)]
async fn a_request_whose_service_was_slow_is_not_sent_before_the_server_s_time() {
    let door = door("100/s");
    let (ready, called) = (Arc::default(), Arc::default());
    let inner = Slow {
        ready: Arc::clone(&ready),
        called: Arc::clone(&called),
    };
    let mut service = UpstreamLayer::new(door.clone()).layer(inner);
    let began = Instant::now();
    let mut request = pin!(service.call(Request::new(())));
    assert!(!polled(request.as_mut()), "its service is not ready");

    let mut other = door
        .try_acquire(door.group("default").expect("known"))
        .expect("room");
    other.sending();
    let mut told = http::HeaderMap::new();
    told.insert("retry-after", "2".parse().expect("a value"));
    other.settle(outflow::AttemptResult::response(429, &told));
    ready.store(1, Ordering::Relaxed);
    assert!(!polled(request.as_mut()));
    assert_eq!(
        called.load(Ordering::Relaxed),
        0,
        "it was sent before its time"
    );

    request.await.expect("an answer");
    assert!(
        began.elapsed() >= Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(called.load(Ordering::Relaxed), 1);
}
