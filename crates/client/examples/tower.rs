//! The tower layer around another HTTP client: here hyper's; any tower service works.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use outflow::{Events, Rules, SystemClock, Upstream, UpstreamLayer};
use outflow_mock::{MockApi, Quota};
use tower_layer::Layer;
use tower_service::Service;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let strict = MockApi::builder().limit(Quota::sliding("5/s".parse()?)).build()?;
    let server = strict.listen().await?;

    let rules = Rules::with_limit("5/s".parse()?);
    let upstream = Upstream::new("strict", rules, Arc::new(SystemClock::new()), Events::new())?;
    let hyper = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let mut service = UpstreamLayer::new(upstream).layer(hyper);

    for _ in 0..11 {
        let request = Request::get(server.url()).body(Full::default())?;
        let response = service.call(request).await?;
        let status = response.status();
        response.into_body().collect().await?;
        println!("{status}");
    }
    println!("{} were throttled", strict.audit().refused());
    Ok(())
}
