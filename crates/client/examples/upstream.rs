//! An upstream without the HTTP client, for programs with their own: acquire, send, settle.

use std::sync::Arc;

use http::Method;
use outflow::{AttemptResult, Events, Rules, SystemClock, Upstream};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rules = Rules::with_limit("3/s".parse()?);
    let mail = Upstream::new("mail", rules, Arc::new(SystemClock::new()), Events::new())?;

    for letter in 1..=5 {
        let target = mail.route(&Method::POST, "/send");
        let mut permit = mail.acquire(target).await?;
        let waited = permit.waited();
        permit.sending();
        let status = send_letter(letter);
        let verdict = permit.settle(AttemptResult::status(status));
        println!("letter {letter}: {status} after {waited:?}, {:?}", verdict.effect);
    }
    Ok(())
}

fn send_letter(_letter: u32) -> u16 {
    202
}
