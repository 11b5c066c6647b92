//! A strict API and a client that calls it.

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use outflow::core::{Backoff, HealthConfig, HealthSettings};
use outflow::{Api, IoStream, Outflow, Resolve, ResolveError, Resolving, Rules, TlsTrust};
use outflow_mock::{MockApi, Script, Server};
use outflow_testkit::VirtualTime;

/// A server that follows a script, and nothing else.
pub(crate) fn scripted(script: Script) -> MockApi {
    MockApi::builder().script(script).build().expect("valid")
}

/// An API without limits that is retried at once: what is tested is whether, not when.
pub(crate) fn eager(url: &str) -> Api {
    let mut api = Api::new("strict", url.parse().expect("a URL"));
    api.rules = Rules::unlimited();
    let instant = Duration::from_millis(1);
    api.retry.backoff = Backoff::full_jitter(instant, instant).expect("valid");
    api
}

/// A client over real sockets and in real time.
pub(crate) fn over_sockets(server: &Server, adapt: impl FnOnce(&mut Api)) -> Outflow {
    let mut api = eager(&server.url());
    adapt(&mut api);
    Outflow::init([api]).expect("valid")
}

/// A client that trusts the authority of this server, and so speaks HTTP/2 to it.
pub(crate) fn trusting(server: &Server, adapt: impl FnOnce(&mut Api)) -> Outflow {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(server.ca_pem().expect("TLS").as_bytes())
        .expect("written");
    over_sockets(server, |api| {
        api.trust = TlsTrust::File(file.path().to_owned());
        adapt(api);
    })
}

/// A resolver that knows what this function knows.
pub(crate) struct Names<F>(pub(crate) F);

impl<F> Resolve for Names<F>
where
    F: Fn(&str) -> Result<Vec<IpAddr>, ResolveError> + Send + Sync,
{
    fn resolve(&self, name: &str) -> Resolving {
        let found = self.0(name);
        Box::pin(async move { found })
    }
}

/// A client over pipes, in the runtime's own time. The server lives as long as the client.
pub(crate) fn over_pipes(strict: &MockApi, adapt: impl FnOnce(&mut Api)) -> Outflow {
    let server = Arc::new(strict.in_memory());
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

/// Health as usual, with one call in flight at most.
pub(crate) fn one_at_a_time() -> HealthConfig {
    together(1)
}

/// So many at a time.
pub(crate) fn together(concurrency: u32) -> HealthConfig {
    let settings = HealthSettings {
        concurrency,
        ..HealthSettings::default()
    };
    HealthConfig::new(settings).expect("valid")
}
