//! Laws of background tasks: supervised, visible, drained; all in virtual time.

use std::fmt::Write;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outflow::core::{Clock, Nanos};
use outflow::event::{EventKind, TaskState};
use outflow::{Event, Events, Observer, SpawnError, SystemClock, Tasks};
use outflow_testkit::VirtualTime;
use tokio::time::sleep;

/// Records every change of a background task, and every event as printed.
#[derive(Default)]
struct TaskLog(Mutex<Vec<(Nanos, &'static str, TaskState)>>, Mutex<String>);

impl TaskLog {
    fn states(&self, name: &str) -> Vec<(Nanos, TaskState)> {
        let entries = self.0.lock().expect("no writer panics");
        entries
            .iter()
            .filter(|(_, task, _)| *task == name)
            .map(|(at, _, state)| (*at, *state))
            .collect()
    }

    fn restarts(&self, name: &str) -> Vec<(u32, Duration)> {
        let entries = self.states(name);
        entries
            .iter()
            .filter_map(|(_, state)| match state {
                TaskState::Restarting { restarts, delay } => Some((*restarts, *delay)),
                _ => None,
            })
            .collect()
    }
}

impl Observer for TaskLog {
    fn observe(&self, event: &Event) {
        let mut shown = self.1.lock().expect("no writer panics");
        writeln!(shown, "{event:?}").expect("a string takes all");
        if let EventKind::Task { name, state } = &event.what {
            let mut entries = self.0.lock().expect("no writer panics");
            entries.push((event.at, name, *state));
        }
    }
}

const SECRET: &str = "sk-live-canary";

fn new_tasks() -> (Tasks, Arc<TaskLog>, VirtualTime) {
    let (events, log, time) = (Events::new(), Arc::new(TaskLog::default()), VirtualTime::new());
    events.subscribe(log.clone());
    let tasks = Tasks::new("orders", events, Arc::new(time.clone()));
    (tasks, log, time)
}

/// True once its guard is dropped.
struct DropFlag(Arc<AtomicBool>);

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn drop_flag() -> (DropFlag, Arc<AtomicBool>) {
    let dropped = Arc::new(AtomicBool::new(false));
    (DropFlag(dropped.clone()), dropped)
}

// The delays double from 100 ms, each with at most 100 ms of jitter; twelve restarts reach the
// cap.
#[tokio::test(start_paused = true)]
async fn a_panicking_task_restarts_after_a_delay_that_grows_to_a_cap() {
    let (tasks, log, _time) = new_tasks();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    tasks
        .spawn("refill", move |stop| {
            let run = counted.fetch_add(1, Ordering::Relaxed);
            async move {
                assert!(run >= 12, "{SECRET}");
                stop.cancelled().await;
            }
        })
        .unwrap();
    sleep(Duration::from_mins(5)).await;
    assert_eq!(runs.load(Ordering::Relaxed), 13);
    assert_eq!(log.states("refill").last().unwrap().1, TaskState::Running);
    let restarts = log.restarts("refill");
    let least = [
        100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000, 30_000,
    ];
    assert_eq!(restarts.len(), least.len());
    for ((restart, delay), (nth, least)) in restarts.into_iter().zip((1..).zip(least)) {
        let least = Duration::from_millis(least);
        assert_eq!(restart, nth);
        assert!(
            delay >= least && delay <= least + Duration::from_millis(100),
            "{nth}: {delay:?}"
        );
    }
}

// Six panics in a row, then runs of a minute each, which reset the delay.
#[tokio::test(start_paused = true)]
async fn a_task_that_ran_for_a_minute_restarts_with_the_first_delay() {
    let (tasks, log, _time) = new_tasks();
    let runs = Arc::new(AtomicU32::new(0));
    tasks
        .spawn("sweep", move |_| {
            let run = runs.fetch_add(1, Ordering::Relaxed);
            async move {
                if run >= 6 {
                    sleep(Duration::from_mins(1)).await;
                }
                panic!("{SECRET}");
            }
        })
        .unwrap();
    sleep(Duration::from_mins(2)).await;
    let delays = log.restarts("sweep");
    let (restarts, delay) = delays[6];
    assert!(delays[5].1 >= Duration::from_millis(3_200), "{delays:?}");
    assert_eq!(restarts, 7, "all of them are counted");
    assert!(delay <= Duration::from_millis(200), "{delay:?}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_stops_no_other_task() {
    let (tasks, _diary, _time) = new_tasks();
    let beats = Arc::new(AtomicU32::new(0));
    let counted = beats.clone();
    tasks.spawn("broken", |_| async { panic!("{SECRET}") }).unwrap();
    tasks.spawn_once("broken once", async { panic!("{SECRET}") }).unwrap();
    tasks
        .spawn("heart", move |_| {
            let counted = counted.clone();
            async move {
                loop {
                    sleep(Duration::from_secs(1)).await;
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
        .unwrap();
    sleep(Duration::from_millis(60_500)).await;
    assert_eq!(beats.load(Ordering::Relaxed), 60);
}

#[tokio::test(start_paused = true)]
async fn no_event_or_report_contains_a_panics_message() {
    let (tasks, log, _time) = new_tasks();
    tasks.spawn("lasting", |_| async { panic!("{SECRET}") }).unwrap();
    tasks.spawn_once("single", async { panic!("{SECRET}") }).unwrap();
    tasks.spawn_thread("thread", |_| panic!("{SECRET}")).unwrap();
    sleep(Duration::from_secs(1)).await;
    let entries = log.1.lock().unwrap().clone();
    assert!(entries.contains("lasting") && entries.contains("single"), "{entries}");
    let shown = format!("{entries}{tasks:?}{:?}", tasks.shutdown(Duration::ZERO).await);
    assert!(!shown.contains(SECRET), "{shown}");
}

// In the constructor, in the first poll, in a later one, and in the drop.
#[tokio::test(start_paused = true)]
async fn a_panic_is_caught_wherever_it_happens() {
    struct DropBomb;
    impl Drop for DropBomb {
        fn drop(&mut self) {
            panic!("{SECRET}");
        }
    }
    let (tasks, _diary, _time) = new_tasks();
    let making = |_| -> std::future::Ready<()> { panic!("{SECRET}") };
    tasks.spawn("making", making).unwrap();
    tasks.spawn("first poll", |_| async { panic!("{SECRET}") }).unwrap();
    let later = |_| async {
        sleep(Duration::from_millis(1)).await;
        panic!("{SECRET}");
    };
    tasks.spawn("later poll", later).unwrap();
    let letting_go = |_| {
        let bomb = DropBomb;
        std::future::poll_fn(move |_| {
            let _held = &bomb;
            std::task::Poll::Ready(())
        })
    };
    tasks.spawn("letting go", letting_go).unwrap();
    let twice = |_| {
        let bomb = DropBomb;
        std::future::poll_fn(move |_| -> std::task::Poll<()> {
            let _held = &bomb;
            panic!("{SECRET}")
        })
    };
    tasks.spawn("twice", twice).unwrap();
    sleep(Duration::from_millis(50)).await;
    for report in tasks.report() {
        let restarting = matches!(report.state, TaskState::Restarting { restarts: 1, .. });
        assert!(restarting, "{report:?}");
    }
    assert_eq!(tasks.report().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_report_shows_each_task_with_its_state_and_start() {
    let (tasks, log, time) = new_tasks();
    sleep(Duration::from_secs(3)).await;
    tasks.spawn("lasting", |_| pending()).unwrap();
    tasks.spawn("short", |_| sleep(Duration::from_secs(2))).unwrap();
    tasks.spawn_once("single", sleep(Duration::from_secs(1))).unwrap();
    let seen = |tasks: &Tasks| -> Vec<_> {
        let reports = tasks.report();
        reports
            .iter()
            .map(|report| (report.name, report.state, report.since))
            .collect()
    };
    let (started, running) = (Nanos::from_secs(3), TaskState::Running);
    let all = ["lasting", "short", "single"].map(|name| (name, running, started));
    assert_eq!(seen(&tasks), all);
    time.reaches(Nanos::from_secs(10)).await;
    let ended = ("short", TaskState::Ended, Nanos::from_secs(5));
    assert_eq!(seen(&tasks), [("lasting", running, started), ended]);
    assert_eq!(
        log.states("single"),
        [(started, running), (Nanos::from_secs(4), TaskState::Ended)]
    );
    tasks.spawn("short", |_| pending()).unwrap();
    assert_eq!(tasks.report().len(), 2, "the new one takes the place of the old");
}

// A hundred thousand one-shot tasks and as many restarts of one name.
#[tokio::test(start_paused = true)]
async fn a_finished_task_is_not_kept() {
    let (tasks, _diary, _time) = new_tasks();
    for _ in 0..100_000 {
        tasks.spawn_once("single", async {}).unwrap();
        tasks.spawn("again", |_| async {}).unwrap();
        tokio::task::yield_now().await;
    }
    assert!(tasks.report().len() <= 2, "{}", tasks.report().len());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_tasks_that_finish_their_work() {
    let (tasks, _diary, time) = new_tasks();
    let saved = Arc::new(AtomicU32::new(0));
    let (lasting, once) = (saved.clone(), saved.clone());
    tasks
        .spawn("writer", move |stop| {
            let saved = lasting.clone();
            async move {
                stop.cancelled().await;
                sleep(Duration::from_secs(4)).await;
                saved.fetch_add(1, Ordering::Relaxed);
            }
        })
        .unwrap();
    let single = async move {
        sleep(Duration::from_secs(3)).await;
        once.fetch_add(1, Ordering::Relaxed);
    };
    tasks.spawn_once("single", single).unwrap();
    let drained = tasks.shutdown(Duration::from_secs(30)).await;
    assert!(drained.is_clean(), "{drained:?}");
    assert_eq!(saved.load(Ordering::Relaxed), 2);
    assert_eq!(time.now(), Nanos::from_secs(4), "no longer than it took");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_aborts_and_names_remaining_tasks_at_its_deadline() {
    let (tasks, log, time) = new_tasks();
    let (flag, dropped) = drop_flag();
    let deaf = async move {
        let _flag = flag;
        pending::<()>().await;
    };
    tasks.spawn_once("deaf", deaf).unwrap();
    tasks.spawn("stubborn", |_| pending()).unwrap();
    tasks
        .spawn("polite", |stop| async move { stop.cancelled().await })
        .unwrap();
    let drained = tasks.shutdown(Duration::from_secs(5)).await;
    assert_eq!(drained.aborted, ["deaf", "stubborn"]);
    assert_eq!(time.now(), Nanos::from_secs(5));
    assert!(dropped.load(Ordering::Acquire), "its destructors have run");
    let last = |name| log.states(name).pop();
    assert_eq!(last("stubborn"), Some((Nanos::from_secs(5), TaskState::Ended)));
    assert_eq!(last("polite"), Some((Nanos::ZERO, TaskState::Ended)));
}

// One task panics on the cancellation itself, and another waits for its restart.
#[tokio::test(start_paused = true)]
async fn nothing_restarts_after_a_shutdown_began() {
    let (tasks, log, time) = new_tasks();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let word = |stop: outflow::CancelToken| async move {
        stop.cancelled().await;
        panic!("{SECRET}");
    };
    tasks.spawn("dies of it", word).unwrap();
    let waits = move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { panic!("{SECRET}") }
    };
    tasks.spawn("waits", waits).unwrap();
    sleep(Duration::from_secs(40)).await;
    let waits = tasks.report()[1];
    assert!(matches!(waits.state, TaskState::Restarting { .. }), "{waits:?}");
    let before = runs.load(Ordering::Relaxed);
    assert!(tasks.shutdown(Duration::from_secs(5)).await.is_clean());
    assert_eq!(time.now(), Nanos::from_secs(40), "at once");
    assert_eq!(runs.load(Ordering::Relaxed), before);
    assert_eq!(log.restarts("dies of it"), [], "nor is it said to be");
    assert_eq!(tasks.spawn("late", |_| pending()), Err(SpawnError::Stopping));
    assert_eq!(tasks.spawn_once("late", async {}), Err(SpawnError::Stopping));
    assert_eq!(tasks.spawn_thread("late", |_| {}), Err(SpawnError::Stopping));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_aborts_everything() {
    let (tasks, log, _time) = new_tasks();
    let (flag, dropped) = drop_flag();
    let flag = Arc::new(flag);
    tasks
        .spawn("orphan", move |_| {
            let flag = flag.clone();
            async move {
                let _flag = flag;
                pending().await
            }
        })
        .unwrap();
    let other = tasks.clone();
    drop(tasks);
    sleep(Duration::from_secs(1)).await;
    assert!(!dropped.load(Ordering::Acquire), "a handle is left");
    drop(other);
    sleep(Duration::from_millis(1)).await;
    assert!(dropped.load(Ordering::Acquire));
    assert_eq!(log.states("orphan").last().unwrap().1, TaskState::Ended);
}

#[test]
fn spawning_without_a_runtime_returns_an_error() {
    let tasks = Tasks::new("orders", Events::new(), Arc::new(SystemClock::new()));
    assert_eq!(tasks.spawn("no", |_| pending()), Err(SpawnError::NoRuntime));
    assert_eq!(tasks.spawn_once("no", async {}), Err(SpawnError::NoRuntime));
    let refused = tasks.spawn_thread("no", |_| {}).unwrap_err();
    assert_eq!(refused, SpawnError::NoRuntime);
    assert!(refused.to_string().contains("runtime"), "{refused}");
    assert!(tasks.report().is_empty());
}

// In real time: a thread is outside the runtime, and virtual time runs ahead while it works.
#[tokio::test]
async fn a_panicking_thread_restarts_and_is_unparked_to_stop() {
    let tasks = Tasks::new("orders", Events::new(), Arc::new(SystemClock::new()));
    let (sender, mut runs) = tokio::sync::mpsc::unbounded_channel();
    let count = AtomicU32::new(0);
    tasks
        .spawn_thread("precise", move |stop| {
            let run = count.fetch_add(1, Ordering::Relaxed);
            let name = std::thread::current().name().map(str::to_owned);
            sender.send((run, name)).expect("the test listens");
            assert!(run > 0, "{SECRET}");
            while !stop.is_cancelled() {
                std::thread::park();
            }
        })
        .unwrap();
    for run in 0..2 {
        let seen = runs.recv().await.expect("it runs");
        assert_eq!(seen, (run, Some("precise".to_owned())));
    }
    assert_eq!(tasks.report()[0].restarts, 1);
    assert!(tasks.shutdown(Duration::from_secs(10)).await.is_clean());
    assert!(runs.recv().await.is_none(), "the thread let go of its end");
}

#[tokio::test]
async fn a_thread_stops_when_the_last_handle_is_dropped() {
    let tasks = Tasks::new("orders", Events::new(), Arc::new(SystemClock::new()));
    let (sender, ended) = std::sync::mpsc::channel();
    let work = move |stop: &outflow::CancelToken| {
        sender.send("runs").expect("the test listens");
        while !stop.is_cancelled() {
            std::thread::park();
        }
    };
    tasks.spawn_thread("precise", work).unwrap();
    tokio::task::yield_now().await;
    assert_eq!(ended.recv(), Ok("runs"));
    drop(tasks);
    tokio::task::yield_now().await;
    let end = ended.recv_timeout(Duration::from_secs(10));
    assert_eq!(end, Err(RecvTimeoutError::Disconnected), "it let go");
}

// An observer belongs to the user, and tasks must survive it.
#[tokio::test(start_paused = true)]
async fn a_panicking_observer_does_not_end_a_task() {
    struct PanickingObserver;
    impl Observer for PanickingObserver {
        fn observe(&self, _: &Event) {
            panic!("{SECRET}");
        }
    }
    let (events, runs) = (Events::new(), Arc::new(AtomicU32::new(0)));
    events.subscribe(Arc::new(PanickingObserver));
    let tasks = Tasks::new("orders", events, Arc::new(VirtualTime::new()));
    let counted = runs.clone();
    tasks
        .spawn("broken", move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { panic!("{SECRET}") }
        })
        .unwrap();
    sleep(Duration::from_secs(10)).await;
    assert!(runs.load(Ordering::Relaxed) > 4);
}

// A server's connections: thousands come and go, and the report has one row per name.
#[tokio::test(start_paused = true)]
async fn a_task_group_has_one_row_and_delays_shutdown() {
    let (tasks, _, _) = new_tasks();
    let group = tasks.task_group("connections").expect("a runtime");
    for span in 1..=1_000 {
        let work = sleep(Duration::from_millis(span));
        group.spawn(work).expect("no shutdown yet");
    }
    assert_eq!((group.len(), tasks.report().len()), (1_000, 1));
    sleep(Duration::from_millis(500)).await;
    assert!((499..=501).contains(&group.len()), "{}", group.len());
    drop(group);
    assert!(tasks.shutdown(Duration::from_secs(1)).await.is_clean());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_aborts_and_names_a_task_group_that_stays() {
    let (tasks, _, _) = new_tasks();
    let group = tasks.task_group("connections").expect("a runtime");
    let gone = Arc::new(AtomicBool::new(false));
    let flag = DropFlag(Arc::clone(&gone));
    let stays = async move {
        let _flag = flag;
        pending::<()>().await;
    };
    group.spawn(stays).expect("no shutdown yet");
    sleep(Duration::from_millis(1)).await;
    let drained = tasks.shutdown(Duration::from_secs(1)).await;
    assert!(!drained.is_clean() && format!("{drained:?}").contains("connections"));
    assert!(gone.load(Ordering::Acquire) && group.is_empty());
    assert_eq!(group.spawn(async {}), Err(SpawnError::Stopping));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_task_group_leaves_the_other_tasks() {
    let (tasks, _, _) = new_tasks();
    let group = tasks.task_group("connections").expect("a runtime");
    let reached = Arc::new(AtomicU32::new(0));
    for number in 0..10 {
        let reached = Arc::clone(&reached);
        let work = async move {
            sleep(Duration::from_millis(1)).await;
            assert!(number != 3, "{SECRET}");
            reached.fetch_add(1, Ordering::AcqRel);
        };
        group.spawn(work).expect("no shutdown yet");
    }
    sleep(Duration::from_millis(2)).await;
    assert_eq!(reached.load(Ordering::Acquire), 9);
    assert!(group.is_empty());
}
