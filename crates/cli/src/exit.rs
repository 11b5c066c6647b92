//! How the program ends, as scripts see it.

use std::process::ExitCode;

/// The exit codes. They are documented and do not change.
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
    /// The answer's status was of the 400s, and the caller asked to be told so.
    RefusedByServer = 4,
    /// The answer's status was of the 500s, and the caller asked to be told so.
    ServerFailed = 5,
    /// A limit or a state of the API stood in the way: worth another try later.
    Blocked = 75,
    /// A goal that the caller set was missed.
    Missed = 99,
    /// Somebody pressed Ctrl-C.
    Interrupted = 130,
}

impl Exit {
    /// The number.
    #[expect(
        clippy::as_conversions,
        reason = "the codes are the discriminants, and fit"
    )]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
