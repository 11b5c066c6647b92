//! One request and its response, from the received head to the sent one.
//!
//! Once a head has been read, its request arrives even if the caller cancels: a network delivers
//! sent bytes although the sender gave up. So a separate task waits for the delay.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, Version};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::api::{MockShared, ReceivedRequest};
use crate::arrival::Received;
use crate::chat;
use crate::decision::{ArrivalDecision, Reply};
use crate::echo::Echo;
use crate::fault::{Fault, FaultPlan, Then};
use crate::payload::Payload;
use crate::tasks::Spawner;

/// State shared by all exchanges of one connection.
pub(crate) struct Exchange {
    pub(crate) shared: Arc<MockShared>,
    pub(crate) spawner: Spawner,
    pub(crate) connection: u64,
    pub(crate) takeover: mpsc::Sender<FaultPlan>,
}

impl Exchange {
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Result<Response<Payload>, Infallible> {
        let (there, back) = self.shared.draw_delays();
        let (parts, body) = request.into_parts();
        let parts = Arc::new(parts);
        let mut reader = BodyReader::new(&self.shared, body);
        let received = self.receive(&parts, &mut reader).await;
        let decision = self.arrival(received, there).await;
        reader.number = Some(decision.number);
        if decision.waits_for_body() {
            reader.read(decision.reads()).await;
        }
        let back = back + decision.late;
        if !back.is_zero() {
            sleep(back).await;
        }
        match &decision.reply {
            Reply::Respond(answer) => {
                let response = decision.response(answer, &parts, &reader.echo);
                let alone = parts.version != Version::HTTP_2;
                let on = alone.then_some(self.connection);
                self.shared.answered(&decision, response.status().as_u16(), on);
                Ok(response)
            }
            Reply::Break(fault) => self.break_off(fault, &parts).await,
        }
    }

    /// Stamps a request, and counts its tokens if the server does.
    async fn receive(&self, parts: &Arc<Parts>, reader: &mut BodyReader<'_>) -> ReceivedRequest {
        let at = self.shared.clock.now();
        let mut tokens = None;
        if let Some(count) = self.shared.config.token_count {
            reader.read(chat::MAX_REQUEST).await;
            tokens = chat::count_tokens(&reader.echo.kept, count);
        }
        ReceivedRequest {
            parts: Arc::clone(parts),
            at,
            tokens,
        }
    }

    /// Waits for the delay to the server and returns the decision.
    async fn arrival(&self, received: ReceivedRequest, there: Duration) -> ArrivalDecision {
        if there.is_zero() {
            return self.shared.arrive(&received, self.connection);
        }
        let shared = Arc::clone(&self.shared);
        let connection = self.connection;
        let arrival = self.spawner.run(async move {
            sleep(there).await;
            shared.arrive(&received, connection)
        });
        // Without a result the server has been dropped, and this task is about to be.
        match arrival.await {
            Some(decision) => decision,
            None => pending().await,
        }
    }

    /// Takes the connection over; this future then ends with it.
    async fn break_off(&self, fault: &Fault, parts: &Parts) -> Result<Response<Payload>, Infallible> {
        let plan = match fault {
            Fault::Hang if parts.version == Version::HTTP_2 => pending().await,
            _ if parts.version == Version::HTTP_2 && !fault.is_raw() => FaultPlan {
                bytes: Bytes::new(),
                then: Then::Reset,
            },
            _ => fault.plan(),
        };
        // A full channel means that the connection is being taken over already.
        drop(self.takeover.try_send(plan));
        pending().await
    }
}

impl ArrivalDecision {
    fn waits_for_body(&self) -> bool {
        match &self.reply {
            Reply::Respond(_) => true,
            Reply::Break(fault) => fault.waits_for_body(),
        }
    }

    /// Returns the number of body bytes that the response depends on.
    fn reads(&self) -> usize {
        match &self.reply {
            Reply::Respond(answer) => answer.reads(),
            Reply::Break(_) => 0,
        }
    }
}

/// Reads a body and records its received length, even if the future is dropped early.
struct BodyReader<'a> {
    shared: &'a MockShared,
    /// Number of the request, once it arrived.
    number: Option<u64>,
    unread: Option<Incoming>,
    echo: Echo,
    received: Received,
}

impl<'a> BodyReader<'a> {
    fn new(shared: &'a MockShared, body: Incoming) -> Self {
        Self {
            shared,
            number: None,
            unread: Some(body),
            echo: Echo::keeping(0),
            received: Received::Cut(0),
        }
    }

    /// Reads the body once and stores its first bytes.
    async fn read(&mut self, keeps: usize) {
        let Some(mut body) = self.unread.take() else {
            return;
        };
        self.echo = Echo::keeping(keeps);
        while !body.is_end_stream() {
            match body.frame().await {
                Some(Ok(frame)) => {
                    self.echo.take(frame.data_ref().unwrap_or(&Bytes::new()));
                    self.received = Received::Cut(self.echo.length);
                }
                Some(Err(_)) => return,
                None => break,
            }
        }
        self.received = Received::Whole(self.echo.length);
    }
}

impl Drop for BodyReader<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut state = self.shared.lock();
            state.recorder.received(number, self.received);
        }
    }
}
