//! Exit codes of the program.

use std::process::ExitCode;

/// Exit code. The numbers are documented and do not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The command failed.
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// Some of many jobs failed.
    SomeFailed = 3,
    /// The response has a 4xx status, with `--check-status`.
    RefusedByServer = 4,
    /// The response has a 5xx status, with `--check-status`.
    ServerFailed = 5,
    /// A limit or the health state of the API blocked the call: retry later.
    Blocked = 75,
    /// The run missed a goal of the caller.
    Missed = 99,
    /// The user pressed Ctrl-C.
    Interrupted = 130,
}

impl Exit {
    /// Returns the number.
    #[expect(clippy::as_conversions, reason = "the codes are the discriminants, and fit")]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
