//! A point in civil time as RFC 3339 writes it.

use outflow_core::WallTime;

/// To the second, in UTC.
pub(super) fn rfc3339(at: WallTime) -> String {
    let secs = at.as_duration().as_secs();
    let (mut days, of_day) = (secs / 86_400, secs % 86_400);
    let mut year = 1970;
    while days >= days_of(year) {
        days -= days_of(year);
        year += 1;
    }
    let mut month = 1;
    while days >= days_in(year, month) {
        days -= days_in(year, month);
        month += 1;
    }
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let day = days + 1;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn days_of(year: u64) -> u64 {
    (1..=12).map(|month| days_in(year, month)).sum()
}

fn days_in(year: u64, month: u64) -> u64 {
    let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The ends of months and years, and both kinds of leap year.
    #[test]
    fn dates_are_written_as_the_calendar_has_them() {
        for (secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (784_111_777, "1994-11-06T08:49:37Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(WallTime::from_unix_secs(secs)), text);
        }
    }
}
