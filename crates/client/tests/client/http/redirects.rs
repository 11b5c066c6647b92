//! Where redirects lead, and what goes along.

use http::HeaderName;
use outflow::core::{Cost, Limit};
use outflow::{Api, Credential, CredentialPlacement, Group, Outflow, Route};
use outflow_mock::{MockApi, MockResponse, Script, Server};
use outflow_testkit::EventRecorder;

use super::support::{eager, over_pipes, over_sockets, scripted};

/// A server that tells which headers it saw.
async fn noting() -> (MockApi, Server) {
    let mut builder = MockApi::builder();
    for name in [
        "authorization",
        "cookie",
        "x-api-key",
        "x-session-token",
        "accept",
    ] {
        builder = builder.noting(HeaderName::from_static(name));
    }
    let strict = builder.build().expect("valid");
    let server = strict.listen().await.expect("a port");
    (strict, server)
}

fn keyed(api: &mut Api, place: CredentialPlacement) {
    api.credential = Some(Credential {
        secret: "CANARY".to_owned().into(),
        place,
    });
}

/// The names of the headers that the last request to a path had.
fn seen(strict: &MockApi, path: &str) -> Vec<String> {
    let audit = strict.audit();
    let last = audit
        .arrivals()
        .iter()
        .rfind(|one| one.path.starts_with(path));
    let headers = &last.expect("it came").headers;
    headers.iter().map(|(name, _)| name.to_string()).collect()
}

#[tokio::test]
async fn a_redirect_within_the_api_keeps_the_key_and_takes_a_permit() {
    let (strict, server) = noting().await;
    strict.answer("/old", MockResponse::redirect(302, "/new?page=2"));
    let client = over_sockets(&server, |api| keyed(api, CredentialPlacement::Bearer));
    let heard = EventRecorder::subscribed_to(client.events());
    let answer = client
        .get("strict", "/old")
        .send()
        .await
        .expect("the new place");
    assert_eq!((answer.status().as_u16(), answer.attempts()), (200, 2));
    assert_eq!(seen(&strict, "/new"), ["authorization"]);
    let admitted = |event: &outflow::Event| matches!(&event.what, outflow::event::EventKind::Admitted { cost, .. } if *cost == Cost::ONE);
    assert_eq!(
        heard.all().iter().filter(|event| admitted(event)).count(),
        2
    );
}

// Another port is another origin. Every way in which a key can be sent stays behind.
#[tokio::test]
async fn nothing_personal_follows_to_another_origin() {
    let header = HeaderName::from_static("x-api-key");
    for place in [
        CredentialPlacement::Bearer,
        CredentialPlacement::Header(header),
        CredentialPlacement::Query("api_key".into()),
    ] {
        let (strict, server) = noting().await;
        let (other, elsewhere) = noting().await;
        let away = format!("{}/there", elsewhere.url());
        strict.answer("/away", MockResponse::redirect(307, &away));
        other.answer("/there", MockResponse::echo());
        let client = over_sockets(&server, |api| {
            keyed(api, place.clone());
            api.addresses = outflow::AddressPolicy::Any;
        });
        let call = client
            .get("strict", "/away")
            .header("cookie", "session=CANARY");
        let call = call
            .header("x-session-token", "CANARY")
            .header("accept", "text/plain");
        let answer = call.send().await.expect("the other place");
        let echo = answer.text().await.expect("an echo");
        assert!(
            !echo.contains("CANARY") && echo.contains("there"),
            "{place:?}: {echo}"
        );
        assert_eq!(seen(&other, "/there"), ["accept"], "{place:?}");
    }
}

// The other server is on this machine, which the first one must not be able to make us call.
#[tokio::test]
async fn a_redirect_cannot_lead_into_a_private_network() {
    let (strict, server) = noting().await;
    let (other, elsewhere) = noting().await;
    let port = elsewhere.address().port();
    for host in [
        "localhost",
        "127.0.0.2",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
    ] {
        strict.answer(
            "/away",
            MockResponse::redirect(302, &format!("http://{host}:{port}/there")),
        );
        let client = over_sockets(&server, |_| {});
        let error = client.get("strict", "/away").send().await.expect_err(host);
        assert!(
            error.to_string().contains("private network"),
            "{host}: {error}"
        );
    }
    assert_eq!(other.audit().count(), 0);
}

#[tokio::test]
async fn redirects_end() {
    let (strict, server) = noting().await;
    strict.answer("/circle", MockResponse::redirect(302, "/circle"));
    strict.answer("/ping", MockResponse::redirect(302, "/pong"));
    strict.answer("/pong", MockResponse::redirect(302, "/ping"));
    for step in 0..10 {
        let next = format!("/step/{}", step + 1);
        strict.answer(
            format!("/step/{step}").as_str(),
            MockResponse::redirect(302, &next),
        );
    }
    strict.answer(
        "/nowhere",
        MockResponse::redirect(302, "ftp://example.com/"),
    );
    let client = over_sockets(&server, |api| api.redirects = 3);
    for (path, words, attempts) in [
        ("/circle", "form a loop", 1),
        ("/ping", "form a loop", 2),
        ("/step/0", "too many redirects", 4),
        ("/nowhere", "invalid URL", 1),
    ] {
        let error = client.get("strict", path).send().await.expect_err(path);
        assert!(error.is_redirect(), "{path}: {error:?}");
        assert!(error.to_string().contains(words), "{path}: {error}");
        assert_eq!(error.attempts(), attempts, "{path}");
    }
    let answer = client
        .get("strict", "/step/7")
        .send()
        .await
        .expect("three hops");
    assert_eq!((answer.status().as_u16(), answer.attempts()), (200, 4));
}

// A POST is sent again where the server says "the same, over there", and nowhere else.
#[tokio::test]
async fn a_body_follows_only_where_its_method_does() {
    let (strict, server) = noting().await;
    let client = over_sockets(&server, |_| {});
    for (status, reached) in [(301, 0), (302, 0), (303, 0), (307, 1), (308, 1)] {
        strict.forget();
        strict.answer("/old", MockResponse::redirect(status, "/new"));
        let answer = client
            .post("strict", "/old")
            .body("order")
            .send()
            .await
            .expect("one");
        assert_eq!(strict.audit().attempts("/new"), reached, "{status}");
        assert_eq!(answer.status().as_u16() == 200, reached == 1, "{status}");
        let arrivals = strict.audit();
        let body = &arrivals.arrivals().last().expect("one").body;
        assert_eq!(*body, outflow_mock::Received::Whole(5), "{status}");
    }
}

#[tokio::test]
async fn redirects_can_be_turned_off() {
    let (strict, server) = noting().await;
    strict.answer("/old", MockResponse::redirect(302, "/new"));
    let mut api = eager(&server.url());
    api.redirects = 0;
    let client = Outflow::init([api]).expect("valid");
    let answer = client.get("strict", "/old").send().await.expect("as it is");
    assert_eq!(answer.status(), 302);
    assert_eq!(answer.headers()["location"], "/new");
}

/// One call a minute to `/orders` and all below it.
fn scarce_orders(api: &mut Api) {
    let limit = Limit::sliding("1/m".parse().expect("a rate"));
    api.rules.groups = vec![Group::new("orders", vec![limit])];
    api.rules.routes = vec![Route {
        methods: Vec::new(),
        pattern: "/orders/**".parse().expect("a pattern"),
        group: "orders".into(),
        cost: None,
    }];
}

// Nothing limits `/free`, but it leads to where one call a minute is allowed. The base `/v1` also
// begins `/v1orders`, which is not below it.
#[tokio::test(start_paused = true)]
async fn a_redirected_call_counts_in_the_group_it_leads_to() {
    for (leads_to, allowed) in [("/v1/orders/1", 1), ("/v1orders/1", 2)] {
        let strict = scripted(Script::new());
        strict.answer("/v1/free", MockResponse::redirect(302, leads_to));
        let client = over_pipes(&strict, |api| {
            api.base_url = format!("{}/v1", api.base_url).parse().expect("a URL");
            scarce_orders(api);
        });
        let heard = EventRecorder::subscribed_to(client.events());
        for _ in 0..2 {
            let _refused = client.get("strict", "/free").send().await;
        }
        assert_eq!(strict.audit().attempts(leads_to), allowed, "{leads_to}");
        let in_orders = heard.finished()[0].group == "orders";
        assert_eq!(in_orders, allowed == 1, "{leads_to}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_that_the_caller_named_stays() {
    let strict = scripted(Script::new());
    strict.answer("/free", MockResponse::redirect(302, "/other"));
    let client = over_pipes(&strict, scarce_orders);
    let heard = EventRecorder::subscribed_to(client.events());
    let call = client.get("strict", "/free").group("orders");
    let error = call.send().await.expect_err("the second of this minute");
    assert!(error.is_rate_limited(), "{error}");
    assert_eq!(heard.finished()[0].group, "orders");
}

// A server that repeats the key gets it once, and a circle is still one.
#[tokio::test(start_paused = true)]
async fn a_key_in_the_query_follows_within_the_api() {
    let strict = scripted(Script::new());
    strict.answer("/new", MockResponse::echo());
    strict.answer("/circle", MockResponse::redirect(302, "/circle"));
    let client = over_pipes(&strict, |api| {
        keyed(api, CredentialPlacement::Query("api_key".into()))
    });
    for to in [
        "/new",
        "/new?page=2",
        "/new?api_key=CANARY",
        "new?x_api_key=1",
    ] {
        strict.answer("/old", MockResponse::redirect(302, to));
        let answer = client.get("strict", "/old").send().await.expect(to);
        let seen = answer.text().await.expect("text");
        assert_eq!(seen.matches("api_key=CANARY").count(), 1, "{to}: {seen}");
    }
    let circle = client.get("strict", "/circle").send().await;
    assert_eq!(circle.expect_err("a circle").attempts(), 1);
}

// Every status that redirects, and one that leaves the choice to the reader.
#[tokio::test(start_paused = true)]
async fn a_redirect_to_nowhere_is_an_answer() {
    let strict = scripted(Script::new());
    let client = over_pipes(&strict, |_| {});
    for status in [300, 301, 302, 303, 307, 308] {
        strict.answer("/x", MockResponse::status(status));
        let answer = client.get("strict", "/x").send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status);
    }
}
