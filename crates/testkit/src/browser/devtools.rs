//! The browser's own protocol: numbered requests and responses, with events in between.
//!
//! Events that arrive while a response is awaited are stored, because their order is not known.

#![expect(clippy::indexing_slicing, reason = "what a JSON object does not hold is null")]

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::deadline::Deadline;

/// Request that got a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenRequest {
    /// Its method.
    pub method: String,
    /// Its URL.
    pub url: String,
    /// Status of the response, visible to the page or not.
    pub status: u64,
}

/// The two pipes and the messages received so far.
pub(super) struct DevToolsPipe {
    to: ChildStdin,
    incoming: Receiver<Value>,
    /// Session that gets everything from now on.
    pub(super) session: Value,
    last: u64,
    answers: HashMap<u64, Value>,
    events: Vec<String>,
    sent: HashMap<String, (String, String)>,
    early: HashMap<String, u64>,
    pub(super) seen_requests: Vec<SeenRequest>,
    pub(super) complaints: Vec<String>,
}

impl DevToolsPipe {
    pub(super) fn new(to: ChildStdin, from: ChildStdout) -> io::Result<Self> {
        Ok(Self {
            to,
            incoming: listen(from)?,
            session: Value::Null,
            last: 0,
            answers: HashMap::new(),
            events: Vec::new(),
            sent: HashMap::new(),
            early: HashMap::new(),
            seen_requests: Vec::new(),
            complaints: Vec::new(),
        })
    }

    /// Sends a request and waits for the response.
    pub(super) fn call(&mut self, method: &str, parameters: &Value, within: Duration) -> io::Result<Value> {
        self.last += 1;
        let number = self.last;
        // Earlier events are not its consequence.
        self.events.clear();
        let mut message = json!({ "id": number, "method": method, "params": parameters });
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(END);
        self.to.write_all(&bytes)?;
        self.read_until(|pipe| pipe.answers.contains_key(&number), within)?;
        let mut answer = self.answers.remove(&number).unwrap_or_default();
        if let Some(error) = answer.get("error") {
            return Err(io::Error::other(format!("{method}: {error}")));
        }
        let result = answer.pointer_mut("/result");
        Ok(result.map(Value::take).unwrap_or_default())
    }

    /// Waits for an event, or finds that it came since the last request.
    pub(super) fn wait_for(&mut self, event: &str, within: Duration) -> io::Result<()> {
        let came = |pipe: &Self| pipe.events.iter().any(|known| known == event);
        self.read_until(came, within)
    }

    /// Reads until the condition is true.
    pub(super) fn read_until(&mut self, enough: impl Fn(&Self) -> bool, within: Duration) -> io::Result<()> {
        let deadline = Deadline::within(within);
        while !enough(self) {
            let message = self.incoming.recv_timeout(deadline.remaining());
            let message = message.map_err(|error| io::Error::other(format!("the browser: {error}")))?;
            self.on_message(message);
        }
        // Events received meanwhile may be complaints.
        while let Ok(message) = self.incoming.try_recv() {
            self.on_message(message);
        }
        Ok(())
    }

    fn on_message(&mut self, message: Value) {
        if let Some(number) = message["id"].as_u64() {
            self.answers.insert(number, message);
            return;
        }
        let facts = &message["params"];
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let event = word(&message["method"]);
        match event.as_str() {
            "Network.requestWillBeSent" => {
                let request = &facts["request"];
                let sent = (word(&request["method"]), word(&request["url"]));
                self.note(word(&facts["requestId"]), sent);
            }
            // It reports responses that the page may not see, too.
            "Network.responseReceivedExtraInfo" => {
                let status = facts["statusCode"].as_u64().unwrap_or_default();
                self.answered(word(&facts["requestId"]), status);
            }
            _ => self.complaints.extend(complaint(&event, facts)),
        }
        self.events.push(event);
    }

    fn note(&mut self, number: String, sent: (String, String)) {
        if let Some(status) = self.early.remove(&number) {
            self.meet(sent, status);
        } else {
            self.sent.insert(number, sent);
        }
    }

    /// Page and network are separate processes: a response may be reported before its request.
    fn answered(&mut self, number: String, status: u64) {
        match self.sent.get(&number) {
            Some(sent) => self.meet(sent.clone(), status),
            None => drop(self.early.insert(number, status)),
        }
    }

    fn meet(&mut self, (method, url): (String, String), status: u64) {
        self.seen_requests.push(SeenRequest { method, url, status });
    }
}

/// Returns the problem that this event reports, if any.
fn complaint(event: &str, facts: &Value) -> Option<String> {
    let detail = match event {
        "Runtime.exceptionThrown" => &facts["exceptionDetails"],
        "Runtime.consoleAPICalled" if is_bad(&facts["type"]) => &facts["args"],
        "Log.entryAdded" if is_bad(&facts["entry"]["level"]) => &facts["entry"],
        "Audits.issueAdded" if facts["issue"]["code"] == POLICY => &facts["issue"],
        "Page.javascriptDialogOpening" => facts,
        _ => return None,
    };
    Some(format!("{event}: {detail}"))
}

fn is_bad(level: &Value) -> bool {
    ["error", "warning", "assert"].iter().any(|bad| level == bad)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a pipe has no deadline for its reader; the thread ends with the pipe"
)]
fn listen(from: ChildStdout) -> io::Result<Receiver<Value>> {
    let (send, incoming) = channel();
    let read = move || {
        for bytes in BufReader::new(from).split(END).map_while(Result::ok) {
            // The receiver is gone once the browser was dropped.
            let _unheard = serde_json::from_slice(&bytes).map(|message| send.send(message));
        }
    };
    thread::Builder::new().name("browser".to_owned()).spawn(read)?;
    Ok(incoming)
}

/// The issue type for breaches of the page's policy.
const POLICY: &str = "ContentSecurityPolicyIssue";

/// Terminator of each message.
const END: u8 = 0;
