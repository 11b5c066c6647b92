//! The binary `outflow`; everything it does is in the library of this crate.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    outflow_cli::main()
}
