//! Dates and times of all formats, as seconds since 1970 on the clock that wrote them.
//!
//! Time zones are left out: the rhythm of a day is that of the clock on the wall.

use chrono::NaiveDate;

/// What stands first in dates such as 05/06/24, which sysstat writes as the place it runs in does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateOrder {
    /// The month, as in the United States and with `LC_ALL=C`.
    #[default]
    MonthFirst,
    /// The day, as in most of the world.
    DayFirst,
}

/// What the dates of a text tell of their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToldOrder {
    /// None has a day beyond 12, or there are none with slashes.
    Unknown {
        has_dates: bool,
    },
    Known(DateOrder),
    /// Some dates have the day first, others the month.
    Mixed,
}

impl ToldOrder {
    /// A day beyond 12 shows its place in all dates.
    pub(crate) fn of(text: &str) -> Self {
        let is_beyond = |number: i64| (13..=31).contains(&number);
        let (mut is_day_first, mut is_month_first, mut has_dates) = (false, false, false);
        let words = text.split(|c: char| c.is_whitespace() || c == '"').filter(|word| word.contains('/'));
        for [first, second, _] in words.filter_map(|word| parts(word, '/')).filter(|it| it[0] <= 31) {
            has_dates = true;
            is_day_first |= is_beyond(first);
            is_month_first |= is_beyond(second);
        }
        match (is_day_first, is_month_first) {
            (true, true) => Self::Mixed,
            (true, false) => Self::Known(DateOrder::DayFirst),
            (false, true) => Self::Known(DateOrder::MonthFirst),
            (false, false) => Self::Unknown { has_dates },
        }
    }
}

/// Seconds of `text`: a number, or a date and a time; none of anything else.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    seconds_in(text, DateOrder::MonthFirst)
}

/// Seconds of `text`, whose dates with slashes have `order`.
pub(crate) fn seconds_in(text: &str, order: DateOrder) -> Option<f64> {
    let text = text.trim().trim_matches('"');
    if let Ok(number) = text.parse::<f64>() {
        return number.is_finite().then_some(number).filter(|it| (0.0..1e11).contains(it));
    }
    let words: Vec<&str> = text.split([' ', 'T', '\t']).filter(|word| !word.is_empty()).collect();
    let day =
        words.iter().enumerate().find_map(|(at, word)| date(word, order).or_else(|| spelt(&words, at)))?;
    let of_day = words.iter().find_map(|word| time(word))?;
    let is_afternoon = words.iter().any(|word| word.eq_ignore_ascii_case("pm"));
    let is_morning = words.iter().any(|word| word.eq_ignore_ascii_case("am"));
    let of_day = match of_day {
        noon if is_afternoon && noon < 43_200.0 => noon + 43_200.0,
        midnight if is_morning && midnight >= 43_200.0 => midnight - 43_200.0,
        other => other,
    };
    Some(day as f64 * 86_400.0 + of_day)
}

fn parts(word: &str, by: char) -> Option<[i64; 3]> {
    let mut list = word.split(by).map(|it| it.parse().ok());
    let three = [list.next()??, list.next()??, list.next()??];
    list.next().is_none().then_some(three)
}

/// `2026-11-28`, `11/28/26`, `11/28/2026`, `28.11.2026`.
fn date(word: &str, order: DateOrder) -> Option<i64> {
    let (year, month, day) = if let Some([first, second, third]) = parts(word, '-') {
        (first, second, third)
    } else if let Some([first, second, third]) = parts(word, '/') {
        match order {
            _ if first > 31 => (first, second, third),
            DateOrder::MonthFirst => (third, first, second),
            DateOrder::DayFirst => (third, second, first),
        }
    } else {
        let [first, second, third] = parts(word, '.')?;
        (third, second, first)
    };
    let year = if (0..100).contains(&year) { year + 2000 } else { year };
    days(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?)
}

/// `Nov 28` in a line of words such as `Sat Nov 28 21:00:06 2026`; without a year it is 1970.
fn spelt(words: &[&str], at: usize) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let month = (1..).zip(MONTHS).find(|(_, name)| words[at].eq_ignore_ascii_case(name))?.0;
    let day = words.get(at + 1)?.parse().ok()?;
    let year = words.iter().skip(at + 2).find_map(|word| word.parse().ok().filter(|it| *it > 1900));
    days(year.unwrap_or(1970), month, day)
}

/// `20:58:45`, `20:58`, `20:58:45.125+0000`.
fn time(word: &str) -> Option<f64> {
    let word = word.split(['+', 'Z']).next()?;
    // A zone behind a minus.
    let word = word.split('-').next()?;
    let parts: Vec<f64> = word.split(':').map(|it| it.parse().ok()).collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match parts[..] {
        [hours, minutes] => (hours, minutes, 0.0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let fits =
        (0.0..25.0).contains(&hours) && (0.0..60.0).contains(&minutes) && (0.0..61.0).contains(&seconds);
    fits.then_some(hours * 3600.0 + minutes * 60.0 + seconds)
}

/// Days from 1970 to a day of the calendar; none if there is no such day.
fn days(year: i64, month: u32, day: u32) -> Option<i64> {
    let date = NaiveDate::from_ymd_opt(year.try_into().ok()?, month, day)?;
    let days = date.signed_duration_since(NaiveDate::default()).num_days();
    (days >= 0).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_formats_are_read() {
        let told = Some(1_795_899_525.0);
        for text in [
            "2026-11-28 20:58:45",
            "2026-11-28T20:58:45+0000",
            "2026-11-28T20:58:45Z",
            "11/28/26 20:58:45",
            "11/28/2026 08:58:45 PM",
            "28.11.2026 20:58:45",
            "Sat Nov 28 20:58:45 2026",
            "1795899525",
        ] {
            assert_eq!(seconds(text), told, "{text}");
        }
        assert_eq!(seconds_in("28/11/26 20:58:45", DateOrder::DayFirst), told);
        assert_eq!(seconds("11/28/2026 12:00:01.500 AM"), Some(1_795_824_001.5));
        assert_eq!(seconds("1970-01-02 00:00"), Some(86_400.0));
        for text in [
            "",
            "hello",
            "2026-13-28 20:58:45",
            "2026-02-29 20:58:45",
            "2026-11-28",
            "20:58:45",
            "1/2/3/4 5:6:7",
            "1e99",
            "9223372036854775807-1-9223372036854775807 1:2",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn a_day_beyond_twelve_shows_the_order_of_all_dates() {
        for (text, told) in [
            ("01/03/24 00:00:00\n16/03/24 00:00:00", ToldOrder::Known(DateOrder::DayFirst)),
            ("\"11/28/2026 20:00:00\"", ToldOrder::Known(DateOrder::MonthFirst)),
            ("05/06/24 1:00", ToldOrder::Unknown { has_dates: true }),
            ("2026/11/28 r/s kB/s/x 1/2", ToldOrder::Unknown { has_dates: false }),
            ("16/05/24 05/16/24", ToldOrder::Mixed),
        ] {
            assert_eq!(ToldOrder::of(text), told, "{text}");
        }
    }
}
