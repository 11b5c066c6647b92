//! `LiteLLM`, with retries of throttled calls in the limited mode.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::SocketAddr;
use std::process::Command;

use super::process::Proxy;
use super::{Job, free_port, installed};

pub(super) fn start(upstream: SocketAddr, job: Job) -> io::Result<Proxy> {
    let port = free_port()?;
    let retries = match job {
        Job::Pass => 0,
        Job::Spare => 100,
    };
    // With a single upstream a cooldown would be an outage, so it is off.
    let text = format!(
        "model_list:
- model_name: m
  litellm_params: {{ model: openai/m, api_base: 'http://{upstream}/v1', api_key: none }}
litellm_settings: {{ telemetry: false, request_timeout: 180 }}
router_settings: {{ num_retries: {retries}, disable_cooldowns: true, timeout: 180 }}
"
    );
    let key = key();
    let proxy = Proxy::start(port, ("litellm.yaml", &text), |file| {
        let mut command = Command::new(installed("peers-litellm/bin/litellm"));
        // Otherwise it downloads a price list before it serves.
        command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
        // Without log lines for successful calls, where ours writes one for each.
        command.env("LITELLM_LOG", "ERROR");
        command.env("LITELLM_MASTER_KEY", &key);
        command.args(["--host", "127.0.0.1", "--num_workers", "1", "--port"]);
        command.arg(port.to_string()).arg("--config").arg(file);
        command
    })?;
    Ok(proxy.with_header("authorization", format!("Bearer {key}")))
}

/// Returns a temporary key, which it requires.
fn key() -> String {
    let part = || RandomState::new().hash_one(0_u8);
    format!("sk-{:016x}{:016x}", part(), part())
}
