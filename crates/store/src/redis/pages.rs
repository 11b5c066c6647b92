//! Questions about what stands, and answers by the page.

use super::call::{Call, Caller};
use super::reply::Reply;
use crate::jobs::Answer;
use crate::name::Name;
use crate::tenant::Page;

/// A question, to which arguments may be added.
pub(super) fn ask<'a>(caller: &'a Caller, what: &str) -> Call<'a> {
    caller.call(&caller.scripts.tell).arg(what)
}

/// The reports of one page, by name.
pub(super) async fn page<T>(
    caller: &Caller,
    what: &str,
    page: &Page,
    read: Read<T>,
) -> Answer<Vec<T>> {
    let most = if page.most == 0 { PAGE } else { page.most };
    let call = ask(caller, what)
        .arg(page.after.as_ref().map_or("", Name::as_str))
        .arg(most.min(PAGE));
    reports(Reply::new(caller.run(call).await?)?, read)
}

/// All reports of an answer, without those of which only a name is left.
pub(super) fn reports<T>(mut reply: Reply, read: Read<T>) -> Answer<Vec<T>> {
    let mut reports = Vec::with_capacity(reply.len());
    while !reply.is_empty() {
        reports.extend(read(reply.list()?)?);
    }
    Ok(reports)
}

/// Reads a report, or nothing where only the name is left.
pub(super) type Read<T> = fn(Reply) -> Answer<Option<T>>;

/// An answer of a few hundred kilobytes.
pub(super) const PAGE: usize = 1_000;
