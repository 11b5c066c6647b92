//! h2load: many concurrent calls, framed by an independent implementation.

use outflow_mock::{MockApi, MockResponse, Quota};

use super::support::{RunningProgram, SECOND, run_tool, tool};

// 250 calls at 100/s: 100 at once, 100 a second later, 50 after another second. Over HTTP/2 a hundred calls
// share four connections; over HTTP/1.1 each has its own.
#[tokio::test(flavor = "multi_thread")]
async fn the_sidecar_answers_h2load_within_the_limit() {
    for arguments in ["-c 4 -m 25", "--h1 -c 100"] {
        let api = MockApi::builder()
            .limit(Quota::sliding("100/s".parse().expect("a rate")))
            .answer("/**", MockResponse::ok("{\"ok\":true}"))
            .build()
            .expect("valid");
        let server = api.listen().await.expect("a port");
        let apis = format!(
            "[apis.strict]\nbase_url = \"{}\"\nconcurrency = 100\n\
             limits = [{{ rate = \"100/s\", accounting = \"safe\" }}]",
            server.url()
        );
        let running = RunningProgram::serving("", &apis);
        let mut h2load = tool("h2load");
        h2load
            .args(["-n", "250"])
            .args(arguments.split(' '))
            .arg(format!("{}/strict/x", running.calls));
        let Some(text) = run_tool(h2load) else {
            return;
        };
        for words in [
            "250 succeeded, 0 failed, 0 errored, 0 timeout",
            "status codes: 250 2xx, 0 3xx, 0 4xx, 0 5xx",
        ] {
            assert!(text.contains(words), "{arguments}: {text}");
        }
        let audit = api.audit();
        assert_eq!((audit.count(), audit.refused()), (250, 0), "{arguments}");
        let most = audit.most_in_any_window(SECOND);
        assert!(most <= 100, "{arguments}: {most} in a second");
        let (first, last) = (&audit.arrivals()[0], &audit.arrivals()[249]);
        let took = last.at.since(first.at);
        assert!(took >= SECOND * 2, "{arguments}: {took:?}");
    }
}
