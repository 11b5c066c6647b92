//! First calls with the presets: the README's example, and the keys that users have.

use http::HeaderName;
use http::header::AUTHORIZATION;
use outflow::config::{Config, Environment, Source};
use outflow::{Outflow, Preset, Response};
use outflow_mock::{MockApi, MockResponse, Server};

/// A key of version 3: 32 hexadecimal digits.
const V3_KEY: &str = "0123456789abcdef0123456789abcdef";

/// A read access token: a JSON web token.
const READ_TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.eyJhdWQiOiIwMTIzIn0.c2lnbmF0dXJlX29mX2FfdGVzdA";

/// Returns the text of the first block of a language.
fn first_block(text: &'static str, language: &str) -> &'static str {
    let (_, rest) = text.split_once(&format!("```{language}\n")).expect("a block");
    rest.split_once("```").expect("its end").0
}

/// Starts an API that answers at this path only, and echoes nothing else.
async fn answering(path: &str) -> (MockApi, Server) {
    let api = MockApi::builder()
        .noting(AUTHORIZATION)
        .noting(HeaderName::from_static("anthropic-version"))
        .noting(HeaderName::from_static("x-api-key"))
        .answer(path, MockResponse::echo())
        .answer("/**", MockResponse::status(404));
    let api = api.build().expect("valid");
    let server = api.listen().await.expect("a port");
    (api, server)
}

/// Reads a configuration whose API is on this server instead of its own, with the path of its preset.
fn configured(text: &str, (api, server): (&str, &Server), variables: &[(&str, &str)]) -> Config {
    let preset = Preset::named(api).expect("a preset").text();
    let url = preset.split_once("\nbase_url = \"https://").expect("a URL").1;
    let url = url.split_once('"').expect("its end").0;
    let prefix = url
        .split_once('/')
        .map_or(String::new(), |(_, path)| format!("/{path}"));
    let variable = format!("OUTFLOW_APIS__{}__BASE_URL", api.to_uppercase());
    let here = (variable, format!("{}{prefix}", server.url()));
    let given = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let environment: Environment = given.chain([here]).collect();
    Config::read(&[Source::new("outflow.toml", text)], &environment).expect("valid")
}

async fn call(config: Config, api: &str, path: &str) -> Response {
    let client = Outflow::init(config).expect("valid");
    client.get(api, path).send().await.expect("a response")
}

// The example and the configuration of the README, word for word, at an API that knows one film.
#[tokio::test]
async fn the_first_call_of_the_readme_gets_200() {
    let readme = include_str!("../../../../README.md");
    let program = first_block(readme, "rust,no_run");
    let (_, call_text) = program.split_once(".get(\"").expect("a call");
    let (api, rest) = call_text.split_once("\", \"").expect("two arguments");
    let (path, _) = rest.split_once('"').expect("a path");
    let (mock, server) = answering("/3/movie/603").await;
    let variables = [("TMDB_API_KEY", V3_KEY)];
    let config = configured(first_block(readme, "toml"), (api, &server), &variables);
    assert_eq!(call(config, api, path).await.status(), 200, "{api} {path}");
    assert_eq!(mock.audit().count(), 1);
}

// Both kinds of TMDB's keys work in the same variable, and neither is sent in the other's place.
#[tokio::test]
async fn a_tmdb_key_goes_where_its_kind_belongs() {
    let text = "[apis.tmdb]\npreset = \"tmdb\"\napi_key_env = \"TMDB_API_KEY\"\n";
    for (key, query, header) in [
        (V3_KEY, Some(format!("page=2&api_key={V3_KEY}")), None),
        (
            READ_TOKEN,
            Some("page=2".to_owned()),
            Some(format!("Bearer {READ_TOKEN}")),
        ),
    ] {
        let (mock, server) = answering("/3/movie/603").await;
        let config = configured(text, ("tmdb", &server), &[("TMDB_API_KEY", key)]);
        let shown = format!("{config:?}");
        assert!(!shown.contains(key), "{shown}");
        let response = call(config, "tmdb", "/movie/603?page=2").await;
        let echo: serde_json::Value = response.json().await.expect("an echo");
        assert_eq!(echo["query"].as_str().map(str::to_owned), query);
        let audit = mock.audit();
        let headers = audit.arrivals()[0].headers.iter();
        let mut found = headers.filter(|(name, _)| name == AUTHORIZATION);
        let found = found.next().map(|(_, value)| value.to_str().expect("text").to_owned());
        assert_eq!(found, header);
    }
}

// Anthropic rejects a request without a version; the version of a caller applies.
#[tokio::test]
async fn an_anthropic_call_has_its_key_and_a_version() {
    let text = "[apis.anthropic]\npreset = \"anthropic\"\napi_key_env = \"ANTHROPIC_API_KEY\"\n";
    let (mock, server) = answering("/v1/models").await;
    let variables = [("ANTHROPIC_API_KEY", "a-test-key-123")];
    let config = configured(text, ("anthropic", &server), &variables);
    let client = Outflow::init(config).expect("valid");
    for version in [None, Some("2099-01-01")] {
        let mut call = client.get("anthropic", "/v1/models");
        if let Some(version) = version {
            call = call.header("Anthropic-Version", version);
        }
        assert_eq!(call.send().await.expect("a response").status(), 200);
    }
    let audit = mock.audit();
    for (arrival, version) in audit.arrivals().iter().zip(["2023-06-01", "2099-01-01"]) {
        let header = |name: &str| {
            let found: Vec<_> = arrival.headers.iter().filter(|(known, _)| known == name).collect();
            assert_eq!(found.len(), 1, "{name} in {arrival:?}");
            found[0].1.clone()
        };
        assert_eq!(header("anthropic-version"), version);
        assert_eq!(header("x-api-key"), "a-test-key-123");
    }
}
