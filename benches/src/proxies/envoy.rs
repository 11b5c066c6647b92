//! Envoy, with retries of throttled calls in the limited mode.

use std::io;
use std::net::SocketAddr;
use std::process::Command;

use super::process::Proxy;
use super::{Job, free_port, installed};

pub(super) fn start(upstream: SocketAddr, job: Job) -> io::Result<Proxy> {
    let port = free_port()?;
    let retries = match job {
        Job::Pass => "",
        Job::Spare => {
            "\n                  retry_policy: { retry_on: retriable-status-codes, \
             retriable_status_codes: [429], num_retries: 1000, \
             retry_back_off: { base_interval: 0.1s, max_interval: 1s } }"
        }
    };
    let (host, up) = (upstream.ip(), upstream.port());
    let text = format!(
        "static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          route_config:
            virtual_hosts:
            - name: all
              domains: [\"*\"]
              routes:
              - match: {{ prefix: \"/\" }}
                route:
                  cluster: up
                  timeout: 180s{retries}
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: up
    type: STATIC
    circuit_breakers:
      thresholds: [{{ max_connections: 4096, max_pending_requests: 4096, max_requests: 4096, max_retries: 4096 }}]
    load_assignment:
      cluster_name: up
      endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {{ socket_address: {{ address: {host}, port_value: {up} }} }} }} }}] }}]
"
    );
    Proxy::start(port, ("envoy.yaml", &text), |file| {
        let mut command = Command::new(installed("peers/bin/envoy"));
        command
            .args([
                "--concurrency",
                "1",
                "--disable-hot-restart",
                "--log-level",
                "off",
                "-c",
            ])
            .arg(file);
        command
    })
}
