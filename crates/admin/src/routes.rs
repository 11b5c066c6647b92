//! Table of all routes of the admin API.
//!
//! The router is built from it, and a test compares it with the OpenAPI document. So every route has a
//! description, and every description a route.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::StatusCode;

use super::problem::AdminProblem;
use super::{Admin, assets, health_control, permit_routes, queries, reload};

/// One method of one path.
pub(crate) struct RouteEntry {
    /// Method in the spelling of the document.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the comparison with the document"))]
    pub(crate) method: &'static str,
    /// Path with its parameters.
    pub(crate) path: &'static str,
    handler: MethodRouter<Arc<Admin>>,
}

impl RouteEntry {
    fn get<T: 'static>(path: &'static str, handler: impl Handler<T, Arc<Admin>>) -> Self {
        Self::new("get", MethodFilter::GET, path, handler)
    }

    fn post<T: 'static>(path: &'static str, handler: impl Handler<T, Arc<Admin>>) -> Self {
        Self::new("post", MethodFilter::POST, path, handler)
    }

    fn patch<T: 'static>(path: &'static str, handler: impl Handler<T, Arc<Admin>>) -> Self {
        Self::new("patch", MethodFilter::PATCH, path, handler)
    }

    fn delete<T: 'static>(path: &'static str, handler: impl Handler<T, Arc<Admin>>) -> Self {
        Self::new("delete", MethodFilter::DELETE, path, handler)
    }

    fn new<T: 'static>(
        method: &'static str,
        filter: MethodFilter,
        path: &'static str,
        handler: impl Handler<T, Arc<Admin>>,
    ) -> Self {
        Self {
            method,
            path,
            handler: on(filter, handler),
        }
    }
}

/// Returns all routes.
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
        RouteEntry::patch("/v1/apis/{api}/variables", reload::set_variable),
        RouteEntry::post("/v1/reload", reload::reload),
        RouteEntry::get("/v1/explain", queries::explain),
        RouteEntry::get("/v1/events", queries::events),
        RouteEntry::get("/v1/tasks", queries::background_tasks),
        RouteEntry::get("/v1/config", queries::config),
        RouteEntry::get("/v1/audit", queries::audit),
        RouteEntry::post("/v1/acquire", permit_routes::acquire),
        RouteEntry::post("/v1/settle", permit_routes::settle),
        RouteEntry::post("/v1/refund", permit_routes::refund),
        RouteEntry::post("/v1/check", permit_routes::check),
    ]
    .into_iter()
    .chain(job_routes())
    .collect()
}

/// Returns the routes of the bulk engine.
fn job_routes() -> Vec<RouteEntry> {
    use super::bulk::control::JobOperation::{Cancel, Pause, Resume};
    use super::bulk::control::{action_handler, tenant_handler};
    use super::bulk::{actions, dead_letters, jobs, summary, tenants};
    vec![
        RouteEntry::get("/v1/bulk", summary),
        RouteEntry::post("/v1/bulk/jobs", jobs::submit),
        RouteEntry::get("/v1/bulk/tenants", tenants::list),
        RouteEntry::get("/v1/bulk/tenants/{tenant}", tenants::one),
        RouteEntry::get("/v1/bulk/tenants/{tenant}/history", tenants::history),
        RouteEntry::post("/v1/bulk/tenants/{tenant}/pause", tenant_handler(Pause)),
        RouteEntry::post("/v1/bulk/tenants/{tenant}/resume", tenant_handler(Resume)),
        RouteEntry::post("/v1/bulk/tenants/{tenant}/cancel", tenant_handler(Cancel)),
        RouteEntry::post("/v1/bulk/tenants/{tenant}/release", tenants::release),
        RouteEntry::post("/v1/bulk/tenants/{tenant}/reset", tenants::reset),
        RouteEntry::get("/v1/bulk/actions", actions::list),
        RouteEntry::post("/v1/bulk/actions", actions::open),
        RouteEntry::get("/v1/bulk/actions/{action}", actions::one),
        RouteEntry::get("/v1/bulk/actions/{action}/results", actions::results),
        RouteEntry::post("/v1/bulk/actions/{action}/close", actions::close),
        RouteEntry::post("/v1/bulk/actions/{action}/pause", action_handler(Pause)),
        RouteEntry::post("/v1/bulk/actions/{action}/resume", action_handler(Resume)),
        RouteEntry::post("/v1/bulk/actions/{action}/cancel", action_handler(Cancel)),
        RouteEntry::get("/v1/bulk/dead", dead_letters::list),
        RouteEntry::post("/v1/bulk/dead/retry", dead_letters::retry),
        RouteEntry::post("/v1/bulk/dead/purge", dead_letters::purge),
    ]
}

/// Builds the router, without the guard.
pub(crate) fn router() -> Router<Arc<Admin>> {
    let routes = table().into_iter();
    routes
        .fold(Router::new(), |router, route| router.route(route.path, route.handler))
        .method_not_allowed_fallback(wrong_method)
        .fallback(not_found)
}

async fn not_found() -> AdminProblem {
    let detail = "there is no such path: GET /v1/openapi.json lists all paths";
    AdminProblem::new(StatusCode::NOT_FOUND, "not_found", detail)
}

/// Returns the problem; the router itself adds `Allow`.
async fn wrong_method() -> AdminProblem {
    let detail = "this path does not support this method: `Allow` lists the supported ones";
    AdminProblem::new(StatusCode::METHOD_NOT_ALLOWED, "method", detail)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    // The files of the page are not part of the API.
    #[test]
    fn the_document_and_the_router_list_equal_routes() {
        let document: Value = serde_json::from_str(assets::DOCUMENT).expect("JSON");
        let mut described = BTreeSet::new();
        for (path, item) in document["paths"].as_object().expect("paths") {
            let methods = item.as_object().expect("an item").keys();
            let methods = methods.filter(|name| *name != "parameters");
            described.extend(methods.map(|method| format!("{method} {path}")));
        }
        let routed = table().into_iter();
        let routed = routed.filter(|route| !["/", "/page.css", "/page.js"].contains(&route.path));
        let routed: BTreeSet<_> = routed.map(|route| format!("{} {}", route.method, route.path)).collect();
        assert_eq!(described, routed);
    }

    #[test]
    fn the_document_has_the_version_of_the_program() {
        let document: Value = serde_json::from_str(assets::DOCUMENT).expect("JSON");
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(document["openapi"], "3.1.0");
    }
}
