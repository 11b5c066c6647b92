//! Proxies, used if the configuration says so; the environment alone never enables one.
//!
//! Always a tunnel: the proxy learns only host and port, and with TLS a key in a header stays
//! between client and API. The proxy resolves names itself, so only literal addresses can be
//! checked here.

use std::future::Future;
use std::pin::Pin;

use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use tower_service::Service;

use super::failure::ConnectError;
use super::resolve::AddressGuard;
use super::tls_connector::{BoxedStream, DirectConnector};
use super::transport::InvalidTransport;
use crate::api::Proxy;

/// Proxy per destination.
pub(super) struct ProxyTable {
    rule: BypassRule,
    routes: ProxyRoutes,
}

enum BypassRule {
    All(Uri),
    Environment(Box<Matcher>),
}

/// Connectors to a proxy and around it.
pub(super) struct ProxyRoutes {
    /// To the proxy itself, which the operator named and which may have any address.
    pub(super) to_proxy: DirectConnector,
    /// To destinations that bypass the proxy.
    pub(super) direct: DirectConnector,
    /// Addresses that may be called through the proxy.
    pub(super) guard: AddressGuard,
}

impl ProxyTable {
    /// Builds the table of a configuration; `None` if it has no proxy.
    pub(super) fn new(proxy: &Proxy, routes: ProxyRoutes) -> Result<Option<Self>, InvalidTransport> {
        let rule = match proxy {
            Proxy::None => return Ok(None),
            Proxy::Environment => BypassRule::Environment(Box::new(Matcher::from_env())),
            Proxy::Url(url) => {
                let uri = url.join("").map_err(|_| InvalidTransport::HttpsProxy)?;
                BypassRule::All(require_http(uri)?)
            }
        };
        Ok(Some(Self { rule, routes }))
    }

    pub(super) fn connect(&self, uri: Uri) -> Pin<Box<dyn Future<Output = Result<BoxedStream, ConnectError>> + Send>> {
        let Some((proxy, auth)) = self.proxy_for(&uri) else {
            return self.routes.direct.clone().call(uri);
        };
        let checked = self.routes.guard.check_literal(uri.host().unwrap_or_default());
        let mut tunnel = Tunnel::new(proxy, self.routes.to_proxy.clone());
        if let Some(auth) = auth {
            tunnel = tunnel.with_auth(auth);
        }
        Box::pin(async move {
            checked?;
            tunnel
                .call(uri)
                .await
                .map_err(|error| match ConnectError::from_error(&error) {
                    ConnectError::Network(std::io::ErrorKind::Other) => ConnectError::Proxy,
                    known => known,
                })
        })
    }

    fn proxy_for(&self, uri: &Uri) -> Option<(Uri, Option<HeaderValue>)> {
        match &self.rule {
            BypassRule::All(proxy) => Some((proxy.clone(), None)),
            BypassRule::Environment(matcher) => {
                let found = matcher.intercept(uri)?;
                Some((found.uri().clone(), found.basic_auth().cloned()))
            }
        }
    }
}

fn require_http(uri: Uri) -> Result<Uri, InvalidTransport> {
    if uri.scheme_str() == Some("http") {
        Ok(uri)
    } else {
        Err(InvalidTransport::HttpsProxy)
    }
}
