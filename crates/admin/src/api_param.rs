//! The API that an address names.

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use smol_str::SmolStr;

use super::problem::AdminProblem;

/// A name out of an address, whether or not there is such an API.
#[derive(Debug)]
pub(crate) struct ApiParam(pub(crate) SmolStr);

impl<S: Send + Sync> FromRequestParts<S> for ApiParam {
    type Rejection = AdminProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AdminProblem> {
        let name = Path::<SmolStr>::from_request_parts(parts, state).await;
        let Path(name) = name.map_err(|why| AdminProblem::bad(why.body_text()))?;
        Ok(Self(name))
    }
}
