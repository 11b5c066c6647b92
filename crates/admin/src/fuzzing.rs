//! The admin API without a port before it, for whoever makes requests up.

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

use super::{Admin, routes, who};
use crate::ProgramState;

/// Everything behind the admin port: the guard, the routes, and what they share.
pub struct AdminFuzz {
    service: TowerToHyperService<Router>,
}

impl AdminFuzz {
    /// Creates the API of this program.
    #[must_use]
    pub fn new(program: Arc<dyn ProgramState>) -> Self {
        let address = ListenAddr::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 7071)));
        let admin = Arc::new(Admin::new(program, &address));
        let routes = routes(&admin).layer(axum::Extension(who(PeerAddr::Local)));
        Self {
            service: TowerToHyperService::new(routes),
        }
    }

    /// The answer to a request; nothing if it would wait for a permit. A stream is not read.
    pub async fn request(&self, request: Request<Bytes>) -> Option<Response<Bytes>> {
        let asked = self.service.call(request.map(Body::from));
        let answer = tokio::select! {
            biased;
            answer = asked => answer.ok()?,
            () = tokio::task::yield_now() => return None,
        };
        let (head, body) = answer.into_parts();
        let flows = head.headers.get("content-type");
        if flows.is_some_and(|kind| kind == "text/event-stream") {
            return Some(Response::from_parts(head, Bytes::new()));
        }
        let whole = body.collect().await.ok()?.to_bytes();
        Some(Response::from_parts(head, whole))
    }
}
