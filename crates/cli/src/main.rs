//! The binary `outflow`; everything it does is in the library of this crate.

use std::process::ExitCode;

/// Returns the memory of a wave of calls to the system; the system's own allocator keeps most of it.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    outflow_cli::main()
}
