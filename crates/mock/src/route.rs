//! Requests that are counted alike: a name for a set of paths, and what one of them costs.

use std::sync::Arc;

use http::Method;
use outflow_core::Cost;

use crate::pattern::Pattern;

/// A named set of paths and methods with a cost.
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
    /// All methods on these paths, at a cost of 1.
    pub fn new(name: &str, paths: impl Into<Pattern>) -> Self {
        Self {
            name: name.into(),
            pattern: paths.into(),
            methods: Vec::new(),
            cost: Cost::ONE,
        }
    }

    /// Only this method, or this one too.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.methods.push(method);
        self
    }

    /// What one such request costs.
    #[must_use]
    pub fn costing(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    pub(crate) fn means(&self, method: &Method, path: &str) -> bool {
        (self.methods.is_empty() || self.methods.contains(method)) && self.pattern.matches(path)
    }
}

/// The route of what no other takes.
pub const DEFAULT_ROUTE: &str = "default";
