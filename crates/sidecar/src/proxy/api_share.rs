//! Share of one API in connections and memory.
//!
//! A call that waits holds memory, and over HTTP/1 a connection. Without a bound, the callers that wait for one
//! API fill all places, and the calls of every other API are rejected. A fixed part per API would waste places.
//! So an API may begin a call while its calls are fewer than three times the free places. One API alone gets
//! three quarters of all places, two get three sevenths each, and some are always free.

use std::collections::HashMap;
use std::sync::Arc;

use outflow_sync::Mutex;
use smol_str::SmolStr;

/// Calls in progress by API.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApiShares {
    calls: Arc<Mutex<HashMap<SmolStr, u32>>>,
}

/// Call in progress; dropping it ends the call.
#[derive(Debug)]
pub(crate) struct ApiCall {
    shares: ApiShares,
    api: SmolStr,
}

impl ApiShares {
    /// Begins a call of this API, unless its calls leave too few of the free places to others.
    pub(crate) fn begin(&self, api: &str, free_places: u32) -> Option<ApiCall> {
        let mut calls = self.calls.lock();
        let max = free_places.saturating_mul(PER_FREE_PLACE).max(MIN_CALLS);
        let api = match calls.get_key_value(api) {
            Some((name, _)) => name.clone(),
            None => SmolStr::new(api),
        };
        let count = calls.entry(api.clone()).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        drop(calls);
        Some(ApiCall {
            shares: self.clone(),
            api,
        })
    }
}

impl Drop for ApiCall {
    fn drop(&mut self) {
        if let Some(count) = self.shares.calls.lock().get_mut(&self.api) {
            *count = count.saturating_sub(1);
        }
    }
}

/// Calls of one API for each free place.
const PER_FREE_PLACE: u32 = 3;

/// Calls that every API may have: otherwise idle connections could keep it from any call.
const MIN_CALLS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    // 400 places: callers of one API hold a place each and take 300, those of a second one the rest but 25.
    #[test]
    fn waiting_callers_of_one_api_leave_places_to_others() {
        let shares = ApiShares::default();
        let mut calls = Vec::new();
        let fill = |api: &str, calls: &mut Vec<ApiCall>| {
            let before = calls.len();
            while let Some(call) = shares.begin(api, 400 - u32::try_from(calls.len()).expect("few")) {
                calls.push(call);
            }
            calls.len() - before
        };
        assert_eq!(fill("one", &mut calls), 300);
        assert_eq!(fill("two", &mut calls), 75);
        calls.truncate(10);
        assert!(shares.begin("one", 390).is_some());
    }
}
