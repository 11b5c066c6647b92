//! Through a proxy, when the configuration says so and never because the environment does.
//!
//! Always a tunnel: the proxy learns the host and the port and nothing else, and a key in a header
//! stays between us and the API, as far as TLS goes. The proxy resolves the name itself, so only
//! hosts that are written as addresses can be looked at here.

use std::future::Future;
use std::pin::Pin;

use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use tower_service::Service;

use super::failure::ConnectError;
use super::resolve::AddressGuard;
use super::tls_connector::{BoxedStream, DirectConnector};
use crate::api::Proxy;

/// Which destinations are reached through which proxy.
pub(super) struct ProxyTable {
    rule: BypassRule,
    /// To the proxy, which the operator named and which may be anywhere.
    to_proxy: DirectConnector,
    /// To destinations that need none.
    direct: DirectConnector,
    guard: AddressGuard,
}

enum BypassRule {
    All(Uri),
    Environment(Box<Matcher>),
}

/// How a proxy is reached.
pub(super) struct ProxyRoutes {
    /// To the proxy itself.
    pub(super) to_proxy: DirectConnector,
    /// Around it.
    pub(super) direct: DirectConnector,
    /// What may be called through it.
    pub(super) guard: AddressGuard,
}

impl ProxyTable {
    /// The tunnels of a configuration; `None` if it wants none.
    pub(super) fn new(proxy: &Proxy, routes: ProxyRoutes) -> Result<Option<Self>, HttpsProxy> {
        let rule = match proxy {
            Proxy::None => return Ok(None),
            Proxy::Environment => BypassRule::Environment(Box::new(Matcher::from_env())),
            Proxy::Url(url) => {
                let uri = url.join("").map_err(|_| HttpsProxy)?;
                BypassRule::All(plain(uri)?)
            }
        };
        Ok(Some(Self {
            rule,
            to_proxy: routes.to_proxy,
            direct: routes.direct,
            guard: routes.guard,
        }))
    }

    pub(super) fn reach(
        &self,
        to: Uri,
    ) -> Pin<Box<dyn Future<Output = Result<BoxedStream, ConnectError>> + Send>> {
        let Some((proxy, auth)) = self.proxy_for(&to) else {
            return self.direct.clone().call(to);
        };
        let checked = self.guard.check_literal(to.host().unwrap_or_default());
        let mut tunnel = Tunnel::new(proxy, self.to_proxy.clone());
        if let Some(auth) = auth {
            tunnel = tunnel.with_auth(auth);
        }
        Box::pin(async move {
            checked?;
            tunnel
                .call(to)
                .await
                .map_err(|error| match ConnectError::read(&error) {
                    ConnectError::Network(std::io::ErrorKind::Other) => ConnectError::Proxy,
                    known => known,
                })
        })
    }

    fn proxy_for(&self, to: &Uri) -> Option<(Uri, Option<HeaderValue>)> {
        match &self.rule {
            BypassRule::All(proxy) => Some((proxy.clone(), None)),
            BypassRule::Environment(matcher) => {
                let found = matcher.intercept(to)?;
                Some((found.uri().clone(), found.basic_auth().cloned()))
            }
        }
    }
}

/// TLS to the proxy itself is not spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HttpsProxy;

fn plain(uri: Uri) -> Result<Uri, HttpsProxy> {
    if uri.scheme_str() == Some("http") {
        Ok(uri)
    } else {
        Err(HttpsProxy)
    }
}
