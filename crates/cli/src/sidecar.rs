//! The sidecar: `/{api}/{path}` goes to that API, governed as every call is.
//!
//! It translates between HTTP and calls and decides nothing about limits. What a caller may say about
//! one call is said in headers of ours; what we have to say about an answer is added to it the same
//! way.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use outflow::{CannotStart, Crowd, Stop};

use crate::listener::{Connection, Listener};
use crate::station::Station;

/// Takes calls there until the program stops.
pub(crate) fn open(station: &Arc<Station>, listener: Listener) -> Result<(), CannotStart> {
    let crowd = Arc::new(station.tasks().crowd("sidecar connections")?);
    let (shared, listener) = (Arc::clone(station), Arc::new(listener));
    station.tasks().spawn("sidecar", move |stop| {
        accept(
            Arc::clone(&shared),
            Arc::clone(&listener),
            Arc::clone(&crowd),
            stop,
        )
    })
}

async fn accept(station: Arc<Station>, listener: Arc<Listener>, crowd: Arc<Crowd>, stop: Stop) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.told() => return,
        };
        if let Ok((connection, _)) = accepted {
            let served = serve(Arc::clone(&station), connection, stop.clone());
            // Refused only while the program stops.
            let _stopping = crowd.spawn(served);
        }
    }
}

async fn serve(station: Arc<Station>, connection: Connection, stop: Stop) {
    let settings = station.config().server.clone();
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.header_timeout);
    let service = service_fn(move |request| answer(Arc::clone(&station), request));
    let connection = builder.serve_connection(TokioIo::new(connection), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // What a caller's connection ends with is the caller's business.
        _ended = &mut connection => return,
        () = stop.told() => connection.as_mut().graceful_shutdown(),
    }
    let _ended = connection.await;
}

type Body = UnsyncBoxBody<Bytes, outflow::Error>;

async fn answer(
    station: Arc<Station>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let target = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let target = target.strip_prefix('/').unwrap_or(target);
    let (api, path) = target.split_at(target.find(['/', '?']).unwrap_or(target.len()));
    let call = station
        .client()
        .request(head.method, api, path)
        .headers(head.headers)
        .redirects(0)
        .stream(body);
    Ok(match call.send_streaming().await {
        Ok(answer) => answer.into_http().map(BodyExt::boxed_unsync),
        Err(error) => told(StatusCode::BAD_GATEWAY, error.to_string()),
    })
}

fn told(status: StatusCode, text: String) -> Response<Body> {
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    response
}
