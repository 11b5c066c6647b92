//! Pingora as a proxy, as small as its library allows.
//!
//! `peer-pingora LISTEN UPSTREAM` forwards every call over pooled connections, with one worker thread and a
//! limit that is counted and never reached. It writes no log, where ours writes one.

use std::num::NonZeroU32;

use async_trait::async_trait;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use pingora_core::server::Server;
use pingora_core::server::configuration::ServerConf;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};

fn main() {
    let mut words = std::env::args().skip(1);
    let (Some(listen), Some(upstream)) = (words.next(), words.next()) else {
        eprintln!("usage: peer-pingora LISTEN UPSTREAM");
        return;
    };
    let conf = ServerConf {
        threads: 1,
        ..ServerConf::default()
    };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let passing = PlainProxy {
        limit: RateLimiter::direct(Quota::per_second(OUT_OF_REACH)),
        upstream,
    };
    let mut service = http_proxy_service(&server.configuration, passing);
    service.add_tcp(&listen);
    server.add_service(service);
    server.run_forever();
}

/// A limit, and the target of the calls.
struct PlainProxy {
    limit: DefaultDirectRateLimiter,
    upstream: String,
}

#[async_trait]
impl ProxyHttp for PlainProxy {
    type CTX = ();

    fn new_ctx(&self) -> Self::CTX {}

    async fn request_filter(&self, session: &mut Session, _context: &mut Self::CTX) -> pingora_core::Result<bool> {
        if self.limit.check().is_ok() {
            return Ok(false);
        }
        session.respond_error(429).await?;
        Ok(true)
    }

    async fn upstream_peer(
        &self,
        _session: &mut Session,
        _context: &mut Self::CTX,
    ) -> pingora_core::Result<Box<HttpPeer>> {
        let peer = HttpPeer::new(self.upstream.as_str(), false, String::new());
        Ok(Box::new(peer))
    }
}

/// Counted and never reached, as the limits of all proxies here.
const OUT_OF_REACH: NonZeroU32 = NonZeroU32::new(1_000_000).expect("it is not zero");
