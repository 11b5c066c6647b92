//! A real browser that shows one page and reports the results.
//!
//! Only a browser decides if a script runs, a policy holds or a request of another page is sent. It
//! is driven over a pair of pipes in its own protocol, one JSON object after the other with a NUL
//! between them. So there is no port that a page could find, no library, and the browser ends when
//! the pipe closes. It reaches this machine only.

#![expect(clippy::indexing_slicing, reason = "what a JSON object does not hold is null")]

mod devtools;

use std::io;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use self::devtools::DevToolsPipe;
pub use self::devtools::SeenRequest;
use crate::process::Process;

/// Browser with one page, killed when this is dropped.
///
/// ```no_run
/// use outflow_testkit::Browser;
///
/// # fn main() -> std::io::Result<()> {
/// let mut browser = Browser::start(&["evil.example"])?;
/// browser.visit("http://127.0.0.1:7071/")?;
/// browser.until("document.title === 'Outflow'")?;
/// assert!(browser.complaints().is_empty());
/// # Ok(())
/// # }
/// ```
pub struct Browser {
    pipe: DevToolsPipe,
    // The process must end before its folder is removed.
    _process: Process,
    _profile: TempDir,
}

impl Browser {
    /// Starts it. These names resolve to this machine; all others do not resolve.
    ///
    /// # Errors
    /// If it is not installed or does not respond in time.
    pub fn start(names: &[&str]) -> io::Result<Self> {
        let profile = tempfile::tempdir()?;
        let mut command = Command::new("sh");
        command
            .args(["-c", PIPES, "sh", PROGRAM])
            .args(FLAGS)
            .arg(format!("--host-resolver-rules={}", rules(names)))
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank");
        let (process, to, from) = Process::start_talking(command)?;
        let mut browser = Self {
            pipe: DevToolsPipe::new(to, from)?,
            _process: process,
            _profile: profile,
        };
        browser.attach()?;
        Ok(browser)
    }

    /// Opens a page and waits until it is loaded or has failed.
    ///
    /// # Errors
    /// If that takes too long.
    pub fn visit(&mut self, url: &str) -> io::Result<()> {
        let went = self.pipe.call("Page.navigate", &json!({ "url": url }), TIMEOUT)?;
        if went.get("errorText").is_none() {
            self.pipe.wait_for("Page.loadEventFired", TIMEOUT)?;
        }
        Ok(())
    }

    /// Runs a script in the page, like the page's own, and returns its result; a promise is
    /// awaited.
    ///
    /// # Errors
    /// If it throws or takes too long.
    pub fn run(&mut self, script: &str) -> io::Result<Value> {
        let asked = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let mut ran = self.pipe.call("Runtime.evaluate", &asked, TIMEOUT)?;
        if let Some(thrown) = ran.get("exceptionDetails") {
            return Err(io::Error::other(format!("{script} threw {thrown}")));
        }
        let value = ran.pointer_mut("/result/value");
        Ok(value.map(Value::take).unwrap_or_default())
    }

    /// Waits until the condition is true in the page. Every change of the page triggers a check.
    ///
    /// # Errors
    /// If it throws or does not become true in time; the message holds the page's text.
    pub fn until(&mut self, condition: &str) -> io::Result<()> {
        let script = WATCHER.replace("CONDITION", condition);
        match self.run(&script) {
            Ok(_) => Ok(()),
            Err(error) => {
                let shown = self.run("document.body.innerText").unwrap_or_default();
                let message = format!("{condition} is not so: {error}; the page shows {shown}");
                Err(io::Error::other(message))
            }
        }
    }

    /// Returns every request that got a response so far, from any frame.
    pub fn seen_requests(&self) -> &[SeenRequest] {
        &self.pipe.seen_requests
    }

    /// Waits until the condition is true of the requests that got a response.
    ///
    /// # Errors
    /// If it does not become true in time.
    pub fn until_seen(&mut self, enough: impl Fn(&[SeenRequest]) -> bool) -> io::Result<()> {
        self.pipe.read_until(|pipe| enough(&pipe.seen_requests), TIMEOUT)
    }

    /// Returns the page's problems: exceptions, errors and warnings in its console, and breaches of
    /// its policy.
    pub fn complaints(&self) -> &[String] {
        &self.pipe.complaints
    }

    fn attach(&mut self) -> io::Result<()> {
        let found = self.pipe.call("Target.getTargets", &json!({}), TIMEOUT)?;
        let targets = found["targetInfos"].as_array().into_iter().flatten();
        let page = targets.into_iter().find(|target| target["type"] == "page");
        let page = page.ok_or_else(|| io::Error::other("the browser has no page"))?;
        let wanted = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = self.pipe.call("Target.attachToTarget", &wanted, TIMEOUT)?;
        self.pipe.session = attached["sessionId"].clone();
        for domain in ["Page", "Runtime", "Log", "Network", "Audits"] {
            let enable = format!("{domain}.enable");
            self.pipe.call(&enable, &json!({}), TIMEOUT)?;
        }
        Ok(())
    }
}

/// The first rule that fits decides.
fn rules(names: &[&str]) -> String {
    let ours = names.iter().map(|name| format!("MAP {name} 127.0.0.1, "));
    ours.collect::<String>() + "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
}

const PROGRAM: &str = "chromium";

/// Its pipes are the third and fourth file; ours are the first two.
const PIPES: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >&2"#;

/// Root may run it, it makes no requests by itself, and frames of all sites share one connection.
const FLAGS: [&str; 14] = [
    "--headless",
    "--no-sandbox",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-breakpad",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--disable-site-isolation-trials",
    "--no-first-run",
    "--no-proxy-server",
];

/// Far longer than a browser takes to start on a machine that is busy with other tests.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Checks at every change, and once more at the end of its own timeout.
const WATCHER: &str = "new Promise((done, late) => {
    const look = () => { if (CONDITION) { watcher.disconnect(); clearTimeout(end); done(); } };
    const watcher = new MutationObserver(look);
    const end = setTimeout(() => late(new Error('not in time')), 30000);
    watcher.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
    look();
})";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_given_names_resolve() {
        assert_eq!(
            rules(&["evil.example"]),
            "MAP evil.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
        );
    }

    // A script that throws on purpose, a warning on purpose, and a known result.
    #[test]
    fn chromium_runs_scripts_and_reports_errors() {
        let mut browser = Browser::start(&[]).expect("it starts");
        browser
            .visit("data:text/html,<!doctype html><title>one</title>")
            .expect("loaded");
        browser.until("document.title === 'one'").expect("titled");
        let sum = browser.run("Promise.resolve(6 * 7)").expect("a sum");
        assert_eq!(sum, 42);
        assert!(browser.run("undefined_function()").is_err());
        assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
        browser.run("console.error('oh'), 1").expect("it says so");
        assert_eq!(browser.complaints().len(), 1);
    }
}
