//! The door alone, for programs that send by their own means: ask, send, say what became of it.

use std::sync::Arc;

use http::Method;
use outflow::{AcquireOptions, AttemptResult, Events, Rules, SystemClock, Upstream};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rules = Rules::with_limit("3/s".parse()?);
    let door = Upstream::new("mail", rules, Arc::new(SystemClock::new()), Events::new())?;

    for letter in 1..=5 {
        let ask = AcquireOptions::new(door.route(&Method::POST, "/send"));
        let mut permit = door.admit(ask).await?;
        let waited = permit.waited();
        permit.sending();
        let status = send_by_other_means(letter);
        let verdict = permit.settle(AttemptResult::status(status));
        println!(
            "letter {letter}: {status} after {waited:?}, {:?}",
            verdict.effect
        );
    }
    Ok(())
}

fn send_by_other_means(_letter: u32) -> u16 {
    202
}
