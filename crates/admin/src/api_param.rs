//! Name in the path of a request.

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use smol_str::SmolStr;

use super::problem::AdminProblem;

/// Name of an API, tenant or action from the path; it may be unknown.
#[derive(Debug)]
pub(crate) struct ApiParam(pub(crate) SmolStr);

impl<S: Send + Sync> FromRequestParts<S> for ApiParam {
    type Rejection = AdminProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AdminProblem> {
        let name = Path::<SmolStr>::from_request_parts(parts, state).await;
        let Path(name) = name.map_err(|error| AdminProblem::bad(error.body_text()))?;
        Ok(Self(name))
    }
}
