//! The admin API: how the program is watched and operated, on a port of its own.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::StatusCode;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use outflow::{CannotStart, Crowd, Stop};

use crate::listener::{Connection, Listener};
use crate::station::Station;

/// Lets operators in there until the program stops.
pub(crate) fn open(station: &Arc<Station>, listener: Listener) -> Result<(), CannotStart> {
    let crowd = Arc::new(station.tasks().crowd("admin connections")?);
    let (routes, listener) = (routes(Arc::clone(station)), Arc::new(listener));
    station.tasks().spawn("admin", move |stop| {
        let (routes, listener) = (routes.clone(), Arc::clone(&listener));
        accept(routes, listener, Arc::clone(&crowd), stop)
    })
}

fn routes(station: Arc<Station>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/metrics", get(metrics))
        .with_state(station)
}

async fn metrics(State(station): State<Arc<Station>>) -> Result<String, StatusCode> {
    let metrics = station.client().metrics();
    let metrics = metrics.ok_or(StatusCode::NOT_FOUND)?;
    Ok(metrics.render())
}

async fn accept(routes: Router, listener: Arc<Listener>, crowd: Arc<Crowd>, stop: Stop) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.told() => return,
        };
        if let Ok((connection, _)) = accepted {
            // Refused only while the program stops.
            let _stopping = crowd.spawn(serve(routes.clone(), connection, stop.clone()));
        }
    }
}

async fn serve(routes: Router, connection: Connection, stop: Stop) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    let service = TowerToHyperService::new(routes);
    let connection = builder.serve_connection(TokioIo::new(connection), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ended = &mut connection => return,
        () = stop.told() => connection.as_mut().graceful_shutdown(),
    }
    let _ended = connection.await;
}
