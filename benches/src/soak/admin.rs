//! Observers of the program: scrapes, queries, and the live stream.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::{sleep, timeout};

use super::call_counts::CallCounts;

/// Reads the pages of dashboards repeatedly, each time on new connections.
pub(super) async fn read(admin: &str, seen: &CallCounts) {
    loop {
        for path in ["/metrics", "/v1/snapshot", "/v1/apis/up/limits", "/readyz"] {
            if let Err(why) = page(&format!("{admin}{path}")).await {
                seen.surprise(|| format!("{path}: {why}"));
            }
        }
        sleep(EVERY).await;
    }
}

/// Follows the live stream, and reconnects now and then.
pub(super) async fn listen(admin: &str, seen: &CallCounts) {
    let url = format!("{admin}/v1/events?snapshot_ms=1000");
    loop {
        // Only an end that the program chooses is a surprise.
        if let Ok(ended) = timeout(A_WHILE, follow(&url)).await {
            seen.surprise(|| format!("the live stream ended: {ended}"));
            sleep(EVERY).await;
        }
    }
}

/// Calls an operation of the program.
pub(super) async fn post(admin: &str, path: &str, seen: &CallCounts) {
    let request = Request::post(format!("{admin}{path}"))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::from("{}"));
    let posted = match request {
        Ok(request) => answered(request).await,
        Err(error) => Err(error.to_string()),
    };
    if let Err(why) = posted {
        seen.surprise(|| format!("{path}: {why}"));
    }
}

/// Returns a page of the admin API.
///
/// # Errors
/// If the response is not successful.
pub(super) async fn page(url: &str) -> Result<Bytes, String> {
    let request = Request::builder().method(Method::GET).uri(url);
    let request = request.body(Full::default());
    answered(request.map_err(|error| error.to_string())?).await
}

async fn answered(request: Request<Full<Bytes>>) -> Result<Bytes, String> {
    let answer = client().request(request).await;
    let answer = answer.map_err(|error| format!("no answer: {error}"))?;
    let status = answer.status();
    let body = answer.into_body().collect().await;
    let body = body.map_err(|error| format!("a broken body: {error}"))?;
    if status.is_success() {
        Ok(body.to_bytes())
    } else {
        let words = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        Err(format!("{status}: {words}"))
    }
}

async fn follow(url: &str) -> String {
    let Ok(url) = url.parse() else {
        return "it has no address".to_owned();
    };
    match client().get(url).await {
        Err(error) => error.to_string(),
        Ok(answer) => {
            let mut body = answer.into_body();
            while let Some(Ok(_)) = body.frame().await {}
            "the program closed it".to_owned()
        }
    }
}

fn client() -> Client<HttpConnector, Full<Bytes>> {
    Client::builder(TokioExecutor::new()).build_http()
}

/// The rate of a busy dashboard.
const EVERY: Duration = Duration::from_secs(5);

/// Time for which a page stays open.
const A_WHILE: Duration = Duration::from_secs(90);
