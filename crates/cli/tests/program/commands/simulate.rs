//! `outflow simulate` with a load of the user.

use std::fmt::Write as _;

use super::support::{configured, folder, run, run_in};

// Twice the limit for a minute: the provider would throttle about half of 1,200 calls, and sending them takes
// about two minutes.
#[test]
fn a_simulated_load_above_the_limit_waits_without_throttles() {
    let folder =
        configured("[apis.shop]\nbase_url = \"https://shop.example\"\nlimits = [\"10/s\"]\nmax_wait = \"1h\"\n");
    let load = [
        "simulate",
        "--rate",
        "20/s",
        "--duration",
        "1m",
        "--tenants",
        "3",
        "--json",
    ];
    let document = run_in(folder.path(), &load).json(0);
    let group = &document["groups"][0];
    let number = |key: &str| group[key].as_u64().expect("a number");
    assert!((1_100..1_300).contains(&number("calls")), "{group}");
    let share = number("refused_without") * 100 / number("calls");
    assert!((45..55).contains(&share), "{group}");
    assert_eq!((number("refused_with"), number("given_up")), (0, 0), "{group}");
    let took = document["took_ms"].as_u64().expect("a number");
    assert!((110_000..130_000).contains(&took), "{document}");
    assert!(number("wait_p99_ms") > 50_000, "the last wait for a minute: {group}");
    assert!(document["jain"].as_f64().expect("a number") > 0.99, "{document}");
    assert_eq!(run_in(folder.path(), &load).json(0), document, "the same seed");
}

// Five calls in each of three seconds, under 2/s: six pass if sent at once, and all pass in eight seconds if
// they wait.
#[test]
fn simulate_replays_an_access_log_with_its_times() {
    let mut log = String::from("# a comment\n");
    for second in 36..39 {
        for host in 0..5 {
            let _ = writeln!(
                log,
                "10.0.0.{host} - - [10/Oct/2026:13:15:{second} +0000] \"GET /a?b HTTP/1.1\" 200 12"
            );
        }
    }
    let folder = configured("[apis.shop]\nbase_url = \"https://shop.example\"\nlimits = [\"2/s\"]\n");
    std::fs::write(folder.path().join("access.log"), log).expect("writable");
    let ran = run_in(folder.path(), &["simulate", "--replay", "access.log", "--json"]);
    let document = ran.json(0);
    let group = &document["groups"][0];
    assert_eq!(
        (&group["calls"], &group["refused_without"]),
        (&15.into(), &9.into()),
        "{group}"
    );
    assert_eq!((&group["refused_with"], &group["given_up"]), (&0.into(), &0.into()));
    assert_eq!(document["tenants"], 5);
    let took = document["took_ms"].as_u64().expect("a number");
    assert!((7_000..8_500).contains(&took), "{document}");
}

#[test]
fn simulate_selects_the_group_of_a_preset_by_path() {
    let load = ["simulate", "--preset", "upbit", "--rate", "11/s", "--duration", "2m"];
    let ticker = [&load[..], &["--path", "/v1/ticker/all", "--json"]].concat();
    let document = run(&ticker).json(0);
    assert_eq!(document["groups"][0]["name"], "ticker");
    assert!(
        document["groups"][0]["refused_without"].as_u64() > Some(50),
        "{document}"
    );
    let table = run(&load).out;
    assert!(table.contains("429 without") && table.contains("default"), "{table}");
}

// A `max_wait` of five seconds and a queue that grows by ten a second: late calls are refused.
#[test]
fn simulated_calls_beyond_max_wait_are_given_up() {
    let folder =
        configured("[apis.shop]\nbase_url = \"https://shop.example\"\nlimits = [\"10/s\"]\nmax_wait = \"5s\"\n");
    let load = ["simulate", "--rate", "20/s", "--duration", "2m", "--json"];
    let group = &run_in(folder.path(), &load).json(0)["groups"][0];
    assert!(group["given_up"].as_u64() > Some(800), "{group}");
    assert!(group["wait_longest_ms"].as_u64() <= Some(5_000), "{group}");
}

#[test]
fn simulate_rejects_an_invalid_load() {
    let folder = folder();
    std::fs::write(folder.path().join("poem.txt"), "roses are red\n").expect("writable");
    for (arguments, said) in [
        (&["--rate", "many", "--preset", "upbit"][..], "rate"),
        (&["--rate", "1/s"], "outflow init"),
        (&["--rate", "1/s", "--preset", "upbot"], "use one of"),
        (&["--replay", "poem.txt", "--preset", "upbit"], "combined log format"),
    ] {
        let arguments = [&["simulate"], arguments].concat();
        let ran = run_in(folder.path(), &arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.talk.contains(said), "{said} in {ran:?}");
    }
}

// Three lines: a call, a line that no log has, and a call of a tenant whose name is not UTF-8.
#[test]
fn simulate_reports_skipped_lines() {
    let folder = folder();
    let mut log = br#"10.0.0.1 - - [10/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 12"#.to_vec();
    log.extend(b"\na line of something else\n");
    log.extend(br#"{"ts": "2026-10-10T13:55:37Z", "path": "/a", "tenant": ""#);
    log.extend(b"\xff\"}\n");
    std::fs::write(folder.path().join("access.log"), log).expect("writable");
    let arguments = ["simulate", "--replay", "access.log", "--preset", "upbit", "--json"];
    let ran = run_in(folder.path(), &arguments);
    let calls = ran.json(0)["groups"][0]["calls"].clone();
    assert_eq!(calls, 2, "{ran:?}");
    assert!(ran.talk.contains("1 of 3 lines"), "{ran:?}");
}
