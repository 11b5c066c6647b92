//! Name resolution with address checks.
//!
//! Each new connection resolves its name, checks every address and connects to one of exactly
//! those. A name that changes between check and connect has no effect. The system's resolver
//! caches, not this one: it knows the time to live.

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

/// Resolves names, for programs that do not use the system's resolver.
///
/// ```
/// use outflow::{Resolve, Resolving, ResolveError};
///
/// struct Hosts;
///
/// impl Resolve for Hosts {
///     fn resolve(&self, name: &str) -> Resolving {
///         let found = match name {
///             "api.example.com" => Ok(vec![[203, 0, 113, 7].into()]),
///             _ => Err(ResolveError::NoSuchName),
///         };
///         Box::pin(async move { found })
///     }
/// }
/// ```
pub trait Resolve: Send + Sync {
    /// Starts a lookup. The transport gives it up shortly before the connect timeout.
    fn resolve(&self, name: &str) -> Resolving;
}

/// Pending lookup.
pub type Resolving = Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, ResolveError>> + Send>>;

/// Rule for the addresses of a host.
#[derive(Clone, Debug)]
pub(super) struct AddressGuard {
    addresses: AddressPolicy,
    /// Host of the base URL, if it is a literal address or `localhost`: written on purpose.
    exempt_host: Option<Box<str>>,
}

impl AddressGuard {
    pub(super) fn from_api(api: &Api) -> Self {
        let host = api.base_url.host();
        let is_local = host.eq_ignore_ascii_case("localhost") || literal(host).is_some();
        Self {
            addresses: api.addresses,
            exempt_host: is_local.then(|| host.into()),
        }
    }

    /// Returns true if a connection to this host may use this address.
    fn allows(&self, host: &str, address: IpAddr) -> bool {
        let exempt_host = || {
            let exempt_host = self.exempt_host.as_deref();
            exempt_host.is_some_and(|exempt_host| unbracketed(exempt_host).eq_ignore_ascii_case(unbracketed(host)))
        };
        self.addresses == AddressPolicy::Any || exempt_host() || is_public(address)
    }

    /// Refuses a host that is a forbidden literal address, which no resolver sees.
    pub(super) fn check_literal(&self, host: &str) -> Result<(), ConnectError> {
        match literal(host) {
            Some(address) if !self.allows(host, address) => Err(ConnectError::Forbidden),
            Some(_) | None => Ok(()),
        }
    }
}

/// Parses a host that is a literal address.
fn literal(host: &str) -> Option<IpAddr> {
    unbracketed(host).parse().ok()
}

fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
}

/// Resolver that checks every address.
#[derive(Clone)]
pub(super) struct CheckedResolver {
    names: Arc<dyn Resolve>,
    guard: AddressGuard,
    timeout: Duration,
}

impl CheckedResolver {
    /// Returns a resolver whose lookups must end within the connect timeout.
    pub(super) fn new(names: Arc<dyn Resolve>, guard: AddressGuard, connect: Duration) -> Self {
        Self {
            names,
            guard,
            timeout: connect.saturating_sub(connect / CONNECT_FRACTION),
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
        let (lookup, guard) = (self.names.resolve(name.as_str()), self.guard.clone());
        let timeout = self.timeout;
        Box::pin(async move {
            let found = tokio::time::timeout(timeout, lookup).await;
            let found = found.unwrap_or(Err(ResolveError::TimedOut));
            let found = found.map_err(ConnectError::Unresolved)?;
            check_addresses(&guard, name.as_str(), found)
        })
    }
}

/// Returns all addresses or none: a name with one forbidden address is not trusted with the others.
fn check_addresses(
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
    // The connector fills in the port. Of a name with a hundred addresses only a few are tried.
    let addresses: Vec<_> = found
        .into_iter()
        .take(MAX_ADDRESSES)
        .map(|address| SocketAddr::new(address, 0))
        .collect();
    Ok(addresses.into_iter())
}

/// Enough for both address families and a spare. More addresses would split the connect timeout too
/// finely.
const MAX_ADDRESSES: usize = 8;

/// A tenth: less time would not suffice to connect, and a lookup that ends before the connect
/// timeout shows the slow part.
const CONNECT_FRACTION: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(base: &str, addresses: AddressPolicy) -> AddressGuard {
        let mut api = Api::new("any", base.parse().expect("a URL"));
        api.addresses = addresses;
        AddressGuard::from_api(&api)
    }

    // The name's owner returns the metadata service, this machine, or a public address with one of
    // them.
    #[test]
    fn a_name_never_resolves_to_a_private_network() {
        let guard = guard("https://api.example.com", AddressPolicy::Public);
        let (open, closed) = (IpAddr::from([8, 8, 8, 8]), IpAddr::from([169, 254, 169, 254]));
        for found in [vec![closed], vec![open, closed], vec![closed, open]] {
            let refused = check_addresses(&guard, "api.example.com", found).err();
            assert_eq!(refused, Some(ConnectError::Forbidden));
        }
        assert!(check_addresses(&guard, "api.example.com", vec![open]).is_ok());
        assert_eq!(
            check_addresses(&guard, "api.example.com", Vec::new()).err(),
            Some(ConnectError::Unresolved(ResolveError::NoAddress))
        );
    }

    // The first lookup is public and the second local: each connection resolves again and uses what
    // it checked.
    #[tokio::test]
    async fn a_name_that_rebinds_to_loopback_is_refused() {
        struct Rebinding(std::sync::atomic::AtomicBool);
        impl Resolve for Rebinding {
            fn resolve(&self, _: &str) -> Resolving {
                let turned = self.0.swap(true, std::sync::atomic::Ordering::Relaxed);
                let to: IpAddr = if turned { [127, 0, 0, 1] } else { [8, 8, 8, 8] }.into();
                Box::pin(async move { Ok(vec![to]) })
            }
        }
        let guard = guard("https://api.example.com", AddressPolicy::Public);
        let names = Arc::new(Rebinding(false.into()));
        let mut checked = CheckedResolver::new(names, guard, Duration::from_secs(1));
        let name: Name = "api.example.com".parse().expect("a name");
        let first = checked.call(name.clone()).await.map(Iterator::collect);
        assert_eq!(first, Ok(vec![SocketAddr::from(([8, 8, 8, 8], 0))]));
        let second = checked.call(name).await.map(Iterator::count);
        assert_eq!(second, Err(ConnectError::Forbidden));
    }

    #[test]
    fn a_private_address_is_called_only_if_the_base_url_names_it() {
        let loopback = IpAddr::from([127, 0, 0, 1]);
        let written = guard("http://127.0.0.1:80", AddressPolicy::Public);
        assert!(written.allows("127.0.0.1", loopback));
        assert!(!written.allows("other.example", loopback), "a redirect's name");
        assert_eq!(written.check_literal("10.0.0.1"), Err(ConnectError::Forbidden));
        assert_eq!(written.check_literal("[::1]"), Err(ConnectError::Forbidden));
        let named = guard("http://localhost", AddressPolicy::Public);
        assert!(named.allows("LOCALHOST", loopback));
        let bracketed = guard("http://[::1]:80", AddressPolicy::Public);
        assert_eq!(bracketed.check_literal("[::1]"), Ok(()));
        let anywhere = guard("https://intra.example", AddressPolicy::Any);
        assert!(anywhere.allows("intra.example", loopback));
    }

    #[test]
    fn only_a_few_addresses_of_a_name_are_tried() {
        let guard = guard("https://api.example.com", AddressPolicy::Public);
        let many = vec![IpAddr::from([8, 8, 8, 8]); 100];
        let kept = check_addresses(&guard, "api.example.com", many).map(Iterator::count);
        assert_eq!(kept, Ok(MAX_ADDRESSES));
    }
}
