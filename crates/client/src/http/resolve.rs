//! From a name to the addresses that may be called.
//!
//! A name is resolved for each new connection, every answer is looked at, and the connection goes to
//! one of exactly those addresses: a name that changes between looking and calling changes nothing.
//! Answers are not kept: the system's resolver does that, and knows for how long.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

use super::failure::ConnectError;
use super::public_address::is_public;
use super::resolve_error::ResolveError;
use crate::api::{AddressPolicy, Api};

/// Finds the addresses of a name, for programs that do not want the system's answer.
///
/// ```
/// use outflow::{Resolve, Resolving, Unresolved};
///
/// struct Hosts;
///
/// impl Resolve for Hosts {
///     fn resolve(&self, name: &str) -> Resolving {
///         let found = match name {
///             "api.example.com" => Ok(vec![[203, 0, 113, 7].into()]),
///             _ => Err(Unresolved::NoSuchName),
///         };
///         Box::pin(async move { found })
///     }
/// }
/// ```
pub trait Resolve: Send + Sync {
    /// Begins to look a name up. One that takes almost as long as a connection may is given up.
    fn resolve(&self, name: &str) -> Resolving;
}

/// Addresses that are being looked up.
pub type Resolving = Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, ResolveError>> + Send>>;

/// Where a name may lead.
#[derive(Clone, Debug)]
pub(super) struct AddressGuard {
    addresses: AddressPolicy,
    /// The host of the base URL, if its owner wrote a private place down on purpose.
    meant: Option<Box<str>>,
}

impl AddressGuard {
    pub(super) fn from_api(api: &Api) -> Self {
        let host = api.base_url.host();
        let local = host.eq_ignore_ascii_case("localhost") || literal(host).is_some();
        Self {
            addresses: api.addresses,
            meant: local.then(|| host.into()),
        }
    }

    /// Whether a connection to this host may go to this address.
    fn allows(&self, host: &str, address: IpAddr) -> bool {
        let meant = || {
            let meant = self.meant.as_deref();
            meant.is_some_and(|meant| unbracketed(meant).eq_ignore_ascii_case(unbracketed(host)))
        };
        self.addresses == AddressPolicy::Any || meant() || is_public(address)
    }

    /// Refuses a host that is itself an address, which no resolver is ever asked about.
    pub(super) fn check_literal(&self, host: &str) -> Result<(), ConnectError> {
        match literal(host) {
            Some(address) if !self.allows(host, address) => Err(ConnectError::Forbidden),
            Some(_) | None => Ok(()),
        }
    }
}

/// The address that a host is, if it is one.
fn literal(host: &str) -> Option<IpAddr> {
    unbracketed(host).parse().ok()
}

fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
}

/// A resolver whose answers were looked at.
#[derive(Clone)]
pub(super) struct CheckedResolver {
    names: Arc<dyn Resolve>,
    guard: AddressGuard,
    patience: Duration,
}

impl CheckedResolver {
    /// The answers of `names` that come while a connection may still be made, which takes so long at
    /// most.
    pub(super) fn new(names: Arc<dyn Resolve>, guard: AddressGuard, connect: Duration) -> Self {
        Self {
            names,
            guard,
            patience: connect.saturating_sub(connect / KEPT_FOR_CONNECTING),
        }
    }
}

impl Service<Name> for CheckedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (looking, guard) = (self.names.resolve(name.as_str()), self.guard.clone());
        let patience = self.patience;
        Box::pin(async move {
            let found = tokio::time::timeout(patience, looking).await;
            let found = found.unwrap_or(Err(ResolveError::TimedOut));
            let found = found.map_err(ConnectError::Unresolved)?;
            allowed(&guard, name.as_str(), found)
        })
    }
}

/// All of the answers or none: a name that leads to one forbidden place is not to be trusted with
/// the others.
fn allowed(
    guard: &AddressGuard,
    name: &str,
    found: Vec<IpAddr>,
) -> Result<std::vec::IntoIter<SocketAddr>, ConnectError> {
    if found.is_empty() {
        return Err(ConnectError::Unresolved(ResolveError::NoAddress));
    }
    if !found.iter().all(|address| guard.allows(name, *address)) {
        return Err(ConnectError::Forbidden);
    }
    // The port is the connector's to fill in; a name with a hundred addresses is tried at a few.
    let few: Vec<_> = found
        .into_iter()
        .take(MOST_ADDRESSES)
        .map(|address| SocketAddr::new(address, 0))
        .collect();
    Ok(few.into_iter())
}

/// Enough for every family and a spare; more would only share the connect timeout out in slivers.
const MOST_ADDRESSES: usize = 8;

/// A tenth: with less time than that no connection would come about either, and a lookup that ends
/// before the connection's own time shows what took so long.
const KEPT_FOR_CONNECTING: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(base: &str, addresses: AddressPolicy) -> AddressGuard {
        let mut api = Api::new("any", base.parse().expect("a URL"));
        api.addresses = addresses;
        AddressGuard::from_api(&api)
    }

    // The name's owner answers with the metadata service, with this machine, or with one of each.
    #[test]
    fn a_name_never_leads_into_a_private_network() {
        let guard = guard("https://api.example.com", AddressPolicy::Public);
        let (open, closed) = (
            IpAddr::from([8, 8, 8, 8]),
            IpAddr::from([169, 254, 169, 254]),
        );
        for found in [vec![closed], vec![open, closed], vec![closed, open]] {
            let refused = allowed(&guard, "api.example.com", found).err();
            assert_eq!(refused, Some(ConnectError::Forbidden));
        }
        assert!(allowed(&guard, "api.example.com", vec![open]).is_ok());
        assert_eq!(
            allowed(&guard, "api.example.com", Vec::new()).err(),
            Some(ConnectError::Unresolved(ResolveError::NoAddress))
        );
    }

    // Harmless when it is first looked at, and home when it is called: each connection looks again, and
    // goes where it has looked.
    #[tokio::test]
    async fn a_name_that_turns_home_is_refused_from_then_on() {
        struct Turning(std::sync::atomic::AtomicBool);
        impl Resolve for Turning {
            fn resolve(&self, _: &str) -> Resolving {
                let turned = self.0.swap(true, std::sync::atomic::Ordering::Relaxed);
                let to: IpAddr = if turned { [127, 0, 0, 1] } else { [8, 8, 8, 8] }.into();
                Box::pin(async move { Ok(vec![to]) })
            }
        }
        let guard = guard("https://api.example.com", AddressPolicy::Public);
        let names = Arc::new(Turning(false.into()));
        let mut checked = CheckedResolver::new(names, guard, Duration::from_secs(1));
        let name: Name = "api.example.com".parse().expect("a name");
        let first = checked.call(name.clone()).await.map(Iterator::collect);
        assert_eq!(first, Ok(vec![SocketAddr::from(([8, 8, 8, 8], 0))]));
        let second = checked.call(name).await.map(Iterator::count);
        assert_eq!(second, Err(ConnectError::Forbidden));
    }

    #[test]
    fn a_private_place_is_called_only_where_it_was_written_down() {
        let loopback = IpAddr::from([127, 0, 0, 1]);
        let written = guard("http://127.0.0.1:80", AddressPolicy::Public);
        assert!(written.allows("127.0.0.1", loopback));
        assert!(
            !written.allows("other.example", loopback),
            "a redirect's name"
        );
        assert_eq!(
            written.check_literal("10.0.0.1"),
            Err(ConnectError::Forbidden)
        );
        assert_eq!(written.check_literal("[::1]"), Err(ConnectError::Forbidden));
        let named = guard("http://localhost", AddressPolicy::Public);
        assert!(named.allows("LOCALHOST", loopback));
        let bracketed = guard("http://[::1]:80", AddressPolicy::Public);
        assert_eq!(bracketed.check_literal("[::1]"), Ok(()));
        let anywhere = guard("https://intra.example", AddressPolicy::Any);
        assert!(anywhere.allows("intra.example", loopback));
    }

    #[test]
    fn a_hundred_addresses_are_not_tried_one_by_one() {
        let guard = guard("https://api.example.com", AddressPolicy::Public);
        let many = vec![IpAddr::from([8, 8, 8, 8]); 100];
        let kept = allowed(&guard, "api.example.com", many).map(Iterator::count);
        assert_eq!(kept, Ok(MOST_ADDRESSES));
    }
}
