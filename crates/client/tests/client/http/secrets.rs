//! One secret in every place, and every way a call can fail: no error, event or printed value
//! contains it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use outflow::{Credential, CredentialPlacement, Outflow, ResolveError, Rules, WaitMode};
use outflow_mock::{Fault, MockResponse, Script, ScriptMatch, ScriptedFault, ThrottleResponse, Tls};
use outflow_testkit::EventRecorder;

use super::support::{FnResolver, eager, over_sockets, scripted};

const CANARY: &str = "CANARY-7f3a";

/// Returns all the text that a call leaves behind.
async fn traces(client: &Outflow, path: &str) -> String {
    let recorder = EventRecorder::subscribed_to(client.events());
    let secretive = || {
        client
            .get("strict", path)
            .query([("token", CANARY)])
            .header("authorization", CANARY)
            .header("cookie", CANARY)
            .header("x-other", CANARY)
            .timeout(Duration::from_secs(2))
            .body(CANARY)
    };
    let mut text = format!("{client:?}");
    for ended in [
        secretive().send().await,
        secretive().send_streaming().await,
        secretive().stream(Full::new(CANARY.into())).send().await,
        secretive().mode(WaitMode::Reject).send().await,
        secretive().group(path).send().await,
    ] {
        text += &match ended {
            Err(error) => chain(&error),
            Ok(response) => {
                let printed = format!("{response:?}");
                let status = response.error_for_status();
                let decoded = match status {
                    Err(error) => chain(&error),
                    Ok(response) => match response.json::<Vec<u8>>().await {
                        Err(error) => chain(&error),
                        Ok(_) => String::new(),
                    },
                };
                printed + &decoded
            }
        };
    }
    text + &format!("{:?}", recorder.all())
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        text += &error.to_string();
        text += &format_args!("{error:?}").to_string();
        source = error.source();
    }
    text
}

/// Builds a resolver that always fails.
fn failing_resolver() -> FnResolver<impl Fn(&str) -> Result<Vec<IpAddr>, ResolveError> + Send + Sync> {
    FnResolver(|name: &str| Err(std::io::Error::other(format!("{name}? {CANARY}?")).into()))
}

fn credential_places() -> [CredentialPlacement; 3] {
    let header = http::HeaderName::from_static("x-api-key");
    [
        CredentialPlacement::Bearer,
        CredentialPlacement::Header(header),
        CredentialPlacement::Query("key".into()),
    ]
}

fn keyed(api: &mut outflow::Api, place: CredentialPlacement) {
    api.credential = Some(Credential {
        secret: CANARY.to_owned().into(),
        place,
    });
    api.timeouts.read = Duration::from_millis(50);
    api.retry.count = 1;
}

fn server_faults() -> Vec<ScriptedFault> {
    let echo = format!("{{\"you said\": \"{CANARY}\"");
    let mut server_faults: Vec<ScriptedFault> = [200, 204, 400, 401, 403, 404, 418, 429, 500, 503]
        .into_iter()
        .map(|status| {
            let content = outflow_mock::Content::Whole(echo.clone().into());
            let response = MockResponse::status(status)
                .header("x-echo", CANARY)
                .header("set-cookie", CANARY);
            response.content(content).into()
        })
        .collect();
    server_faults.extend(
        [
            Fault::ResetUnread,
            Fault::ResetBeforeHead,
            Fault::ResetInBody,
            Fault::CloseBeforeHead,
            Fault::Hang,
            Fault::CutBody,
            Fault::CutChunk,
            Fault::Unasked101,
            Fault::Garbage,
            Fault::HugeHeader(100_000),
            Fault::ManyHeaders(1_000),
            Fault::Bytes(format!("HTTP/1.1 200 OK\r\n{CANARY}\r\n\r\n").into()),
            Fault::Bytes(CANARY.into()),
        ]
        .map(ScriptedFault::from),
    );
    server_faults.push(ThrottleResponse::with_bytes(CANARY).into());
    server_faults.push(ThrottleResponse::new(429, Duration::from_hours(1)).into());
    for away in [
        format!("ftp://{CANARY}/"),
        format!("http://{CANARY}.invalid/{CANARY}"),
        format!("http://user:{CANARY}@example.com/"),
        format!("http://10.0.0.1/{CANARY}"),
        format!("/{CANARY}"),
    ] {
        server_faults.push(MockResponse::redirect(302, &away).into());
    }
    server_faults
}

#[tokio::test]
async fn no_error_or_event_contains_a_secret_for_any_server_behaviour() {
    for (index, act) in server_faults().into_iter().enumerate() {
        let mock = scripted(Script::new().rule(ScriptMatch::always(), act.clone()));
        let server = mock.listen().await.expect("a port");
        let place = credential_places()[index % 3].clone();
        let client = over_sockets(&server, |api| keyed(api, place));
        let text = traces(&client, "/a").await;
        assert!(!text.contains(CANARY), "{act:?}: {text}");
        assert!(text.contains("Finished"), "{act:?}: events were recorded");
    }
}

#[tokio::test]
async fn no_error_or_event_contains_a_secret_when_no_server_is_reached() {
    for (index, place) in credential_places().into_iter().enumerate() {
        let mock = scripted(Script::new());
        let tls = [Tls::Expired, Tls::WrongName, Tls::CloseMidway][index];
        let server = mock.listen_tls(tls).await.expect("a port");
        let mut api = eager(&server.url());
        keyed(&mut api, place.clone());
        let untrusted = Outflow::init([api.clone()]).ok();
        drop(server);
        let gone = Outflow::init([api.clone()]).ok();
        api.base_url = "https://no-such-host.example".parse().expect("a URL");
        let unknown = Outflow::builder()
            .api(api.clone())
            .resolver(Arc::new(failing_resolver()));
        let unknown = unknown.build().ok();
        api.rules = Rules::with_limit("1/day".parse().expect("valid"));
        let spent = Outflow::builder().api(api).resolver(Arc::new(failing_resolver()));
        let spent = spent.build().ok();
        for client in [untrusted, gone, unknown, spent].into_iter().flatten() {
            for path in ["/a", "//evil", "/..", "/\r\n", "", "no slash"] {
                let text = traces(&client, path).await;
                assert!(!text.contains(CANARY), "{path}: {text}");
            }
        }
    }
}

#[test]
fn an_invalid_client_error_names_the_reason_without_the_value() {
    let mut api = eager("http://localhost");
    keyed(&mut api, CredentialPlacement::Bearer);
    let mut broken = api.clone();
    let secret = format!("{CANARY}\r\n");
    broken.credential = Some(Credential {
        secret: secret.into(),
        place: CredentialPlacement::Bearer,
    });
    let error = Outflow::init([api.clone(), broken, api.clone()]).expect_err("twice");
    let text = format!("{error} {error:?} {api:?}");
    assert!(text.contains("another API has this name"), "{text}");
    assert!(!text.contains(CANARY), "{text}");
}
