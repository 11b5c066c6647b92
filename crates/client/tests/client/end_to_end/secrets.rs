//! One secret in every place that can hold one, every way a call can fail, and every output: no
//! output contains it.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outflow::config::{Config, LogFormat, LogLevel, NdjsonTarget};
use outflow::core::HealthOverride;
use outflow::{AddressPolicy, Api, CacheMode, Credential, CredentialPlacement, Outflow, Proxy, Rules};
use outflow_mock::{
    Content, Fault, MockApi, MockResponse, Script, ScriptMatch, ScriptedFault, Server, ThrottleResponse, Tls,
};
use outflow_testkit::EventRecorder;

/// Differs in a query, in JSON and in base64. No part is hexadecimal, because call ids are.
const CANARY: &str = "c4nary/7z3q+\"x\"";

/// Returns every encoding of the secret.
fn forms() -> Vec<String> {
    let mut forms = vec!["c4nary".to_owned(), "7z3q".to_owned(), "c4nary%2F7z3q".to_owned()];
    // Three alignments: one of them matches after any prefix.
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

/// Returns the first encoding found in a text.
fn leaked(text: &str) -> Option<String> {
    forms().into_iter().find(|form| text.contains(form.as_str()))
}

/// Everything that `tracing` receives, from any crate.
#[derive(Clone, Default)]
struct TraceCapture(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for TraceCapture {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl TraceCapture {
    /// Listens on this thread until the guard is dropped.
    fn listening(&self) -> tracing::subscriber::DefaultGuard {
        let capture = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || capture.clone());
        tracing::subscriber::set_default(subscriber.finish())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no panic")).into_owned()
    }
}

/// Returns everything in a directory, names included.
fn directory_text(dir: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        writeln!(text, "{}", path.display()).expect("a string");
        if path.is_dir() {
            text += &directory_text(&path);
        } else {
            text += &String::from_utf8_lossy(&std::fs::read(&path).expect("a file"));
        }
    }
    text
}

/// Configures an API with the secret as its key, and short timeouts.
fn api_with_key(url: &str, place: CredentialPlacement) -> Api {
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
        outflow::core::Backoff::full_jitter(Duration::from_millis(1), Duration::from_millis(1)).expect("valid");
    api.max_body = 1_000;
    api
}

/// Builds a client that writes every output into this directory.
fn logging_client(api: Api, format: LogFormat, dir: &Path) -> Outflow {
    let mut config: Config = [api].into();
    config.log.format = format;
    config.log.level = LogLevel::Trace;
    config.log.file = Some(dir.join("outflow.log"));
    config.metrics.ndjson = NdjsonTarget::File(dir.join("metrics.ndjson"));
    config.metrics.interval = Duration::from_millis(20);
    config.cache.dir = Some(dir.join("cache"));
    Outflow::init(config).expect("valid")
}

/// Makes calls with the secret in every place, and returns all their traces.
async fn traces(api: Api, format: LogFormat) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let capture = TraceCapture::default();
    let listening = capture.listening();
    let client = logging_client(api.clone(), format, dir.path());
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
    text + &capture.text() + &directory_text(dir.path())
}

/// Reloads with another key, and twice with a refused configuration: an invalid header value, and
/// a duplicate name.
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
        secretive("/written").header("bad name", CANARY).send().await,
        secretive("/written")
            .header("x-bad", format!("{CANARY}\n"))
            .send()
            .await,
        read(&format!("//user:{CANARY}@elsewhere.invalid/")).send().await,
        read(&format!("http://user:{CANARY}@elsewhere.invalid/")).send().await,
        read(&format!("/\r\n{CANARY}")).send().await,
        read("/..").send().await,
    ] {
        text += &match ended {
            Err(error) => chain(&error),
            Ok(response) => {
                let printed = format!("{response:?}");
                let decoded = match response.error_for_status() {
                    Err(error) => chain(&error),
                    Ok(response) => response
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

/// Returns every way in which a server can fail.
fn server_faults() -> Vec<ScriptedFault> {
    let mut server_faults: Vec<ScriptedFault> = [200, 204, 401, 403, 418, 429, 500, 503]
        .into_iter()
        .map(|status| ScriptedFault::from(MockResponse::status(status)))
        .collect();
    server_faults.push(MockResponse::bad_json().into());
    server_faults.push(MockResponse::ok("").content(Content::Zeros(100_000)).into());
    server_faults.push(MockResponse::redirect(302, "").into());
    server_faults.push(MockResponse::redirect(302, "ftp://elsewhere.invalid/").into());
    server_faults.push(MockResponse::redirect(302, "http://elsewhere.invalid/").into());
    server_faults.push(ThrottleResponse::new(429, Duration::from_hours(1)).into());
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
        ]
        .map(ScriptedFault::from),
    );
    server_faults
}

fn credential_places() -> [CredentialPlacement; 3] {
    let header = http::HeaderName::from_static("x-api-key");
    [
        CredentialPlacement::Bearer,
        CredentialPlacement::Header(header),
        CredentialPlacement::Query("key".into()),
    ]
}

fn assert_silent(text: &str, what: &str) {
    assert!(text.contains("Finished"), "{what}: events were recorded");
    let form = leaked(text);
    let at = form.as_ref().and_then(|form| text.find(form.as_str()));
    let around = at.map(|at| {
        let nearby = text.as_bytes().iter().skip(at.saturating_sub(300)).take(400);
        String::from_utf8_lossy(&nearby.copied().collect::<Vec<_>>()).into_owned()
    });
    assert_eq!(form, None, "{what}: {around:?}");
}

#[tokio::test]
async fn no_output_contains_a_secret_for_any_server_behaviour() {
    for (index, act) in server_faults().into_iter().enumerate() {
        let script = Script::new().rule(ScriptMatch::always(), act.clone());
        let mock = MockApi::builder().script(script).build().expect("valid");
        let server = mock.listen().await.expect("a port");
        let format = [LogFormat::Logfmt, LogFormat::Json][index % 2];
        let api = api_with_key(&server.url(), credential_places()[index % 3].clone());
        assert_silent(&traces(api, format).await, &format!("{act:?}"));
    }
}

/// Starts a TLS server; each kind fails in its own way.
async fn tls_server(tls: Tls) -> Server {
    let mock = MockApi::builder().build().expect("valid");
    mock.listen_tls(tls).await.expect("a port")
}

#[tokio::test]
async fn no_output_contains_a_secret_when_no_server_is_reached() {
    let good = tls_server(Tls::Good).await;
    let (expired, cut) = (tls_server(Tls::Expired).await, tls_server(Tls::CloseMidway).await);
    let gone = tls_server(Tls::Good).await.url();
    let mut apis = vec![
        api_with_key(&gone, CredentialPlacement::Bearer),
        api_with_key("http://localhost:1", CredentialPlacement::Query("key".into())),
    ];
    for server in [&good, &expired, &cut] {
        apis.push(api_with_key(&server.url(), CredentialPlacement::Query("key".into())));
    }
    let mut trusting = api_with_key(&good.url(), CredentialPlacement::Bearer);
    trusting.trust = outflow::TlsTrust::AnyCertificate;
    apis.push(trusting.clone());
    trusting.rules = Rules::with_limit("1/day".parse().expect("valid"));
    apis.push(trusting.clone());
    let mut private = api_with_key("http://localtest.invalid", CredentialPlacement::Query("key".into()));
    private.addresses = AddressPolicy::Public;
    private.retry.count = 0;
    apis.push(private);
    for (index, mut api) in apis.into_iter().enumerate() {
        if api.trust == outflow::TlsTrust::System && api.base_url.to_string().starts_with("https") {
            // A machine without trusted roots would refuse to start.
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
fn no_message_contains_a_secret_from_a_url() {
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
                let mut api = api_with_key("http://localhost", CredentialPlacement::Bearer);
                api.proxy = Proxy::Url(url.clone());
                assert_eq!(leaked(&format!("{url} {url:?} {api:?}")), None);
            }
        }
    }
}

// The search finds each encoding planted in a logged header name, in a cache file, and in another
// library's line.
#[tokio::test]
async fn the_search_finds_planted_secrets() {
    let mock = MockApi::builder().build().expect("valid");
    let server = mock.listen().await.expect("a port");
    let api = api_with_key(&server.url(), CredentialPlacement::Bearer);
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
        assert!(leaked(&format!("{text}{planted}{text}")).is_some(), "{planted}");
    }
    let capture = TraceCapture::default();
    {
        let _listening = capture.listening();
        tracing::trace!(header = CANARY, "a line of another library");
    }
    assert!(leaked(&capture.text()).is_some());
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("deep")).expect("made");
    std::fs::write(dir.path().join("deep/file"), CANARY).expect("written");
    assert!(leaked(&directory_text(dir.path())).is_some());
}
