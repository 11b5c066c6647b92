//! Every address of the admin API, in one table.
//!
//! The router is made from it and the API's document is compared with it, so that no route is without
//! a description and no description without a route.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::StatusCode;

use super::problem::AdminProblem;
use super::{Admin, assets, health_control, permit_routes, queries, reload};

/// One method of one address.
pub(crate) struct RouteEntry {
    /// The method, as the document writes it.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "read by the comparison with the document")
    )]
    pub(crate) method: &'static str,
    /// The address.
    pub(crate) path: &'static str,
    answers: MethodRouter<Arc<Admin>>,
}

impl RouteEntry {
    fn get<H: Handler<T, Arc<Admin>>, T: 'static>(path: &'static str, handler: H) -> Self {
        Self::new(("get", MethodFilter::GET), path, handler)
    }

    fn post<H: Handler<T, Arc<Admin>>, T: 'static>(path: &'static str, handler: H) -> Self {
        Self::new(("post", MethodFilter::POST), path, handler)
    }

    fn patch<H: Handler<T, Arc<Admin>>, T: 'static>(path: &'static str, handler: H) -> Self {
        Self::new(("patch", MethodFilter::PATCH), path, handler)
    }

    fn delete<H: Handler<T, Arc<Admin>>, T: 'static>(path: &'static str, handler: H) -> Self {
        Self::new(("delete", MethodFilter::DELETE), path, handler)
    }

    fn new<H: Handler<T, Arc<Admin>>, T: 'static>(
        (method, filter): (&'static str, MethodFilter),
        path: &'static str,
        handler: H,
    ) -> Self {
        Self {
            method,
            path,
            answers: on(filter, handler),
        }
    }
}

/// All of them.
pub(crate) fn table() -> Vec<RouteEntry> {
    vec![
        RouteEntry::get("/", assets::html),
        RouteEntry::get("/page.css", assets::css),
        RouteEntry::get("/page.js", assets::js),
        RouteEntry::get("/healthz", queries::alive),
        RouteEntry::get("/readyz", queries::ready),
        RouteEntry::get("/metrics", queries::metrics),
        RouteEntry::get("/v1/openapi.json", assets::document),
        RouteEntry::get("/v1/snapshot", queries::snapshot),
        RouteEntry::get("/v1/apis", queries::apis),
        RouteEntry::get("/v1/apis/{api}", queries::api),
        RouteEntry::get("/v1/apis/{api}/limits", queries::limits),
        RouteEntry::post("/v1/apis/{api}/health", health_control::force),
        RouteEntry::delete("/v1/apis/{api}/health", health_control::release),
        RouteEntry::patch("/v1/apis/{api}/variables", reload::set),
        RouteEntry::post("/v1/reload", reload::reload),
        RouteEntry::get("/v1/explain", queries::explain),
        RouteEntry::get("/v1/events", queries::events),
        RouteEntry::get("/v1/tasks", queries::work),
        RouteEntry::get("/v1/config", queries::config),
        RouteEntry::get("/v1/audit", queries::audit),
        RouteEntry::post("/v1/acquire", permit_routes::acquire),
        RouteEntry::post("/v1/settle", permit_routes::settle),
        RouteEntry::post("/v1/refund", permit_routes::refund),
        RouteEntry::post("/v1/check", permit_routes::check),
    ]
    .into_iter()
    .chain(of_jobs())
    .collect()
}

/// Those that are about jobs.
fn of_jobs() -> Vec<RouteEntry> {
    use super::bulk::control::JobOperation::{Cancel, Pause, Resume};
    use super::bulk::control::{of_actions, of_tenants};
    use super::bulk::{actions, dead_letters, jobs, summary, tenants};
    vec![
        RouteEntry::get("/v1/bulk", summary),
        RouteEntry::post("/v1/bulk/jobs", jobs::submit),
        RouteEntry::get("/v1/bulk/tenants", tenants::list),
        RouteEntry::get("/v1/bulk/tenants/{tenant}", tenants::one),
        RouteEntry::get("/v1/bulk/tenants/{tenant}/history", tenants::history),
        RouteEntry::post("/v1/bulk/tenants/{tenant}/pause", of_tenants(Pause)),
        RouteEntry::post("/v1/bulk/tenants/{tenant}/resume", of_tenants(Resume)),
        RouteEntry::post("/v1/bulk/tenants/{tenant}/cancel", of_tenants(Cancel)),
        RouteEntry::post("/v1/bulk/tenants/{tenant}/release", tenants::release),
        RouteEntry::post("/v1/bulk/tenants/{tenant}/reset", tenants::reset),
        RouteEntry::get("/v1/bulk/actions", actions::list),
        RouteEntry::post("/v1/bulk/actions", actions::open),
        RouteEntry::get("/v1/bulk/actions/{action}", actions::one),
        RouteEntry::get("/v1/bulk/actions/{action}/results", actions::results),
        RouteEntry::post("/v1/bulk/actions/{action}/close", actions::close),
        RouteEntry::post("/v1/bulk/actions/{action}/pause", of_actions(Pause)),
        RouteEntry::post("/v1/bulk/actions/{action}/resume", of_actions(Resume)),
        RouteEntry::post("/v1/bulk/actions/{action}/cancel", of_actions(Cancel)),
        RouteEntry::get("/v1/bulk/dead", dead_letters::list),
        RouteEntry::post("/v1/bulk/dead/retry", dead_letters::retry),
        RouteEntry::post("/v1/bulk/dead/purge", dead_letters::purge),
    ]
}

/// The router, without the guard.
pub(crate) fn router() -> Router<Arc<Admin>> {
    let routes = table().into_iter();
    routes
        .fold(Router::new(), |router, route| {
            router.route(route.path, route.answers)
        })
        .method_not_allowed_fallback(wrong_method)
        .fallback(nowhere)
}

async fn nowhere() -> AdminProblem {
    let detail = "there is nothing here: GET /v1/openapi.json lists all addresses";
    AdminProblem::new(StatusCode::NOT_FOUND, "not_found", detail)
}

/// The router itself adds which methods are answered.
async fn wrong_method() -> AdminProblem {
    let detail = "this address does not answer this method: `Allow` lists those that it does";
    AdminProblem::new(StatusCode::METHOD_NOT_ALLOWED, "method", detail)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    // The page's own files are no part of the API.
    #[test]
    fn the_document_and_the_routes_are_the_same_list() {
        let document: Value = serde_json::from_str(assets::DOCUMENT).expect("JSON");
        let mut described = BTreeSet::new();
        for (path, item) in document["paths"].as_object().expect("paths") {
            let methods = item.as_object().expect("an item").keys();
            let methods = methods.filter(|name| *name != "parameters");
            described.extend(methods.map(|method| format!("{method} {path}")));
        }
        let routed = table().into_iter();
        let routed = routed.filter(|route| !["/", "/page.css", "/page.js"].contains(&route.path));
        let routed: BTreeSet<_> = routed
            .map(|route| format!("{} {}", route.method, route.path))
            .collect();
        assert_eq!(described, routed);
    }

    #[test]
    fn the_document_is_of_this_version() {
        let document: Value = serde_json::from_str(assets::DOCUMENT).expect("JSON");
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(document["openapi"], "3.1.0");
    }
}
