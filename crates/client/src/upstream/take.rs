//! Calls that count at once and need no permit.

use super::{AcquireOptions, Permit, Target, Upstream};
use crate::refusal::Refusal;

impl Upstream {
    /// Takes one call from the limits and waits as the rules allow. The call counts at once and needs no
    /// permit: use it where only the limits matter, and [`acquire`](Self::acquire) where the results of
    /// calls are known.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use outflow::core::Cost;
    /// use outflow::{AcquireOptions, Events, Rules, SystemClock, Upstream};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let rules = Rules::with_limit("10/s".parse()?);
    /// let upstream = Upstream::new("api", rules, Arc::new(SystemClock::new()), Events::new())?;
    /// let target = upstream.group("default").ok_or("no such group")?;
    /// let order = upstream.endpoint(target, "order").with_cost(Cost::new(5));
    /// let within = AcquireOptions::new().with_max_wait(Duration::from_secs(30));
    /// if upstream.take(order, within).await.is_ok() {
    ///     // ... send it; there is nothing to settle ...
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the call cannot start in time; the refusal has the reason and, if known, the wait.
    pub async fn take(&self, target: Target, options: AcquireOptions) -> Result<(), Refusal> {
        self.acquire_with(target, options).await.map(Permit::count)
    }

    /// Takes one call from the limits without waiting. It counts at once and needs no permit.
    ///
    /// # Errors
    /// If the call cannot start now; the refusal has the reason and, if known, the wait.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use outflow::{Events, Rules, SystemClock, Upstream};
    ///
    /// let rules = Rules::with_limit("2/s".parse()?);
    /// let upstream = Upstream::new("api", rules, Arc::new(SystemClock::new()), Events::new())?;
    /// let target = upstream.route(&http::Method::GET, "/");
    /// assert!(upstream.try_take(target).is_ok() && upstream.try_take(target).is_ok());
    /// assert!(upstream.try_take(target).is_err(), "the limit is used up");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_take(&self, target: Target) -> Result<(), Refusal> {
        self.try_acquire(target).map(Permit::count)
    }
}
