//! Memory of this process, and a process that runs a single test.

/// Returns this process's resident memory. Pages are 4 KiB on every supported platform.
pub(crate) fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(1).expect("the second number");
    pages.parse::<u64>().expect("a number") * 4_096
}

/// Returns this process's peak memory so far.
pub(crate) fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.expect("a peak").trim().trim_end_matches(" kB");
    kibibytes.parse::<u64>().expect("a number") * 1_024
}

/// Returns true if this process runs the test alone, as memory measurements need. Otherwise runs
/// it so, asserts its success and returns false.
/// The name includes the module path, as the test runner prints it.
pub(crate) fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let this = std::env::current_exe().expect("a test is a program");
    let arguments = ["--exact", test, "--include-ignored", "--nocapture"];
    let mut alone = std::process::Command::new(this);
    let ended = alone.args(arguments).env(ALONE, "yes").status();
    assert!(ended.expect("it was started").success(), "{test}");
    false
}

pub(crate) const MIB: u64 = 1024 * 1024;

const ALONE: &str = "OUTFLOW_TEST_ALONE";
