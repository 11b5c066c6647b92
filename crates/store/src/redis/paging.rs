//! Queries and paged replies.

use super::reply::ScriptReply;
use super::script_call::{ScriptCall, ScriptRunner};
use crate::contract::StoreResult;
use crate::name::Name;
use crate::tenant::PageRequest;

/// Starts a query call, to which arguments may be added.
pub(super) fn query_call<'a>(runner: &'a ScriptRunner, what: &str) -> ScriptCall<'a> {
    runner.call(&runner.scripts.query).arg(what)
}

/// Returns the reports of one page, by name.
pub(super) async fn page<T>(
    runner: &ScriptRunner,
    what: &str,
    page: &PageRequest,
    read: Read<T>,
) -> StoreResult<Vec<T>> {
    let limit = if page.max == 0 { PAGE } else { page.max };
    let call = query_call(runner, what)
        .arg(page.after.as_ref().map_or("", Name::as_str))
        .arg(limit.min(PAGE));
    reports(runner.read(call).await?, read)
}

/// Reads all reports of a reply, without those of which only a name is left.
pub(super) fn reports<T>(reply: ScriptReply, read: Read<T>) -> StoreResult<Vec<T>> {
    let reports = reply.read_all(|reply| read(reply.list()?))?;
    Ok(reports.into_iter().flatten().collect())
}

/// Reader of one report; `None` if only the name is left.
pub(super) type Read<T> = fn(ScriptReply) -> StoreResult<Option<T>>;

/// A reply of a few hundred kilobytes.
pub(super) const PAGE: usize = 1_000;
