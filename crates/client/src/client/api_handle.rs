//! One API of a client, looked up once.

use std::sync::Arc;

use http::Method;

use super::{ApiClient, Call, Outflow};
use crate::api::Api;
use crate::upstream::Upstream;

/// An API of a client, as it was configured when it was looked up.
///
/// ```no_run
/// # async fn example(client: outflow::Outflow) -> Result<(), outflow::Error> {
/// if let Some(api) = client.handle("shop") {
///     let response = api.request(http::Method::GET, "/orders/1").send().await?;
///     println!("{} of {}", response.status(), api.config().name);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ApiHandle {
    client: Outflow,
    found: Arc<ApiClient>,
}

impl ApiHandle {
    pub(super) const fn new(client: Outflow, found: Arc<ApiClient>) -> Self {
        Self { client, found }
    }

    /// Returns the configuration of the API.
    pub fn config(&self) -> &Api {
        &self.found.api
    }

    /// Returns the admission of the API.
    pub fn upstream(&self) -> &Upstream {
        &self.found.upstream
    }

    /// Starts a call to this path, without looking the API up again.
    pub fn request(&self, method: Method, path: &str) -> Call {
        let mut call = Call::new(Some(self.client.clone()), method, &self.found.api.name, path);
        call.found = Some(Arc::clone(&self.found));
        call
    }
}
