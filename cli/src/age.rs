//! Ages of objects, as kubectl shows them.

use jiff::Timestamp;

/// The time since `since` with one or two units, for example `45s`, `3m20s`, `5h` or `12d`.
pub(crate) fn format_age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |large: i64, large_unit, small: i64, small_unit| match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    };
    match (days, hours, minutes) {
        (_, _, 0 | 1) => format!("{seconds}s"),
        (_, 0, 2..10) => two(minutes, "m", seconds % 60, "s"),
        (_, 0..3, _) => format!("{minutes}m"),
        (_, 3..8, _) => two(hours, "h", minutes % 60, "m"),
        (0 | 1, _, _) => format!("{hours}h"),
        (2..8, _, _) => two(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, "0s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(200, "3m20s")]
    #[case(3 * 3600 - 1, "179m")]
    #[case(3 * 3600, "3h")]
    #[case(5 * 3600 + 60, "5h1m")]
    #[case(30 * 3600, "30h")]
    #[case(50 * 3600, "2d2h")]
    #[case(400 * 86400, "400d")]
    #[case(-5, "0s")]
    fn ages_are_short(#[case] seconds: i64, #[case] expected: &str) {
        let since = Timestamp::UNIX_EPOCH;
        let now = Timestamp::from_second(seconds).unwrap();
        assert_eq!(format_age(since, now), expected);
    }
}
