//! One secret in every place that can hold one, every way in which a call can fail, and everything
//! that writes: it is found in none of it.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outflow::config::{Config, LogFormat, LogLevel, NdjsonTarget};
use outflow::core::HealthOverride;
use outflow::{
    AddressPolicy, Api, CacheMode, Credential, CredentialPlacement, Outflow, Proxy, Rules,
};
use outflow_mock::{
    Content, Fault, MockApi, MockResponse, Script, ScriptMatch, ScriptedFault, Server,
    ThrottleResponse, Tls,
};
use outflow_testkit::EventRecorder;

/// Looks different in a query, in JSON and in base64. No part of it is hexadecimal, as the numbers of
/// calls are.
const CANARY: &str = "c4nary/7z3q+\"x\"";

/// Every form in which it could stand somewhere.
fn forms() -> Vec<String> {
    let mut forms = vec![
        "c4nary".to_owned(),
        "7z3q".to_owned(),
        "c4nary%2F7z3q".to_owned(),
    ];
    // Three alignments: whatever stands before it, one of these is inside.
    for before in ["", "u", "us", "use", "user:"] {
        let text = base64(format!("{before}{CANARY}").as_bytes());
        forms.push(text[8..16].to_owned());
    }
    forms
}

fn base64(bytes: &[u8]) -> String {
    let alphabet: Vec<char> = ('A'..='Z')
        .chain('a'..='z')
        .chain('0'..='9')
        .chain(['+', '/'])
        .collect();
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |place: usize| u32::from(*chunk.get(place).unwrap_or(&0));
        let number = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..=chunk.len() {
            let six = (number >> (18 - 6 * place)) & 63;
            text.extend(alphabet.get(usize::try_from(six).expect("below 64")));
        }
    }
    text
}

/// The first form that is in a text.
fn leaked(text: &str) -> Option<String> {
    forms()
        .into_iter()
        .find(|form| text.contains(form.as_str()))
}

/// Whatever `tracing` is told, by anybody.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Told {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Told {
    /// Listens on this thread until the guard is dropped.
    fn listening(&self) -> tracing::subscriber::DefaultGuard {
        let told = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || told.clone());
        tracing::subscriber::set_default(subscriber.finish())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no panic")).into_owned()
    }
}

/// All that a directory holds, names included.
fn everything(dir: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        writeln!(text, "{}", path.display()).expect("a string");
        if path.is_dir() {
            text += &everything(&path);
        } else {
            text += &String::from_utf8_lossy(&std::fs::read(&path).expect("a file"));
        }
    }
    text
}

/// An API that is given the secret as its key, and little patience.
fn keyed(url: &str, place: CredentialPlacement) -> Api {
    let mut api = Api::new("strict", url.parse().expect("a URL"));
    api.rules = Rules::unlimited();
    api.credential = Some(Credential {
        secret: CANARY.to_owned().into(),
        place,
    });
    api.cache = CacheMode::Force(Duration::from_mins(1));
    api.timeouts.read = Duration::from_millis(30);
    api.timeouts.connect = Duration::from_millis(500);
    api.retry.count = 1;
    api.retry.backoff =
        outflow::core::Backoff::full_jitter(Duration::from_millis(1), Duration::from_millis(1))
            .expect("valid");
    api.max_body = 1_000;
    api
}

/// A client that writes whatever can be written into this directory.
fn telling_all(api: Api, format: LogFormat, dir: &Path) -> Outflow {
    let mut config: Config = [api].into();
    config.log.format = format;
    config.log.level = LogLevel::Trace;
    config.log.file = Some(dir.join("outflow.log"));
    config.metrics.ndjson = NdjsonTarget::File(dir.join("metrics.ndjson"));
    config.metrics.interval = Duration::from_millis(20);
    config.cache.dir = Some(dir.join("cache"));
    Outflow::init(config).expect("valid")
}

/// Makes calls with the secret in every place, and tells all that they leave behind.
async fn traces(api: Api, format: LogFormat) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let told = Told::default();
    let listening = told.listening();
    let client = telling_all(api.clone(), format, dir.path());
    let heard = EventRecorder::subscribed_to(client.events());
    let mut text = format!("{client:?}");
    text += &calls(&client).await;
    text += &reloads(&client, &api);
    client
        .upstream("strict")
        .expect("there")
        .force_health(None, HealthOverride::CacheOnly);
    text += &calls(&client).await;
    text += &client.metrics().expect("configured").render();
    write!(text, "{:?} {:?}", heard.all(), client.tasks()).expect("a string");
    assert!(client.close(Duration::from_secs(5)).await);
    drop(client);
    drop(listening);
    text + &told.text() + &everything(dir.path())
}

/// Another key, and two reloads that are refused: a key that no header can hold, and a name that is there
/// twice.
fn reloads(client: &Outflow, api: &Api) -> String {
    let with_key = |secret: String| {
        let place = api.credential.as_ref().map(|known| known.place.clone());
        let mut api = api.clone();
        api.credential = place.map(|place| Credential {
            secret: secret.into(),
            place,
        });
        api
    };
    let accepted = client.reload([with_key(format!("{CANARY}-2"))]);
    let twice = client.reload([api.clone(), api.clone()]);
    let unfit = client.reload([with_key(format!("{CANARY}\n"))]);
    assert!(accepted.is_ok() && twice.is_err());
    format!("{accepted:?} {twice:?} {unfit:?} ") + &reason(twice) + &reason(unfit)
}

fn reason<T>(result: Result<T, outflow::InvalidClient>) -> String {
    result.err().map_or_else(String::new, |why| why.to_string())
}

async fn calls(client: &Outflow) -> String {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let secretive = |path: &str| {
        let call = client.post("strict", path).idempotent();
        call.query([("token", CANARY)])
            .header("authorization", format!("Bearer {CANARY}"))
            .header("cookie", format!("session={CANARY}"))
            .header("x-api-key", CANARY)
            .header("tracestate", "k=c4nary")
            .trace_parent(parent)
            .body(CANARY)
            .timeout(Duration::from_secs(2))
    };
    let read = |path: &str| {
        let call = client.get("strict", path).query([("token", CANARY)]);
        call.header(
            "authorization",
            format!("Basic {}", base64(format!("user:{CANARY}").as_bytes())),
        )
        .timeout(Duration::from_secs(2))
    };
    let mut text = String::new();
    for ended in [
        read("/kept").send().await,
        read("/kept").send().await,
        read("/flowing").send_streaming().await,
        secretive("/written").send().await,
        secretive("/written")
            .header("bad name", CANARY)
            .send()
            .await,
        secretive("/written")
            .header("x-bad", format!("{CANARY}\n"))
            .send()
            .await,
        read(&format!("//user:{CANARY}@elsewhere.invalid/"))
            .send()
            .await,
        read(&format!("http://user:{CANARY}@elsewhere.invalid/"))
            .send()
            .await,
        read(&format!("/\r\n{CANARY}")).send().await,
        read("/..").send().await,
    ] {
        text += &match ended {
            Err(error) => chain(&error),
            Ok(answer) => {
                let printed = format!("{answer:?}");
                let decoded = match answer.error_for_status() {
                    Err(error) => chain(&error),
                    Ok(answer) => answer
                        .json::<Vec<u8>>()
                        .await
                        .err()
                        .map_or(String::new(), |error| chain(&error)),
                };
                printed + &decoded
            }
        };
    }
    text
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        write!(text, "{error} {error:?}").expect("a string");
        source = error.source();
    }
    text
}

/// Every way in which a server can disappoint.
fn acts() -> Vec<ScriptedFault> {
    let mut acts: Vec<ScriptedFault> = [200, 204, 401, 403, 418, 429, 500, 503]
        .into_iter()
        .map(|status| ScriptedFault::from(MockResponse::status(status)))
        .collect();
    acts.push(MockResponse::bad_json().into());
    acts.push(MockResponse::ok("").content(Content::Zeros(100_000)).into());
    acts.push(MockResponse::redirect(302, "").into());
    acts.push(MockResponse::redirect(302, "ftp://elsewhere.invalid/").into());
    acts.push(MockResponse::redirect(302, "http://elsewhere.invalid/").into());
    acts.push(ThrottleResponse::new(429, Duration::from_hours(1)).into());
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
        ]
        .map(ScriptedFault::from),
    );
    acts
}

fn places() -> [CredentialPlacement; 3] {
    let header = http::HeaderName::from_static("x-api-key");
    [
        CredentialPlacement::Bearer,
        CredentialPlacement::Header(header),
        CredentialPlacement::Query("key".into()),
    ]
}

fn assert_silent(text: &str, what: &str) {
    assert!(text.contains("Finished"), "{what}: something was told");
    let form = leaked(text);
    let at = form.as_ref().and_then(|form| text.find(form.as_str()));
    let around = at.map(|at| {
        let nearby = text
            .as_bytes()
            .iter()
            .skip(at.saturating_sub(300))
            .take(400);
        String::from_utf8_lossy(&nearby.copied().collect::<Vec<_>>()).into_owned()
    });
    assert_eq!(form, None, "{what}: {around:?}");
}

#[tokio::test]
async fn a_secret_is_written_nowhere_whatever_the_server_does() {
    for (index, act) in acts().into_iter().enumerate() {
        let script = Script::new().rule(ScriptMatch::always(), act.clone());
        let strict = MockApi::builder().script(script).build().expect("valid");
        let server = strict.listen().await.expect("a port");
        let format = [LogFormat::Logfmt, LogFormat::Json][index % 2];
        let api = keyed(&server.url(), places()[index % 3].clone());
        assert_silent(&traces(api, format).await, &format!("{act:?}"));
    }
}

/// A server behind TLS, of which each sort disappoints in another way.
async fn secured(tls: Tls) -> Server {
    let strict = MockApi::builder().build().expect("valid");
    strict.listen_tls(tls).await.expect("a port")
}

#[tokio::test]
async fn a_secret_is_written_nowhere_when_nothing_is_reached() {
    let good = secured(Tls::Good).await;
    let (expired, cut) = (secured(Tls::Expired).await, secured(Tls::CloseMidway).await);
    let gone = secured(Tls::Good).await.url();
    let mut apis = vec![
        keyed(&gone, CredentialPlacement::Bearer),
        keyed(
            "http://localhost:1",
            CredentialPlacement::Query("key".into()),
        ),
    ];
    for server in [&good, &expired, &cut] {
        apis.push(keyed(
            &server.url(),
            CredentialPlacement::Query("key".into()),
        ));
    }
    let mut trusting = keyed(&good.url(), CredentialPlacement::Bearer);
    trusting.trust = outflow::TlsTrust::AnyCertificate;
    apis.push(trusting.clone());
    trusting.rules = Rules::with_limit("1/day".parse().expect("valid"));
    apis.push(trusting.clone());
    let mut private = keyed(
        "http://localtest.invalid",
        CredentialPlacement::Query("key".into()),
    );
    private.addresses = AddressPolicy::Public;
    private.retry.count = 0;
    apis.push(private);
    for (index, mut api) in apis.into_iter().enumerate() {
        if api.trust == outflow::TlsTrust::System && api.base_url.to_string().starts_with("https") {
            // A machine that trusts nobody would refuse to begin.
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), good.ca_pem().expect("TLS")).expect("written");
            api.trust = outflow::TlsTrust::File(file.path().to_owned());
            let what = format!("{index}: {}", api.base_url);
            assert_silent(&traces(api, LogFormat::Json).await, &what);
            continue;
        }
        let what = format!("{index}: {}", api.base_url);
        assert_silent(&traces(api, LogFormat::Logfmt).await, &what);
    }
}

#[test]
fn a_secret_in_a_url_is_not_in_what_is_said_about_it() {
    for url in [
        format!("http://user:{CANARY}@example.com"),
        "http://user:c4nary@example.com".to_owned(),
        format!("http://example.com/?key={CANARY}"),
        "http://example.com/#c4nary".to_owned(),
        "ftp://c4nary.example.com".to_owned(),
    ] {
        match url.parse::<outflow::BaseUrl>() {
            Err(error) => assert_eq!(leaked(&chain(&error)), None, "{url}"),
            Ok(url) => {
                let mut api = keyed("http://localhost", CredentialPlacement::Bearer);
                api.proxy = Proxy::Url(url.clone());
                assert_eq!(leaked(&format!("{url} {url:?} {api:?}")), None);
            }
        }
    }
}

// The same search over the same traces finds each form as soon as one is there: planted in a header
// name that is told, in a file of the cache's directory, and in a line of another library.
#[tokio::test]
async fn the_search_finds_what_is_planted() {
    let strict = MockApi::builder().build().expect("valid");
    let server = strict.listen().await.expect("a port");
    let api = keyed(&server.url(), CredentialPlacement::Bearer);
    let text = traces(api.clone(), LogFormat::Logfmt).await;
    assert_eq!(leaked(&text), None);
    for part in [
        "external_requests_total",
        "path=/kept",
        "latency_ms",
        "Admitted",
        "cache",
    ] {
        assert!(text.contains(part), "{part} is searched");
    }
    let encoded = base64(format!("user:{CANARY}").as_bytes());
    for planted in [CANARY, "key=c4nary%2F7z3q%2B", &encoded] {
        assert!(
            leaked(&format!("{text}{planted}{text}")).is_some(),
            "{planted}"
        );
    }
    let told = Told::default();
    {
        let _listening = told.listening();
        tracing::trace!(header = CANARY, "a line of another library");
    }
    assert!(leaked(&told.text()).is_some());
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("deep")).expect("made");
    std::fs::write(dir.path().join("deep/file"), CANARY).expect("written");
    assert!(leaked(&everything(dir.path())).is_some());
}
