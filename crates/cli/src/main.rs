//! The binary `outflow`; everything it does is in the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    outflow_cli::main()
}
