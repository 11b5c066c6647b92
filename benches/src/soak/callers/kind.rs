//! The kinds of calls, how often each is made, and which answers are good ones.

use bytes::Bytes;
use fastrand::Rng;
use http::{Method, Request};
use http_body_util::Full;

use super::Got;
use crate::soak::phases::Weather;
use crate::soak::program::GROUPS;

/// One kind of call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A page that the cache may keep for some seconds, some of them much more often than others.
    Page,
    /// One of endlessly many, each of which the cache may keep.
    Item,
    /// In one of many groups.
    Group,
    /// A body that must not be sent twice, or may by its key.
    Order,
    /// An answer that comes byte by byte.
    Stream,
    /// Little time.
    Hasty,
    /// On a connection that is closed behind it.
    Fresh,
    /// Of an API that is not there.
    Dead,
    /// In a group that there is not, of another name each time.
    NoGroup,
    /// Of an API that nobody configured, of another name each time.
    NoApi,
    /// Leaves in the middle of its call.
    HangUp,
    /// Connects, and asks for nothing.
    Knock,
}

impl Kind {
    /// Any of them, as often as they are.
    pub(super) fn drawn(rng: &mut Rng) -> Self {
        let mut left = rng.u32(..100);
        let found = OFTEN.iter().find(|(percent, _)| {
            let here = left < *percent;
            left = left.saturating_sub(*percent);
            here
        });
        found.map_or(Self::Page, |(_, kind)| *kind)
    }

    /// The request.
    pub(super) fn request(
        self,
        place: &str,
        number: u64,
        rng: &mut Rng,
    ) -> Result<Request<Full<Bytes>>, http::Error> {
        let path = match self {
            Self::Page => format!("/up/pages/{}", rng.u64(..1_000) * rng.u64(..1_000) / 1_000),
            Self::Item => format!("/up/items/{number}?of={}", rng.u64(..)),
            Self::Group => format!("/up/groups/{}/{number}", rng.u32(..GROUPS)),
            Self::Order => "/up/orders".to_owned(),
            Self::Stream | Self::HangUp => "/up/stream".to_owned(),
            Self::Hasty | Self::Fresh | Self::NoGroup | Self::Knock => "/up/plain".to_owned(),
            Self::Dead => "/dead/plain".to_owned(),
            Self::NoApi => format!("/nobody-{number}/plain"),
        };
        let request = Request::builder().uri(format!("{place}{path}"));
        let around_the_cache = |request: http::request::Builder| {
            request
                .header("outflow-cache", "bypass")
                .body(Full::default())
        };
        match self {
            Self::Page | Self::Item | Self::Group | Self::NoApi => request.body(Full::default()),
            Self::Order => {
                let body = Bytes::from(vec![b'o'; rng.usize(1..16_384)]);
                let request = request.method(Method::POST);
                let request = match number % 2 {
                    0 => request.header("idempotency-key", number.to_string()),
                    _ => request,
                };
                request.body(Full::new(body))
            }
            Self::Hasty => {
                let deadline = format!("{}ms", rng.u32(1..12));
                around_the_cache(request.header("outflow-deadline", deadline))
            }
            Self::Fresh => around_the_cache(request.header("connection", "close")),
            Self::NoGroup => {
                around_the_cache(request.header("outflow-group", format!("nobody-{number}")))
            }
            Self::Stream | Self::Dead | Self::HangUp | Self::Knock => around_the_cache(request),
        }
    }

    /// Whether the program must count it as a call of the API that is there.
    pub(super) fn is_governed(self) -> bool {
        !matches!(self, Self::Dead | Self::NoGroup | Self::NoApi | Self::Knock)
    }

    /// Whether it cannot succeed, and says nothing of anybody.
    pub(super) fn is_mistaken(self) -> bool {
        matches!(self, Self::Dead | Self::NoGroup | Self::NoApi)
    }

    /// Whether this is a good answer; while the API misbehaves, what tells of that is one too.
    pub(super) fn expects(self, got: &Got, weather: Weather) -> bool {
        let excused = weather == Weather::Foul;
        match (self, got) {
            (Self::Dead, Got::Whole(status, _)) => [502, 503].contains(status),
            (Self::NoGroup, Got::Whole(status, _)) => *status == 400,
            (Self::NoApi, Got::Whole(status, _)) => *status == 404,
            (_, Got::Whole(200, _))
            | (Self::Hasty, Got::Whole(429 | 503 | 504, _) | Got::Part(200)) => true,
            (_, Got::Whole(status, _)) => excused && [429, 500, 502, 503, 504].contains(status),
            (_, Got::Part(200)) => excused,
            (_, Got::Part(_) | Got::Nothing(_)) => false,
        }
    }
}

/// In a hundred.
const OFTEN: [(u32, Kind); 12] = [
    (30, Kind::Page),
    (12, Kind::Item),
    (14, Kind::Group),
    (14, Kind::Order),
    (8, Kind::Stream),
    (6, Kind::Hasty),
    (4, Kind::Fresh),
    (3, Kind::Dead),
    (1, Kind::NoGroup),
    (1, Kind::NoApi),
    (6, Kind::HangUp),
    (1, Kind::Knock),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_a_hundred() {
        let sum: u32 = OFTEN.iter().map(|(percent, _)| percent).sum();
        assert_eq!(sum, 100);
    }

    // A 500 in fair weather is nobody's fault but the program's.
    #[test]
    fn a_failure_wants_an_excuse() {
        let failed = Got::Whole(500, String::new());
        assert!(Kind::Page.expects(&failed, Weather::Foul));
        assert!(!Kind::Page.expects(&failed, Weather::Fair));
        assert!(!Kind::Page.expects(&Got::Nothing("reset".to_owned()), Weather::Foul));
        assert!(!Kind::Dead.expects(&Got::Whole(200, String::new()), Weather::Foul));
        assert!(Kind::NoApi.expects(&Got::Whole(404, String::new()), Weather::Fair));
    }
}
