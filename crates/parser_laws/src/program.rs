//! Laws of the program's other parsers: admin requests, replayed logs and configuration overrides.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{Method, Request, Response};
use outflow::config::{Environment, RuntimeOverrides as SetByHand, Source, set_variable};
use outflow::{Config, Outflow};
use outflow_admin::fuzzing::AdminFuzz;
use outflow_cli::fuzzing;
use outflow_cli::{ConfigSources, ProgramConfig};
use serde_json::Value;

use crate::{has_error, runtime};

/// Every operator request gets a response: an invalid one is a client error, never a server error,
/// and is reported as a problem in the common shape. Empty lines divide requests; the first line of
/// each is its method and target. `PERMIT` in the others is the permit that was granted last.
pub fn admin(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let runtime = runtime();
    let inside = runtime.enter();
    let sources = ConfigSources::new(Vec::new())
        .with_text(Source::new("fuzz.toml", STOCK))
        .in_environment(Environment::empty());
    let config = sources.read().expect("valid");
    let client = config.client.apis.iter().cloned();
    let client = client.fold(Outflow::builder(), outflow::OutflowBuilder::api);
    let client = client.build().expect("valid");
    let operators = AdminFuzz::new(fuzzing::app_state(client, config, sources));
    drop(inside);
    let mut permit = String::new();
    for asked in text.split("\n\n").take(8) {
        let asked = asked.replace("PERMIT", &permit);
        let Some(request) = operation(&asked) else {
            continue;
        };
        let (method, target) = (request.method().clone(), request.uri().clone());
        if let Some(answer) = runtime.block_on(operators.request(request)) {
            // No sidecar runs here, and its readiness has a separate message.
            if target.path() == "/readyz" && method == Method::GET {
                continue;
            }
            let said = is_an_answer(&answer);
            assert!(
                !answer.status().is_server_error() || is_held(&said),
                "{method} {target}: {answer:?}"
            );
            if let Some(number) = said.get("permit").and_then(Value::as_str) {
                number.clone_into(&mut permit);
            }
        }
    }
}

fn operation(text: &str) -> Option<Request<Bytes>> {
    let (first, body) = text.split_once('\n').unwrap_or((text, ""));
    let (method, target) = first.split_once(' ')?;
    let request = Request::builder().method(method).uri(target);
    let request = request
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json");
    request.body(Bytes::from(body.to_owned())).ok()
}

/// A response is consistent with its headers.
fn is_an_answer(answer: &Response<Bytes>) -> Value {
    let kind = answer.headers().get(CONTENT_TYPE);
    let kind = kind.map_or("", |kind| kind.to_str().expect("text"));
    let problem = kind == "application/problem+json";
    assert_eq!(
        problem,
        !answer.status().is_success(),
        "{answer:?} is reported as {kind:?}"
    );
    if !kind.ends_with("json") {
        return Value::Null;
    }
    let said: Value = serde_json::from_slice(answer.body()).expect("JSON");
    if problem {
        assert_eq!(
            said.get("status").and_then(Value::as_u64),
            Some(u64::from(answer.status().as_u16()))
        );
        let word = |name| said.get(name).and_then(Value::as_str).expect("a text");
        assert!(word("type").starts_with("urn:outflow:problem:"));
        assert!(!word("title").is_empty() && !word("detail").is_empty());
    }
    said
}

/// Returns true if an earlier operator request forced the API's state.
fn is_held(said: &Value) -> bool {
    let kind = said.get("type").and_then(Value::as_str).unwrap_or_default();
    let kind = kind.trim_start_matches("urn:outflow:problem:");
    ["blocked", "too_late", "busy"].contains(&kind)
}

/// A log is replayed call by call, with any lines.
pub fn replay(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let sources = Source::new("fuzz.toml", STOCK);
    let config = Config::read(&[sources], &Environment::empty()).expect("valid");
    let api = config.apis.first().expect("an API");
    let Some((forecast, read)) = fuzzing::forecast_json(api, &text) else {
        return;
    };
    assert!(read > 0 && read <= text.lines().count());
    let groups = forecast.get("groups").and_then(Value::as_array);
    let calls = groups.expect("groups").iter();
    let calls = calls.map(|group| group.get("calls").and_then(Value::as_u64));
    let calls: u64 = calls.map(|calls| calls.expect("a number")).sum();
    assert_eq!(usize::try_from(calls), Ok(read), "{forecast}");
    // An invalid line changes nothing at any place.
    let more = format!("nonsense\n{text}\n{{}}\n");
    assert_eq!(fuzzing::forecast_json(api, &more), Some((forecast, read)));
}

/// Overrides are judged like files. A value set by hand takes effect at its key or is reported as
/// an error of its setter. Lines of `env NAME=VALUE` are the environment, lines of `set NAME=VALUE`
/// are set by hand, and the others are a file.
pub fn overrides(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let said = |word: &str| -> Vec<(String, String)> {
        let said = text.lines().filter_map(|line| line.strip_prefix(word));
        let pairs = said.filter_map(|line| line.split_once('='));
        pairs
            .map(|(name, value)| (name.trim().to_owned(), value.to_owned()))
            .collect()
    };
    let file = text.lines();
    let file = file.filter(|line| !line.starts_with("env ") && !line.starts_with("set "));
    let file = format!("{STOCK}{}\n", file.collect::<Vec<_>>().join("\n"));
    let sources = ConfigSources::new(Vec::new())
        .with_text(Source::new("fuzz.toml", file))
        .in_environment(said("env ").into_iter().collect())
        .with_auto_recover(std::time::Duration::from_mins(1));
    let Ok(before) = sources.read() else {
        return;
    };
    let mut by_hand = SetByHand::default();
    for (variable, value) in said("set ") {
        set_variable(&mut by_hand, "stock", &variable, &value);
    }
    match sources.read_with(&by_hand) {
        Ok(after) => {
            let names =
                |config: &ProgramConfig| -> Vec<_> { config.client.apis.iter().map(|api| api.name.clone()).collect() };
            assert_eq!(names(&before), names(&after), "an API cannot be set");
        }
        Err(diagnostics) => has_error(&diagnostics),
    }
}

/// An API without calls, with two groups.
const STOCK: &str = r#"
[apis.stock]
base_url = "http://localhost:9/v1"
limits = [{ rate = "3/min", accounting = "send" }]
routes = [{ methods = ["POST"], path = "/orders/**", group = "orders", cost = 2 }]
[apis.stock.groups.orders]
limits = ["100/min"]
aliases = ["trading"]
"#;
