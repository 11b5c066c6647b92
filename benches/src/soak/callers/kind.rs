//! The kinds of calls, their frequencies, and their expected responses.

use bytes::Bytes;
use fastrand::Rng;
use http::{Method, Request};
use http_body_util::Full;

use super::Got;
use crate::soak::phases::ApiCondition;
use crate::soak::program::GROUPS;

/// One kind of call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A page that the cache may store for some seconds; some pages are much more frequent than others.
    Page,
    /// One of countless pages, each of which the cache may store.
    Item,
    /// In one of many groups.
    Group,
    /// A body that must not be sent twice, or may by its key.
    Order,
    /// A response that arrives byte by byte.
    Stream,
    /// A short timeout.
    Hasty,
    /// On a connection that is closed after it.
    Fresh,
    /// To an API that does not listen.
    Dead,
    /// In an unknown group, with another name each time.
    NoGroup,
    /// To an unconfigured API, with another name each time.
    NoApi,
    /// A disconnect in the middle of a call.
    HangUp,
    /// Connects, and sends no request.
    Knock,
}

impl Kind {
    /// Picks a kind by frequency.
    pub(super) fn pick(rng: &mut Rng) -> Self {
        let mut left = rng.u32(..100);
        let found = OFTEN.iter().find(|(percent, _)| {
            let here = left < *percent;
            left = left.saturating_sub(*percent);
            here
        });
        found.map_or(Self::Page, |(_, kind)| *kind)
    }

    /// Returns the request.
    pub(super) fn request(self, place: &str, number: u64, rng: &mut Rng) -> Result<Request<Full<Bytes>>, http::Error> {
        let path = match self {
            Self::Page => format!("/up/pages/{}", rng.u64(..1_000) * rng.u64(..1_000) / 1_000),
            Self::Item => format!("/up/items/{number}?of={}", rng.u64(..)),
            Self::Group => format!("/up/groups/{}/{number}", rng.u32(..GROUPS)),
            Self::Order => "/up/orders".to_owned(),
            Self::Stream | Self::HangUp => "/up/stream".to_owned(),
            Self::Hasty | Self::Fresh | Self::NoGroup | Self::Knock => "/up/plain".to_owned(),
            Self::Dead => "/dead/plain".to_owned(),
            Self::NoApi => format!("/unknown-{number}/plain"),
        };
        let request = Request::builder().uri(format!("{place}{path}"));
        let around_the_cache =
            |request: http::request::Builder| request.header("outflow-cache", "bypass").body(Full::default());
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
            Self::NoGroup => around_the_cache(request.header("outflow-group", format!("unknown-{number}"))),
            Self::Stream | Self::Dead | Self::HangUp | Self::Knock => around_the_cache(request),
        }
    }

    /// Returns true if the program must count it as a call of the API.
    pub(super) fn is_governed(self) -> bool {
        !matches!(self, Self::Dead | Self::NoGroup | Self::NoApi | Self::Knock)
    }

    /// Returns true if it cannot succeed, which is no fault of the API or the program.
    pub(super) fn cannot_succeed(self) -> bool {
        matches!(self, Self::Dead | Self::NoGroup | Self::NoApi)
    }

    /// Returns true for an expected response; while the API misbehaves, responses that report this count too.
    pub(super) fn expects(self, got: &Got, condition: ApiCondition) -> bool {
        let excused = condition == ApiCondition::Foul;
        match (self, got) {
            // The default limit of an API is lower than the rate of these calls.
            (Self::Dead, Got::Whole(status, _)) => [429, 502, 503].contains(status),
            (Self::NoGroup, Got::Whole(status, _)) => *status == 400,
            (Self::NoApi, Got::Whole(status, _)) => *status == 404,
            (_, Got::Whole(200, _)) | (Self::Hasty, Got::Whole(429 | 503 | 504, _) | Got::Part(200)) => true,
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
    fn the_shares_add_up_to_a_hundred() {
        let sum: u32 = OFTEN.iter().map(|(percent, _)| percent).sum();
        assert_eq!(sum, 100);
    }

    // A 500 without a fault of the API is a fault of the program.
    #[test]
    fn a_failure_is_expected_only_during_a_fault() {
        let failed = Got::Whole(500, String::new());
        assert!(Kind::Page.expects(&failed, ApiCondition::Foul));
        assert!(!Kind::Page.expects(&failed, ApiCondition::Fair));
        assert!(!Kind::Page.expects(&Got::Nothing("reset".to_owned()), ApiCondition::Foul));
        assert!(!Kind::Dead.expects(&Got::Whole(200, String::new()), ApiCondition::Foul));
        assert!(Kind::NoApi.expects(&Got::Whole(404, String::new()), ApiCondition::Fair));
    }
}
