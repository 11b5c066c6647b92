//! A mock API and a client that calls it.

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use outflow::core::{Backoff, HealthConfig, HealthSettings};
use outflow::{Api, IoStream, Outflow, Resolve, ResolveError, Resolving, Rules, TlsTrust, WhenAsleep};
use outflow_mock::{MockApi, Script, Server};
use outflow_testkit::VirtualTime;

/// Builds a server that only follows a script.
pub(crate) fn scripted(script: Script) -> MockApi {
    MockApi::builder().script(script).build().expect("valid")
}

/// Configures an API without limits and without retry delays.
pub(crate) fn eager(url: &str) -> Api {
    let mut api = Api::new("strict", url.parse().expect("a URL"));
    api.rules = Rules::unlimited();
    let instant = Duration::from_millis(1);
    api.retry.backoff = Backoff::full_jitter(instant, instant).expect("valid");
    api
}

/// Builds a client over real sockets, in real time.
pub(crate) fn over_sockets(server: &Server, adapt: impl FnOnce(&mut Api)) -> Outflow {
    let mut api = eager(&server.url());
    adapt(&mut api);
    Outflow::init([api]).expect("valid")
}

/// Builds a client that trusts this server's authority, and so uses HTTP/2.
pub(crate) fn trusting(server: &Server, adapt: impl FnOnce(&mut Api)) -> Outflow {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(server.ca_pem().expect("TLS").as_bytes())
        .expect("written");
    over_sockets(server, |api| {
        api.trust = TlsTrust::File(file.path().to_owned());
        adapt(api);
    })
}

/// Sets the profile whose attempts count with every answer of the server, and that refuses while it sleeps.
pub(crate) fn cautious(api: &mut Api) {
    api.rules.health = HealthConfig::cautious();
    api.rules.when_asleep = WhenAsleep::Refuse;
}

/// A resolver that calls a function.
pub(crate) struct FnResolver<F>(pub(crate) F);

impl<F> Resolve for FnResolver<F>
where
    F: Fn(&str) -> Result<Vec<IpAddr>, ResolveError> + Send + Sync,
{
    fn resolve(&self, name: &str) -> Resolving {
        let found = self.0(name);
        Box::pin(async move { found })
    }
}

/// Builds a client over pipes, in virtual time. The server lives as long as the client.
pub(crate) fn over_pipes(mock: &MockApi, adapt: impl FnOnce(&mut Api)) -> Outflow {
    let server = Arc::new(mock.in_memory());
    let mut api = eager(&server.url());
    adapt(&mut api);
    Outflow::builder()
        .api(api)
        .timer(Arc::new(VirtualTime::new()))
        .connector(Arc::new(move |_: &str, _: u16| -> outflow::Connecting {
            let pipe: Box<dyn IoStream> = Box::new(server.connect());
            Box::pin(async move { Ok(pipe) })
        }))
        .build()
        .expect("valid")
}

/// Returns the default health with at most one call in flight.
pub(crate) fn one_at_a_time() -> HealthConfig {
    together(1)
}

/// Returns the default health with this concurrency.
pub(crate) fn together(concurrency: u32) -> HealthConfig {
    let settings = HealthSettings {
        concurrency: Some(concurrency),
        ..HealthSettings::default()
    };
    HealthConfig::new(settings).expect("valid")
}
