//! One secret in every place where one can be, and every way in which a call can fail: it is found in
//! no error, event or printed value.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use outflow::{Credential, CredentialPlacement, Outflow, ResolveError, Rules, WaitMode};
use outflow_mock::{
    Fault, MockResponse, Script, ScriptMatch, ScriptedFault, ThrottleResponse, Tls,
};
use outflow_testkit::EventRecorder;

use super::support::{Names, eager, over_sockets, scripted};

const CANARY: &str = "CANARY-7f3a";

/// Everything that a call leaves behind in text.
async fn traces(client: &Outflow, path: &str) -> String {
    let heard = EventRecorder::subscribed_to(client.events());
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
            Ok(answer) => {
                let printed = format!("{answer:?}");
                let status = answer.error_for_status();
                let decoded = match status {
                    Err(error) => chain(&error),
                    Ok(answer) => match answer.json::<Vec<u8>>().await {
                        Err(error) => chain(&error),
                        Ok(_) => String::new(),
                    },
                };
                printed + &decoded
            }
        };
    }
    text + &format!("{:?}", heard.all())
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

/// A resolver that fails in these words.
fn nobody() -> Names<impl Fn(&str) -> Result<Vec<IpAddr>, ResolveError> + Send + Sync> {
    Names(|name: &str| Err(std::io::Error::other(format!("{name}? {CANARY}?")).into()))
}

fn places() -> [CredentialPlacement; 3] {
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

fn acts() -> Vec<ScriptedFault> {
    let echo = format!("{{\"you said\": \"{CANARY}\"");
    let mut acts: Vec<ScriptedFault> = [200, 204, 400, 401, 403, 404, 418, 429, 500, 503]
        .into_iter()
        .map(|status| {
            let content = outflow_mock::Content::Whole(echo.clone().into());
            let answer = MockResponse::status(status)
                .header("x-echo", CANARY)
                .header("set-cookie", CANARY);
            answer.content(content).into()
        })
        .collect();
    acts.extend(
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
    acts.push(ThrottleResponse::with_bytes(CANARY).into());
    acts.push(ThrottleResponse::new(429, Duration::from_hours(1)).into());
    for away in [
        format!("ftp://{CANARY}/"),
        format!("http://{CANARY}.invalid/{CANARY}"),
        format!("http://user:{CANARY}@example.com/"),
        format!("http://10.0.0.1/{CANARY}"),
        format!("/{CANARY}"),
    ] {
        acts.push(MockResponse::redirect(302, &away).into());
    }
    acts
}

#[tokio::test]
async fn no_secret_is_told_whatever_the_server_does() {
    for (index, act) in acts().into_iter().enumerate() {
        let strict = scripted(Script::new().rule(ScriptMatch::always(), act.clone()));
        let server = strict.listen().await.expect("a port");
        let place = places()[index % 3].clone();
        let client = over_sockets(&server, |api| keyed(api, place));
        let text = traces(&client, "/a").await;
        assert!(!text.contains(CANARY), "{act:?}: {text}");
        assert!(text.contains("Finished"), "{act:?}: something was told");
    }
}

#[tokio::test]
async fn no_secret_is_told_when_nothing_is_reached() {
    for (index, place) in places().into_iter().enumerate() {
        let strict = scripted(Script::new());
        let tls = [Tls::Expired, Tls::WrongName, Tls::CloseMidway][index];
        let server = strict.listen_tls(tls).await.expect("a port");
        let mut api = eager(&server.url());
        keyed(&mut api, place.clone());
        let untrusted = Outflow::init([api.clone()]).ok();
        drop(server);
        let gone = Outflow::init([api.clone()]).ok();
        api.base_url = "https://no-such-host.example".parse().expect("a URL");
        let unknown = Outflow::builder()
            .api(api.clone())
            .resolver(Arc::new(nobody()));
        let unknown = unknown.build().ok();
        api.rules = Rules::with_limit("1/day".parse().expect("valid"));
        let spent = Outflow::builder().api(api).resolver(Arc::new(nobody()));
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
fn a_client_that_cannot_be_made_says_why_and_not_with_what() {
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
