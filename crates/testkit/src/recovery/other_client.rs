//! Another client with the same key, which uses half of the limit in the second half of each minute.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::sleep_until;

use super::bed::RecoveryBed;
use super::plan::RecoveryPlan;
use crate::{Background, VirtualNet};

/// Starts it.
pub(super) fn start(bed: &RecoveryBed, plan: &RecoveryPlan) -> Background<()> {
    let gap = Duration::from_secs_f64(2.0 / plan.speed());
    let (net, origin) = (bed.net.clone(), bed.origin);
    Background::start(async move {
        let mut calls = Vec::new();
        let mut at = HALF_MINUTE;
        loop {
            sleep_until(origin + at).await;
            calls.retain(|call: &Background<()>| !call.is_over());
            calls.push(Background::start(call(net.clone())));
            at += gap;
            if !is_active(at) {
                at += HALF_MINUTE;
            }
        }
    })
}

/// Returns true in the second half of a minute.
pub(super) fn is_active(at: Duration) -> bool {
    at.as_secs() % 60 >= 30
}

/// A bare request: this client obeys nothing.
async fn call(net: VirtualNet) {
    let Ok(mut stream) = net.connect().await else {
        return;
    };
    if stream.write_all(REQUEST).await.is_err() {
        return;
    }
    let mut answer = Vec::new();
    // Its result does not matter, only that it has arrived.
    let _ = stream.read_to_end(&mut answer).await;
}

const REQUEST: &[u8] = b"GET /other HTTP/1.1\r\nhost: strict.test\r\nconnection: close\r\n\r\n";

const HALF_MINUTE: Duration = Duration::from_secs(30);
