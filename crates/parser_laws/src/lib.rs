//! Properties of every parser, for every input: one body for the fuzz targets and for the property
//! tests, so that both check equal laws.
//!
//! Each law takes the bytes of one input and panics if it is broken. The crate is never published,
//! and no product depends on it.

#![expect(
    clippy::missing_panics_doc,
    reason = "a law panics where it is broken, all of them do"
)]

pub mod client;
pub mod program;
pub mod response;
pub mod secrets;
pub mod sidecar;
pub mod values;

use std::sync::Arc;

use http::HeaderName;
use outflow::config::{DiagnosticSeverity, Diagnostics};
use outflow::{Api, Credential, CredentialPlacement, Outflow, Rules};
use outflow_mock::{Arrival, MockApi};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    let mut runtime = Builder::new_current_thread();
    runtime.enable_all().build().expect("a runtime")
}

/// Builds a client of one API with a key; a server of the mock is at every address.
fn client_of(name: &str, base_url: &str, mock: &MockApi) -> Outflow {
    let mut api = Api::new(name, base_url.parse().expect("a URL"));
    api.rules = Rules::unlimited();
    api.retry.count = 0;
    api.credential = Some(Credential {
        secret: KEY.into(),
        place: CredentialPlacement::Bearer,
    });
    let server = Arc::new(mock.in_memory());
    let connect = move |_: &str, _: u16| -> outflow::Connecting {
        let pipe: Box<dyn outflow::IoStream> = Box::new(server.connect());
        Box::pin(async move { Ok(pipe) })
    };
    let client = Outflow::builder().api(api).connector(Arc::new(connect));
    client.build().expect("valid")
}

/// A refused configuration has an error.
fn has_error(diagnostics: &Diagnostics) {
    let mut severities = diagnostics.iter().map(|diagnostic| diagnostic.severity);
    assert!(
        severities.any(|severity| severity == DiagnosticSeverity::Error),
        "{diagnostics}"
    );
}

/// Returns a recorded header.
fn text_of<'a>(arrival: &'a Arrival, name: &HeaderName) -> Option<&'a str> {
    let mut recorded = arrival.headers.iter();
    let (_, value) = recorded.find(|(recorded, _)| recorded == name)?;
    value.to_str().ok()
}

const KEY: &str = "c4n4ry-k3y";
