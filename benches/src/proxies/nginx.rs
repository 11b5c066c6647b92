//! nginx, with its leaky bucket in the limited mode.

use std::io;
use std::net::SocketAddr;
use std::process::Command;

use super::process::Proxy;
use super::{Job, free_port};

pub(super) fn start(upstream: SocketAddr, job: Job) -> io::Result<Proxy> {
    let port = free_port()?;
    let (rate, burst) = match job {
        Job::Pass => ("1000000r/s", "nodelay"),
        Job::Spare => ("50r/s", ""),
    };
    // Without a master there is one process, which is the one worker.
    let text = format!(
        "daemon off;\nmaster_process off;\npid HOME/pid;\nerror_log HOME/error.log;\n\
         events {{ worker_connections 8192; }}\n\
         http {{\n\
         access_log HOME/access.log;\n\
         client_body_temp_path HOME/body;\nproxy_temp_path HOME/proxy;\n\
         fastcgi_temp_path HOME/fastcgi;\nuwsgi_temp_path HOME/uwsgi;\nscgi_temp_path HOME/scgi;\n\
         keepalive_requests 100000000;\n\
         limit_req_zone $server_port zone=all:1m rate={rate};\nlimit_req_status 429;\n\
         upstream up {{ server {upstream}; keepalive 256; keepalive_requests 100000000; }}\n\
         server {{\nlisten 127.0.0.1:{port} backlog=8192;\n\
         location / {{\nlimit_req zone=all burst=2000 {burst};\n\
         proxy_pass http://up;\nproxy_http_version 1.1;\nproxy_set_header Connection \"\";\n\
         }} }} }}\n"
    );
    Proxy::start(port, ("nginx.conf", &text), |file| {
        let mut command = Command::new("nginx");
        command.arg("-c").arg(file);
        command
    })
}
