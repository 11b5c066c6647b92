//! Entry point for fuzz targets: the admin API without a port.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use outflow_listener::{ListenAddr, PeerAddr};

use super::accept::actor;
use super::{Admin, build_router};
use crate::ProgramState;

/// Admin API behind the port: the guard, the routes and their state.
pub struct AdminFuzz {
    service: TowerToHyperService<Router>,
}

impl AdminFuzz {
    /// Creates the API of this program.
    #[must_use]
    pub fn new(program: Arc<dyn ProgramState>) -> Self {
        let address = ListenAddr::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 7071)));
        let admin = Arc::new(Admin::new(program, &address));
        let router = build_router(&admin).layer(axum::Extension(actor(PeerAddr::Local)));
        Self {
            service: TowerToHyperService::new(router),
        }
    }

    /// Returns the response to a request; `None` if it would wait for a permit. Does not read a stream.
    pub async fn request(&self, request: Request<Bytes>) -> Option<Response<Bytes>> {
        let called = self.service.call(request.map(Body::from));
        let response = tokio::select! {
            biased;
            response = called => response.ok()?,
            () = tokio::task::yield_now() => return None,
        };
        let (head, body) = response.into_parts();
        let kind = head.headers.get("content-type");
        if kind.is_some_and(|kind| kind == "text/event-stream") {
            return Some(Response::from_parts(head, Bytes::new()));
        }
        let bytes = body.collect().await.ok()?.to_bytes();
        Some(Response::from_parts(head, bytes))
    }
}
