//! What an action has left: the places where it put jobs, and how many wait there.

use super::call::Caller;
use super::pages::ask;
use super::record::wall;
use super::reply::Reply;
use crate::action::{Left, LeftAt};
use crate::jobs::Answer;
use crate::name::Name;

pub(super) async fn left(caller: &Caller, action: &Name) -> Answer<Left> {
    let call = ask(caller, "left").arg(action.as_str());
    let mut reply = Reply::new(caller.run(call).await?)?;
    let (queued, latest) = (reply.number()?, reply.number()?);
    let mut places = Vec::with_capacity(reply.len());
    while !reply.is_empty() {
        let mut place = reply.list()?;
        let (lane, tenant) = (place.name()?, place.name()?);
        let (jobs, cost) = (place.number()?, place.number()?);
        places.push(LeftAt {
            lane,
            tenant,
            jobs,
            units: jobs.saturating_mul(cost),
        });
    }
    let left = Left {
        places,
        latest: (latest > 0).then(|| wall(latest)),
    };
    Ok(left.of_all(queued))
}
