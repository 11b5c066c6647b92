//! One client for the whole process: set once, called from anywhere.
//!
//! Programs that pass a client around use [`Outflow`] instead; both can exist side by side.

use std::sync::OnceLock;

use http::Method;
use outflow_sync::Mutex;

use super::services::InitError;
use super::{Call, Outflow};
use crate::config::Config;

/// Builds the client of the process from a configuration or a list of APIs, as [`Outflow::init`] does.
///
/// ```no_run
/// use outflow::Config;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// outflow::init(Config::from_file("outflow.toml")?)?;
///
/// let film = outflow::get("tmdb", "/movie/603").send().await?; // in any module, in any task
/// println!("{}", film.status());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Returns [`InitError::AlreadyInitialized`] for every call after the first successful one, and the errors of
/// [`Outflow::init`].
pub fn init(config: impl Into<Config>) -> Result<Outflow, InitError> {
    // Held while the client starts, so that two threads never start two.
    let _starting = STARTING.lock();
    if GLOBAL.get().is_some() {
        return Err(InitError::AlreadyInitialized);
    }
    let client = Outflow::init(config)?;
    // The lock is held and there is no client, so this one is the first.
    let _first = GLOBAL.set(client.clone());
    Ok(client)
}

/// Returns the client of the process; `None` before [`init`].
pub fn global() -> Option<Outflow> {
    GLOBAL.get().cloned()
}

/// Starts a GET of a path with the client of the process. Before [`init`], sending it returns an error.
pub fn get(api: &str, path: &str) -> Call {
    request(Method::GET, api, path)
}

/// Starts a POST to a path with the client of the process. Before [`init`], sending it returns an error.
pub fn post(api: &str, path: &str) -> Call {
    request(Method::POST, api, path)
}

/// Starts a PUT to a path with the client of the process. Before [`init`], sending it returns an error.
pub fn put(api: &str, path: &str) -> Call {
    request(Method::PUT, api, path)
}

/// Starts a DELETE of a path with the client of the process. Before [`init`], sending it returns an error.
pub fn delete(api: &str, path: &str) -> Call {
    request(Method::DELETE, api, path)
}

/// Starts a call with any method and the client of the process. Before [`init`], sending it returns an error.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let error = outflow::request(http::Method::PATCH, "shop", "/orders/7").send().await.unwrap_err();
/// assert!(error.to_string().contains("outflow::init"));
/// # }
/// ```
pub fn request(method: Method, api: &str, path: &str) -> Call {
    Call::new(global(), method, api, path)
}

static GLOBAL: OnceLock<Outflow> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());
