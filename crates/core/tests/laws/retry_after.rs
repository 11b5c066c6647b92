//! `Retry-After` as servers really send it: every known form, right and wrong, with the server's
//! clock a day ahead and a day behind.

use std::time::Duration;

use outflow_core::{HttpDate, InvalidWaitBounds, MalformedRetryAfter, ResponseTime, RetryAfter, WaitBounds, WallTime};
use proptest::prelude::*;

/// Tue, 14 Nov 2023 22:13:20 GMT: our own clock in every row.
const NOW: u64 = 1_700_000_000;
const DAY: u64 = 86_400;

/// Expected result of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    Millis(u64),
    Floored,
    Capped,
    Ignored(MalformedRetryAfter),
}

use Is::{Capped, Floored, Ignored, Millis};
const NEITHER: Is = Ignored(MalformedRetryAfter::NeitherSecondsNorDate);

/// Name, value and result. Dates are relative to a server whose clock shows `NOW`.
const ROWS: [(&str, &[u8], Is); 77] = [
    ("zero", b"0", Floored),
    ("two seconds", b"2", Millis(2_000)),
    ("blanks around", b" 3 ", Millis(3_000)),
    ("tabs around", b"\t3\t", Millis(3_000)),
    ("plus sign", b"+5", NEITHER),
    ("negative", b"-5", Floored),
    ("negative fraction", b"-0.5", Floored),
    ("minus alone", b"-", NEITHER),
    ("fraction", b"1.5", Millis(1_500)),
    ("fraction below the floor", b"0.999999999", Floored),
    ("exactly the floor", b"1", Millis(1_000)),
    ("just over the floor", b"1.001", Millis(1_001)),
    ("fraction without whole", b".5", NEITHER),
    ("point without fraction", b"5.", NEITHER),
    ("exponent", b"1e3", NEITHER),
    ("hexadecimal", b"0x10", NEITHER),
    ("unit", b"120s", NEITHER),
    ("empty", b"", Ignored(MalformedRetryAfter::Empty)),
    ("blank", b"  ", Ignored(MalformedRetryAfter::Empty)),
    ("leading zeros", b"000000120", Millis(120_000)),
    ("list of equals", b"120, 120", Millis(120_000)),
    ("list of differents", b"5,120 , 7", Millis(120_000)),
    ("list with an end", b"120,", Millis(120_000)),
    ("list with holes", b", ,5,, 7 ,", Millis(7_000)),
    ("list with garbage", b"soon, 7", NEITHER),
    ("list with garbage at the end", b"7, soon", NEITHER),
    ("list of fractions", b"1.5,1.25", Millis(1_500)),
    ("thousands", b"1,000", NEITHER),
    ("millions", b"1,000,000", NEITHER),
    ("thousands and a fraction", b"3,600.5", NEITHER),
    ("too long for thousands", b"1000,200", Millis(1_000_000)),
    ("a number twice", b"120,120", Millis(120_000)),
    (
        "date, then seconds",
        b"Tue, 14 Nov 2023 22:13:50 GMT, 5",
        Millis(30_000),
    ),
    (
        "seconds, then date",
        b"45,Tuesday, 14-Nov-23 22:13:50 GMT",
        Millis(45_000),
    ),
    (
        "two dates",
        b"Tue, 14 Nov 2023 22:13:50 GMT, Tue, 14 Nov 2023 23:13:20 GMT",
        Millis(3_600_000),
    ),
    (
        "dates of two forms",
        b"Tue Nov 14 22:15:20 2023, Tue, 14 Nov 2023 22:13:50 GMT",
        Millis(120_000),
    ),
    ("date and half a date", b"Tue, 14 Nov 2023 22:13:50 GMT, Tue", NEITHER),
    (
        "date in a list that does not exist",
        b"5, Thu, 31 Nov 2023 22:15:20 GMT",
        NEITHER,
    ),
    ("three parts of no date", b"Wed, 21, Oct", NEITHER),
    ("list of garbage", b"soon, later,,", NEITHER),
    ("exactly the cap", b"86400", Millis(86_400_000)),
    ("one over the cap", b"86401", Capped),
    ("seconds that wrap signed nanos", b"9223372037", Capped),
    ("largest of 64 bits", b"18446744073709551615", Capped),
    ("one more than 64 bits", b"18446744073709551616", Capped),
    ("epoch seconds, future", b"1700000120", Millis(120_000)),
    ("epoch seconds with a fraction", b"1700000120.5", Millis(120_500)),
    ("epoch seconds, past", b"1699999999", Floored),
    ("epoch seconds, now", b"1700000000", Floored),
    ("epoch seconds, two days ahead", b"1700172800", Capped),
    ("epoch milliseconds, future", b"1700000120000", Millis(120_000)),
    ("epoch milliseconds, past", b"1699999999999", Floored),
    ("epoch milliseconds, two days ahead", b"1700172800000", Capped),
    ("first date in milliseconds", b"100000000000", Floored),
    ("last date in seconds", b"99999999999", Capped),
    ("epoch microseconds", b"1700000120000000", Capped),
    ("first date", b"1000000000", Floored),
    ("longest number that is a wait", b"999999999", Capped),
    ("superscript two", "²".as_bytes(), NEITHER),
    ("Arabic-Indic digits", "١٢٠".as_bytes(), NEITHER),
    ("byte 0xff", b"\xff", NEITHER),
    ("NUL inside", b"1\x002", NEITHER),
    ("IMF-fixdate future", b"Tue, 14 Nov 2023 22:15:20 GMT", Millis(120_000)),
    ("IMF-fixdate past", b"Tue, 14 Nov 2023 22:13:19 GMT", Floored),
    ("IMF-fixdate now", b"Tue, 14 Nov 2023 22:13:20 GMT", Floored),
    ("RFC 850", b"Tuesday, 14-Nov-23 22:15:20 GMT", Millis(120_000)),
    ("asctime", b"Tue Nov 14 22:15:20 2023", Millis(120_000)),
    ("lower case", b"tue, 14 nov 2023 22:15:20 gmt", Millis(120_000)),
    ("UTC", b"Tue, 14 Nov 2023 22:15:20 UTC", Millis(120_000)),
    ("+0000", b"Tue, 14 Nov 2023 22:15:20 +0000", Millis(120_000)),
    ("wrong weekday", b"Mon, 14 Nov 2023 22:15:20 GMT", Millis(120_000)),
    ("leap second", b"Tue, 14 Nov 2023 22:15:60 GMT", Millis(160_000)),
    ("year 1969", b"Wed, 31 Dec 1969 23:59:59 GMT", Floored),
    ("year 9999", b"Fri, 31 Dec 9999 23:59:59 GMT", Capped),
    ("year 10000", b"Sat, 01 Jan 10000 00:00:00 GMT", NEITHER),
    ("ISO 8601", b"2023-11-14T22:15:20Z", NEITHER),
    (
        "no such day",
        b"Thu, 31 Nov 2023 22:15:20 GMT",
        Ignored(MalformedRetryAfter::NoSuchTime),
    ),
];

fn is(read: RetryAfter) -> Is {
    let bounds = WaitBounds::default();
    match read {
        RetryAfter::Wait(wait) => Millis(u64::try_from(wait.as_millis()).expect("below a day")),
        RetryAfter::Floored(wait) => {
            assert_eq!(wait, bounds.min_sleep());
            Floored
        }
        RetryAfter::Capped { wait, asked } => {
            assert_eq!(wait, bounds.max_honour());
            assert!(asked > wait);
            Capped
        }
        RetryAfter::Ignored(garbage) => Ignored(garbage),
    }
}

fn read(value: &[u8], date: Option<&[u8]>, wall: u64) -> Is {
    let wall = WallTime::from_unix_secs(wall);
    is(RetryAfter::read(
        value,
        ResponseTime { date, wall },
        WaitBounds::default(),
    ))
}

#[test]
fn every_known_form_is_obeyed_or_ignored() {
    for (name, value, expected) in ROWS {
        assert_eq!(read(value, None, NOW), expected, "{name}");
    }
}

// The server shows NOW in each case; ours is right, a day ahead, a day behind, or at the epoch.
#[test]
fn a_wrong_clock_of_ours_changes_nothing() {
    for wall in [NOW, NOW + DAY, NOW - DAY, 0] {
        for (name, value, expected) in ROWS {
            let date: &[u8] = b"Tue, 14 Nov 2023 22:13:20 GMT";
            assert_eq!(read(value, Some(date), wall), expected, "{name} at {wall}");
        }
    }
}

// Both the header and `Date` come from the server's clock, here a day off ours.
#[test]
fn a_wrong_clock_of_the_server_changes_nothing() {
    for (date, later) in [
        ("Wed, 15 Nov 2023 22:13:20 GMT", "Wed, 15 Nov 2023 22:13:50 GMT"),
        ("Mon, 13 Nov 2023 22:13:20 GMT", "Mon, 13 Nov 2023 22:13:50 GMT"),
    ] {
        let answer = read(later.as_bytes(), Some(date.as_bytes()), NOW);
        assert_eq!(answer, Millis(30_000), "{date}");
    }
}

// An invalid `Date` is no clock: ours is used.
#[test]
fn an_invalid_date_header_falls_back_to_our_clock() {
    let value = b"Tue, 14 Nov 2023 22:15:20 GMT";
    assert_eq!(read(value, Some(b"now"), NOW), Millis(120_000));
    assert_eq!(read(value, Some(b"now"), NOW + DAY), Floored);
}

// Longer than any header a sane server sends, and longer than any integer.
#[test]
fn long_values_are_safe() {
    assert_eq!(read(&[b'9'; 400], None, NOW), Capped);
    assert_eq!(read(&vec![b'0'; 65_536], None, NOW), Floored);
    assert_eq!(read(&vec![b'9'; 65_536], None, NOW), Capped);
    assert_eq!(read(&vec![b'x'; 65_536], None, NOW), NEITHER);
    assert_eq!(read(&vec![b','; 65_536], None, NOW), NEITHER);
    let mut fraction = b"1.".to_vec();
    fraction.resize(65_536, b'0');
    assert_eq!(read(&fraction, None, NOW), Millis(1_000));
    fraction.push(b'1');
    assert_eq!(
        RetryAfter::read(&fraction, LOCAL, WaitBounds::default()).wait(),
        Some(Duration::from_nanos(1_000_000_001)),
        "never shorter than asked"
    );
}

const LOCAL: ResponseTime<'static> = ResponseTime {
    date: None,
    wall: WallTime::from_unix_secs(NOW),
};

#[test]
fn of_several_headers_the_longest_wait_wins() {
    let all = |values: &[&[u8]]| RetryAfter::read_all(values.iter().copied(), LOCAL, WaitBounds::default()).map(is);
    assert_eq!(all(&[]), None);
    assert_eq!(all(&[b"120", b"120"]), Some(Millis(120_000)));
    assert_eq!(
        all(&[b"soon", b"7", b"Tue, 14 Nov 2023 22:15:20 GMT"]),
        Some(Millis(120_000))
    );
    assert_eq!(all(&[b"7", b"soon"]), Some(Millis(7_000)));
    assert_eq!(all(&[b"soon", b""]), Some(NEITHER));
}

// The floor of a second and the cap of a day hold for milliseconds too.
#[test]
fn milliseconds_are_read_within_the_same_bounds() {
    let response_time = ResponseTime {
        date: None,
        wall: WallTime::from_unix_secs(NOW),
    };
    let all = |values: &[&[u8]]| {
        let read = RetryAfter::read_all_millis(values.iter().copied(), response_time, WaitBounds::default());
        read.map(is)
    };
    assert_eq!(all(&[]), None);
    for (value, expected) in [
        ("1500", Millis(1_500)),
        (" 1500.5 ", Millis(1_500)),
        ("0", Floored),
        ("250", Floored),
        ("-5", Floored),
        ("86400000", Millis(86_400_000)),
        ("86400001", Capped),
        ("1700000120000", Millis(120_000)),
        ("99999999999999999999999", Capped),
        ("", NEITHER),
        ("2s", NEITHER),
        ("1500, 2000", NEITHER),
        ("Tue, 14 Nov 2023 22:15:20 GMT", NEITHER),
    ] {
        assert_eq!(all(&[value.as_bytes()]), Some(expected), "{value:?}");
    }
    assert_eq!(all(&[b"soon", b"1500", b"7000"]), Some(Millis(7_000)));
}

#[test]
fn bounds_that_would_spin_or_cross_cannot_be_built() {
    let second = Duration::from_secs(1);
    let new = WaitBounds::new;
    assert_eq!(new(Duration::ZERO, second), Err(InvalidWaitBounds::NoShortest));
    assert_eq!(new(second * 2, second), Err(InvalidWaitBounds::Crossed));
    assert!(new(second, second).is_ok());
}

outflow_testkit::laws! {
    #[test]
    fn a_list_waits_for_its_longest_member / fn stress_a_list_waits_for_its_longest_member
        ((members(), proptest::sample::select(&JOINTS))) = waits_for_the_longest;

    #[test]
    fn a_future_date_is_waited_for_with_any_clocks
        / fn stress_a_future_date_is_waited_for_with_any_clocks
        ((0..=253_402_214_399_u64, 1..=DAY, any::<u64>()))
        = |(server, ahead, wall)| waits_exactly(server, ahead, wall);
}

/// Separators of a list. Without any blank, two numbers could be one with thousands.
const JOINTS: [&str; 3] = [", ", " ,", " , , "];

/// A wait in seconds and its form: a number or one of the forms of a date.
fn members() -> impl Strategy<Value = Vec<(u64, usize)>> {
    proptest::collection::vec((1..=DAY, 0_usize..3), 1..6)
}

fn waits_for_the_longest((members, joint): (Vec<(u64, usize)>, &str)) -> Result<(), TestCaseError> {
    let written = members.iter().map(|(wait, form)| {
        let date = civil_oracle(NOW + wait);
        match form {
            0 => wait.to_string(),
            1 => date,
            // `Tue, 14 Nov 2023 22:13:50 GMT` as `Tue Nov 14 22:13:50 2023`.
            _ => format!(
                "{} {} {} {} {}",
                &date[..3],
                &date[8..11],
                &date[5..7],
                &date[17..25],
                &date[12..16]
            ),
        }
    });
    let value = written.collect::<Vec<_>>().join(joint);
    let longest = members.iter().map(|(wait, _)| *wait).max();
    let read = RetryAfter::read(value.as_bytes(), LOCAL, WaitBounds::default());
    prop_assert_eq!(read.wait(), longest.map(Duration::from_secs), "{}", value);
    let spoilt = format!("{value}, soon");
    let read = RetryAfter::read(spoilt.as_bytes(), LOCAL, WaitBounds::default());
    prop_assert_eq!(read.wait(), None, "{}", spoilt);
    Ok(())
}

fn waits_exactly(server: u64, ahead: u64, wall: u64) -> Result<(), TestCaseError> {
    let written = |secs| HttpDate::from_wall(WallTime::from_unix_secs(secs)).to_string();
    let (date, later) = (written(server), written(server + ahead));
    prop_assert_eq!(&date, &civil_oracle(server));
    let response_time = ResponseTime {
        date: Some(date.as_bytes()),
        wall: WallTime::from_unix_secs(wall),
    };
    let read = RetryAfter::read(later.as_bytes(), response_time, WaitBounds::default());
    prop_assert_eq!(read, RetryAfter::Wait(Duration::from_secs(ahead)));
    Ok(())
}

/// Writes a date by walking the calendar year by year and month by month.
fn civil_oracle(secs: u64) -> String {
    const MONTHS: [(&str, u64); 12] = [
        ("Jan", 31),
        ("Feb", 28),
        ("Mar", 31),
        ("Apr", 30),
        ("May", 31),
        ("Jun", 30),
        ("Jul", 31),
        ("Aug", 31),
        ("Sep", 30),
        ("Oct", 31),
        ("Nov", 30),
        ("Dec", 31),
    ];
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let day_count = usize::try_from(secs / DAY).expect("below 4 million");
    let weekday = WEEKDAYS.iter().cycle().nth(day_count % 7).expect("endless");
    let (mut days, of_day) = (secs / DAY, secs % DAY);
    let mut year = 1970_u64;
    loop {
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        for (place, (month, length)) in MONTHS.iter().enumerate() {
            let length = length + u64::from(leap && place == 1);
            if days < length {
                let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
                return format!(
                    "{weekday}, {:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT",
                    days + 1
                );
            }
            days -= length;
        }
        year += 1;
    }
}
