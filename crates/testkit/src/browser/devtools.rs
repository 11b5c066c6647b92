//! The browser's own protocol: questions with numbers, answers with the same, events in between.
//!
//! Whatever is heard while an answer is waited for is kept, because nobody knows beforehand which
//! event comes first.

#![expect(
    clippy::indexing_slicing,
    reason = "what a JSON object does not hold is null"
)]

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::deadline::Deadline;

/// A request that was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Met {
    /// How it was sent.
    pub method: String,
    /// Where to.
    pub url: String,
    /// The status of the answer, whether the page was allowed to see it or not.
    pub status: u64,
}

/// The two pipes and what was heard so far.
pub(super) struct Wire {
    to: ChildStdin,
    incoming: Receiver<Value>,
    session: Value,
    last: u64,
    answers: HashMap<u64, Value>,
    events: Vec<String>,
    sent: HashMap<String, (String, String)>,
    early: HashMap<String, u64>,
    met: Vec<Met>,
    complaints: Vec<String>,
}

impl Wire {
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
            met: Vec::new(),
            complaints: Vec::new(),
        })
    }

    /// From now on everything is for this session.
    pub(super) fn speak_with(&mut self, session: &Value) {
        self.session = session.clone();
    }

    pub(super) fn met(&self) -> &[Met] {
        &self.met
    }

    pub(super) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Asks for something and waits for the answer.
    pub(super) fn call(
        &mut self,
        method: &str,
        parameters: &Value,
        within: Duration,
    ) -> io::Result<Value> {
        self.last += 1;
        let number = self.last;
        // Events of before the question are not its consequence.
        self.events.clear();
        let mut message = json!({ "id": number, "method": method, "params": parameters });
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(END);
        self.to.write_all(&bytes)?;
        self.read_until(|wire| wire.answers.contains_key(&number), within)?;
        let mut answer = self.answers.remove(&number).unwrap_or_default();
        if let Some(error) = answer.get("error") {
            return Err(io::Error::other(format!("{method}: {error}")));
        }
        let result = answer.pointer_mut("/result");
        Ok(result.map(Value::take).unwrap_or_default())
    }

    /// Waits for an event, or finds that it came since the last question.
    pub(super) fn wait_for(&mut self, event: &str, within: Duration) -> io::Result<()> {
        let came = |wire: &Self| wire.events.iter().any(|known| known == event);
        self.read_until(came, within)
    }

    /// Listens until this is true.
    pub(super) fn read_until(
        &mut self,
        enough: impl Fn(&Self) -> bool,
        within: Duration,
    ) -> io::Result<()> {
        let deadline = Deadline::within(within);
        while !enough(self) {
            let message = self.incoming.recv_timeout(deadline.remaining());
            let message =
                message.map_err(|error| io::Error::other(format!("the browser: {error}")))?;
            self.on_message(message);
        }
        // What came meanwhile may be a complaint.
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
            // It tells of answers that the page may not see, too.
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

    /// Page and network are processes of their own: an answer may be told before its request.
    fn answered(&mut self, number: String, status: u64) {
        match self.sent.get(&number) {
            Some(sent) => self.meet(sent.clone(), status),
            None => drop(self.early.insert(number, status)),
        }
    }

    fn meet(&mut self, (method, url): (String, String), status: u64) {
        self.met.push(Met {
            method,
            url,
            status,
        });
    }
}

/// What is wrong, if this event tells of something.
fn complaint(event: &str, facts: &Value) -> Option<String> {
    let told = match event {
        "Runtime.exceptionThrown" => &facts["exceptionDetails"],
        "Runtime.consoleAPICalled" if is_bad(&facts["type"]) => &facts["args"],
        "Log.entryAdded" if is_bad(&facts["entry"]["level"]) => &facts["entry"],
        "Audits.issueAdded" if facts["issue"]["code"] == POLICY => &facts["issue"],
        "Page.javascriptDialogOpening" => facts,
        _ => return None,
    };
    Some(format!("{event}: {told}"))
}

fn is_bad(level: &Value) -> bool {
    ["error", "warning", "assert"]
        .iter()
        .any(|bad| level == bad)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a pipe has no deadline for its reader; the thread ends with the pipe"
)]
fn listen(from: ChildStdout) -> io::Result<Receiver<Value>> {
    let (send, incoming) = channel();
    let read = move || {
        for bytes in BufReader::new(from).split(END).map_while(Result::ok) {
            // Nobody listens any more once the browser was dropped.
            let _unheard = serde_json::from_slice(&bytes).map(|message| send.send(message));
        }
    };
    thread::Builder::new()
        .name("browser".to_owned())
        .spawn(read)?;
    Ok(incoming)
}

/// Of all that a browser has to say about a page, the breaches of its policy.
const POLICY: &str = "ContentSecurityPolicyIssue";

/// What stands behind each message.
const END: u8 = 0;
