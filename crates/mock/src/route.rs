//! A named set of paths, and the cost of a request to them.

use std::sync::Arc;

use http::Method;
use outflow_core::Cost;

use crate::pattern::Pattern;

/// Named set of paths and methods with a cost.
///
/// ```
/// use http::Method;
/// use outflow_core::Cost;
/// use outflow_mock::Route;
///
/// let orders = Route::new("orders", "/v1/orders/**").method(Method::POST).costing(Cost::new(5));
/// # let _ = orders;
/// ```
#[derive(Clone, Debug)]
pub struct Route {
    pub(crate) name: Arc<str>,
    pattern: Pattern,
    methods: Vec<Method>,
    pub(crate) cost: Cost,
}

impl Route {
    /// Builds a route for all methods on these paths, at a cost of 1.
    pub fn new(name: &str, paths: impl Into<Pattern>) -> Self {
        Self {
            name: name.into(),
            pattern: paths.into(),
            methods: Vec::new(),
            cost: Cost::ONE,
        }
    }

    /// Restricts the route to this method, or adds it.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.methods.push(method);
        self
    }

    /// Sets the cost of a request.
    #[must_use]
    pub fn costing(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    pub(crate) fn matches(&self, method: &Method, path: &str) -> bool {
        (self.methods.is_empty() || self.methods.contains(method)) && self.pattern.matches(path)
    }
}

/// Route of requests without another one.
pub const DEFAULT_ROUTE: &str = "default";
