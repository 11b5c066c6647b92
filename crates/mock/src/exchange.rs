//! One request and its answer, from the head that comes out of the connection to the one that goes
//! into it.
//!
//! Once a head has been read, its request arrives, whatever becomes of the caller: a network
//! delivers what was sent even if the sender has lost patience. So the way there is waited for in a
//! task of its own.

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

use crate::api::Shared;
use crate::arrival::Received;
use crate::decision::{ArrivalDecision, Reply};
use crate::echo::Echo;
use crate::fault::{Fault, Plan, Then};
use crate::payload::Payload;
use crate::tasks::Spawner;

/// What all exchanges of one connection have in common.
pub(crate) struct Exchange {
    pub(crate) shared: Arc<Shared>,
    pub(crate) spawner: Spawner,
    pub(crate) connection: u64,
    pub(crate) takeover: mpsc::Sender<Plan>,
}

impl Exchange {
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Payload>, Infallible> {
        let (there, back) = self.shared.draw_ways();
        let (parts, body) = request.into_parts();
        let parts = Arc::new(parts);
        let ruling = self.arrival(&parts, there).await;
        let mut tally = Tally::new(self, &ruling);
        if ruling.waits_for_body() {
            tally.read(body).await;
        }
        let back = back + ruling.late;
        if !back.is_zero() {
            sleep(back).await;
        }
        match &ruling.reply {
            Reply::Say(answer) => {
                let response = ruling.response(answer, &parts, &tally.echo);
                let alone = parts.version != Version::HTTP_2;
                let on = alone.then_some(self.connection);
                self.shared
                    .answered(&ruling, response.status().as_u16(), on);
                Ok(response)
            }
            Reply::Break(fault) => self.break_off(fault, &parts).await,
        }
    }

    /// Waits until the request has made its way there, and what was decided then.
    async fn arrival(&self, parts: &Arc<Parts>, there: Duration) -> ArrivalDecision {
        let received = self.shared.clock.now();
        if there.is_zero() {
            return self.shared.arrive(parts, received, self.connection);
        }
        let (shared, parts) = (Arc::clone(&self.shared), Arc::clone(parts));
        let connection = self.connection;
        let arrival = self.spawner.run(async move {
            sleep(there).await;
            shared.arrive(&parts, received, connection)
        });
        // Without an answer the server has been dropped, and this task is about to be.
        match arrival.await {
            Some(ruling) => ruling,
            None => pending().await,
        }
    }

    /// Has the connection taken away; this future then ends with it.
    async fn break_off(
        &self,
        fault: &Fault,
        parts: &Parts,
    ) -> Result<Response<Payload>, Infallible> {
        let plan = match fault {
            Fault::Hang if parts.version == Version::HTTP_2 => pending().await,
            _ if parts.version == Version::HTTP_2 && !fault.is_raw() => Plan {
                bytes: Bytes::new(),
                then: Then::Reset,
            },
            _ => fault.plan(),
        };
        // A full channel means that the connection is being taken away already.
        drop(self.takeover.try_send(plan));
        pending().await
    }
}

impl ArrivalDecision {
    fn waits_for_body(&self) -> bool {
        match &self.reply {
            Reply::Say(_) => true,
            Reply::Break(fault) => fault.waits_for_body(),
        }
    }

    /// How many bytes of the body its answer depends on.
    fn reads(&self) -> usize {
        match &self.reply {
            Reply::Say(answer) => answer.reads(),
            Reply::Break(_) => 0,
        }
    }
}

/// Reads a body and writes down how much of it came, even if nobody waits for its end.
struct Tally<'a> {
    shared: &'a Shared,
    number: u64,
    echo: Echo,
    received: Received,
}

impl<'a> Tally<'a> {
    fn new(exchange: &'a Exchange, ruling: &ArrivalDecision) -> Self {
        Self {
            shared: &exchange.shared,
            number: ruling.number,
            echo: Echo::keeping(ruling.reads()),
            received: Received::Cut(0),
        }
    }

    async fn read(&mut self, mut body: Incoming) {
        while !body.is_end_stream() {
            match body.frame().await {
                Some(Ok(frame)) => {
                    self.echo.take(frame.data_ref().unwrap_or(&Bytes::new()));
                    self.received = Received::Cut(self.echo.length());
                }
                Some(Err(_)) => return,
                None => break,
            }
        }
        self.received = Received::Whole(self.echo.length());
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.recorder.received(self.number, self.received);
    }
}
