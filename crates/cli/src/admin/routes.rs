//! Every address of the admin API, in one table.
//!
//! The router is made from it and the API's document is compared with it, so that no route is without
//! a description and no description without a route.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::StatusCode;

use super::problem::Problem;
use super::{Admin, limiter, look, operate, page, reload};

/// One method of one address.
pub(super) struct Route {
    /// The method, as the document writes it.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "read by the comparison with the document")
    )]
    pub(super) method: &'static str,
    /// The address.
    pub(super) path: &'static str,
    answers: MethodRouter<Arc<Admin>>,
}

impl Route {
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
pub(super) fn table() -> Vec<Route> {
    vec![
        Route::get("/", page::html),
        Route::get("/page.css", page::css),
        Route::get("/page.js", page::js),
        Route::get("/healthz", look::alive),
        Route::get("/readyz", look::ready),
        Route::get("/metrics", look::metrics),
        Route::get("/v1/openapi.json", page::document),
        Route::get("/v1/snapshot", look::snapshot),
        Route::get("/v1/apis", look::apis),
        Route::get("/v1/apis/{api}", look::api),
        Route::get("/v1/apis/{api}/limits", look::limits),
        Route::post("/v1/apis/{api}/health", operate::force),
        Route::delete("/v1/apis/{api}/health", operate::release),
        Route::patch("/v1/apis/{api}/variables", reload::set),
        Route::post("/v1/reload", reload::reload),
        Route::get("/v1/explain", look::explain),
        Route::get("/v1/events", look::events),
        Route::get("/v1/tasks", look::work),
        Route::get("/v1/config", look::config),
        Route::get("/v1/audit", look::audit),
        Route::post("/v1/acquire", limiter::acquire),
        Route::post("/v1/settle", limiter::settle),
        Route::post("/v1/refund", limiter::refund),
        Route::post("/v1/check", limiter::check),
    ]
    .into_iter()
    .chain(of_jobs())
    .collect()
}

/// Those that are about jobs.
fn of_jobs() -> Vec<Route> {
    use super::bulk::operations::Operation::{Cancel, Pause, Resume};
    use super::bulk::operations::{of_actions, of_tenants};
    use super::bulk::{actions, dead, jobs, summary, tenants};
    vec![
        Route::get("/v1/bulk", summary),
        Route::post("/v1/bulk/jobs", jobs::submit),
        Route::get("/v1/bulk/tenants", tenants::list),
        Route::get("/v1/bulk/tenants/{tenant}", tenants::one),
        Route::get("/v1/bulk/tenants/{tenant}/history", tenants::history),
        Route::post("/v1/bulk/tenants/{tenant}/pause", of_tenants(Pause)),
        Route::post("/v1/bulk/tenants/{tenant}/resume", of_tenants(Resume)),
        Route::post("/v1/bulk/tenants/{tenant}/cancel", of_tenants(Cancel)),
        Route::post("/v1/bulk/tenants/{tenant}/release", tenants::release),
        Route::post("/v1/bulk/tenants/{tenant}/reset", tenants::reset),
        Route::get("/v1/bulk/actions", actions::list),
        Route::post("/v1/bulk/actions", actions::open),
        Route::get("/v1/bulk/actions/{action}", actions::one),
        Route::get("/v1/bulk/actions/{action}/results", actions::results),
        Route::post("/v1/bulk/actions/{action}/close", actions::close),
        Route::post("/v1/bulk/actions/{action}/pause", of_actions(Pause)),
        Route::post("/v1/bulk/actions/{action}/resume", of_actions(Resume)),
        Route::post("/v1/bulk/actions/{action}/cancel", of_actions(Cancel)),
        Route::get("/v1/bulk/dead", dead::list),
        Route::post("/v1/bulk/dead/retry", dead::retry),
        Route::post("/v1/bulk/dead/purge", dead::purge),
    ]
}

/// The router, without the guard.
pub(super) fn router() -> Router<Arc<Admin>> {
    let routes = table().into_iter();
    routes
        .fold(Router::new(), |router, route| {
            router.route(route.path, route.answers)
        })
        .method_not_allowed_fallback(wrong_method)
        .fallback(nowhere)
}

async fn nowhere() -> Problem {
    let detail = "there is nothing here: GET /v1/openapi.json lists all addresses";
    Problem::new(StatusCode::NOT_FOUND, "not_found", detail)
}

/// The router itself adds which methods are answered.
async fn wrong_method() -> Problem {
    let detail = "this address does not answer this method: `Allow` lists those that it does";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", detail)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    // The page's own files are no part of the API.
    #[test]
    fn the_document_and_the_routes_are_the_same_list() {
        let document: Value = serde_json::from_str(page::DOCUMENT).expect("JSON");
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
        let document: Value = serde_json::from_str(page::DOCUMENT).expect("JSON");
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(document["openapi"], "3.1.0");
    }
}
