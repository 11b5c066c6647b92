//! The API that an address names.

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use smol_str::SmolStr;

use super::problem::Problem;

/// A name out of an address, whether or not there is such an API.
#[derive(Debug)]
pub(super) struct Named(pub(super) SmolStr);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let name = Path::<SmolStr>::from_request_parts(parts, state).await;
        let Path(name) = name.map_err(|why| Problem::bad(why.body_text()))?;
        Ok(Self(name))
    }
}
