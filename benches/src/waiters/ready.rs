//! `ready`: an asynchronous acquire with an available permit.
//!
//! Ours acquires and holds its permit; the cost of settling is in `upstream`. governor is measured with a
//! check, and with its asynchronous wait.

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::Limit;
use super::contenders::Ours;
use super::wait_limit::WaitLimit as _;
use crate::contenders::governor;
use crate::figure::{Figure, Goal};
use crate::measure::{Contender, Plan, contest};

pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    let line = Ours::new(Limit::new(QUANTITY, WINDOW));
    let take = || {
        let context = &mut Context::from_waker(Waker::noop());
        match pin!(line.wait()).poll(context) {
            Poll::Ready(permit) => permit.ok(),
            Poll::Pending => None,
        }
    };
    let quota = governor::quota(QUANTITY, WINDOW);
    let (checked, awaited) = (governor::on_os_clock(quota), governor::on_os_clock(quota));
    let until_ready = || {
        let context = &mut Context::from_waker(Waker::noop());
        pin!(awaited.until_ready()).poll(context).is_ready()
    };
    let series = contest(
        plan,
        vec![
            Contender::half("ours", take, |permit| {
                let _had_leave = Ours::settle(Ok(permit));
            }),
            Contender::alone("governor check, OS clock", || checked.check().is_ok()),
            Contender::alone("governor until_ready, OS clock", until_ready),
        ],
    );
    let goals = [Goal::Ratio(1.2), Goal::Shown];
    let Some((ours, peers)) = series.split_first() else {
        return Vec::new();
    };
    let rows = peers.iter().zip(goals);
    rows.map(|(peer, goal)| Figure::against("ready", goal, ours, peer))
        .collect()
}

/// More than a machine sends.
const QUANTITY: u32 = 100;
const WINDOW: Duration = Duration::from_micros(1);
