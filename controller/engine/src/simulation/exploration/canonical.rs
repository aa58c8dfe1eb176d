//! The canonical text of a state, without differences that have no effect.
//!
//! * A name of a machine is replaced by its number, and a number by its rank among the numbers that are in
//!   use. Used-up names between two others have no effect. Of the rest of the name block, it only matters
//!   whether it has one more number or several.
//! * A UID is replaced by its rank among the UIDs, and a version by its rank among the versions of the same
//!   object.
//! * The id of a drain is replaced by the place of its first mention.
//! * Of how often healing replaced a machine, it only matters whether it was once or several times.
//! * A time is in the future, now, or long ago. Creation times of machines and the times since when disks are
//!   free are compared, so they are replaced by their rank.
//! * Texts in braces have no order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;

use super::super::api::Api;
use super::moves::LONG_TIME;
use crate::model::Naming;
use crate::scale_up::names::Namer;

/// Numbers left in the name block, and replacements of a machine, that count as several.
const SEVERAL: u64 = 2;

/// Length of the id of a drain.
const DRAIN_ID: usize = 16;

enum Token<'t> {
    Raw(&'t str),
    /// A machine, or an object with its name as a prefix.
    Machine {
        number: u64,
        rest: &'t str,
    },
    /// A retained disk.
    RetainedDisks(&'t str),
    Uid(u64),
    /// The number of a machine, or of the end of a name block.
    Number(u64),
    End(u64),
    /// A version of the object that was mentioned last.
    Version {
        of: &'t str,
        version: u64,
    },
    Request(&'t str),
    /// The id of a drain.
    Drain(&'t str),
    /// How often healing replaced a machine.
    Count(u64),
    Created(Timestamp),
    Free(Timestamp),
    Moment(Duration),
}

/// The canonical form; see the module documentation.
pub(super) fn canonicalize_text(text: &str, api: &Api) -> String {
    let tokens = Reader::new(text, api).read();
    let renamed = Names::of(&tokens, api).write(&tokens);
    let mut sorted = String::with_capacity(renamed.len());
    let end = sort_unordered_groups(&renamed, 0, false, &mut sorted);
    debug_assert_eq!(end, renamed.len(), "brackets are balanced");
    sorted
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    raw: usize,
    tokens: Vec<Token<'t>>,
    named: &'t str,
    namer: Option<Namer>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, api: &Api) -> Self {
        let scattered = api.pool.naming == Naming::Random;
        let namer = scattered.then(|| Namer::new(&api.pool.id.name, &api.pool.id.uid));
        Self { text, at: 0, raw: 0, tokens: Vec::new(), named: "", namer }
    }

    fn read(mut self) -> Vec<Token<'t>> {
        while self.at < self.text.len() {
            // A token starts with a letter or a digit after another character.
            let rest = &self.text[self.at..];
            let step = self
                .name(rest)
                .or_else(|| self.labelled(rest))
                .or_else(|| self.drain(rest))
                .or_else(|| self.moment(rest));
            match step {
                Some(length) => {
                    self.at += length;
                    self.raw = self.at;
                }
                None => self.skip(),
            }
        }
        self.flush();
        self.tokens
    }

    /// Advances to the next word.
    fn skip(&mut self) {
        let bytes = self.text.as_bytes();
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
        while self.at < bytes.len() && is_word(bytes[self.at]) {
            self.at += 1;
        }
        while self.at < bytes.len() && !is_word(bytes[self.at]) {
            self.at += 1;
        }
    }

    fn flush(&mut self) {
        if self.raw < self.at {
            self.tokens.push(Token::Raw(&self.text[self.raw..self.at]));
        }
    }

    fn push(&mut self, token: Token<'t>) {
        self.flush();
        self.tokens.push(token);
    }

    fn name(&mut self, rest: &'t str) -> Option<usize> {
        if !rest.starts_with("web-") {
            return None;
        }
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let name = &rest[..length];
        let uid = rest[length..].strip_prefix('#').map(leading_digits);
        if let Some(number) = self.namer.as_ref().and_then(|namer| namer.number_of(name.get(..9)?)) {
            self.push(Token::Machine { number, rest: &name[9..] });
        } else if name.starts_with("web-data-") {
            self.push(Token::RetainedDisks(name));
        } else {
            self.push(Token::Raw(name));
        }
        // The name in an allocation or a device is not the object of the version.
        if self.text[..self.at].ends_with("name: \"") {
            self.named = name;
        }
        let Some(uid) = uid.filter(|uid| !uid.is_empty()) else { return Some(length) };
        self.tokens.push(Token::Uid(uid.parse().expect("digits")));
        Some(length + 1 + uid.len())
    }

    fn labelled(&mut self, rest: &'t str) -> Option<usize> {
        const NUMBERS: [&str; 3] = ["number: ", "next_number: ", "first: "];
        let labels = NUMBERS.iter().chain(&["end: ", "version: ", "generation: ", "request ", "count: "]);
        let label = labels.into_iter().find(|label| rest.starts_with(**label))?;
        let value = leading_digits(&rest[label.len()..]);
        let number: u64 = value.parse().ok()?;
        self.at += label.len();
        match *label {
            "end: " => self.push(Token::End(number)),
            "version: " => self.push(Token::Version { of: self.named, version: number }),
            "generation: " => self.flush(),
            "request " => self.push(Token::Request(value)),
            "count: " => self.push(Token::Count(number)),
            _ => self.push(Token::Number(number)),
        }
        Some(value.len())
    }

    fn drain(&mut self, rest: &'t str) -> Option<usize> {
        let id = rest.get(..DRAIN_ID)?;
        let is_id = id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_text = self.text[..self.at].ends_with('"') && rest[DRAIN_ID..].starts_with('"');
        (is_id && is_text).then(|| {
            self.push(Token::Drain(id));
            DRAIN_ID
        })
    }

    fn moment(&mut self, rest: &'t str) -> Option<usize> {
        if !rest.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let is_stamp = |c: char| c.is_ascii_digit() || matches!(c, '-' | ':' | '.' | 'T' | 'Z');
        let length = rest.find(|c| !is_stamp(c)).unwrap_or(rest.len());
        if let Ok(at) = rest[..length].parse::<Timestamp>() {
            let before = &self.text[..self.at];
            let token = if before.ends_with("created: ") {
                Token::Created(at)
            } else if before.ends_with("free_since: Some(At(") {
                Token::Free(at)
            } else {
                Token::Moment(since_start(at))
            };
            self.push(token);
            return Some(length);
        }
        let length = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let seconds: f64 = rest[..length].parse().ok()?;
        let ends = rest[length..].starts_with('s');
        // A smaller number is a duration and not a time.
        if !ends || seconds < LONG_TIME.as_secs_f64() {
            return None;
        }
        self.push(Token::Moment(parse_exact_seconds(&rest[..length])));
        Some(length + 1)
    }
}

fn leading_digits(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())]
}

/// A number of seconds, to the nanosecond.
fn parse_exact_seconds(text: &str) -> Duration {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let nanos: u32 = format!("{part:0<9}").parse().expect("at most nine digits");
    Duration::new(whole.parse().expect("digits"), nanos)
}

fn since_start(at: Timestamp) -> Duration {
    Duration::from_nanos(u64::try_from(at.as_nanosecond()).unwrap_or_default())
}

/// The replacements.
struct Names<'t> {
    now: Duration,
    next: u64,
    numbers: BTreeSet<u64>,
    retained_disks: BTreeMap<&'t str, usize>,
    uids: BTreeSet<u64>,
    versions: BTreeMap<&'t str, BTreeSet<u64>>,
    requests: BTreeSet<&'t str>,
    drains: BTreeMap<&'t str, usize>,
    created: BTreeSet<Timestamp>,
    free: BTreeSet<Timestamp>,
}

impl<'t> Names<'t> {
    fn of(tokens: &[Token<'t>], api: &Api) -> Self {
        let mut names = Self {
            now: api.now,
            next: 0,
            numbers: BTreeSet::new(),
            retained_disks: BTreeMap::new(),
            uids: BTreeSet::new(),
            versions: BTreeMap::new(),
            requests: BTreeSet::new(),
            drains: BTreeMap::new(),
            created: BTreeSet::new(),
            free: BTreeSet::new(),
        };
        for token in tokens {
            match token {
                Token::Machine { number, .. } => {
                    names.numbers.insert(*number);
                }
                Token::RetainedDisks(name) => {
                    let place = names.retained_disks.len();
                    names.retained_disks.entry(name).or_insert(place);
                }
                Token::Uid(uid) => {
                    names.uids.insert(*uid);
                }
                Token::Number(number) => names.next = names.next.max(*number),
                Token::Version { of, version } => {
                    names.versions.entry(of).or_default().insert(*version);
                }
                Token::Request(request) => {
                    names.requests.insert(request);
                }
                Token::Drain(id) => {
                    let place = names.drains.len();
                    names.drains.entry(id).or_insert(place);
                }
                Token::Created(at) => {
                    names.created.insert(*at);
                }
                Token::Free(at) => {
                    names.free.insert(*at);
                }
                Token::Raw(_) | Token::End(_) | Token::Count(_) | Token::Moment(_) => {}
            }
        }
        names
    }

    fn write(&self, tokens: &[Token<'_>]) -> String {
        let mut out = String::with_capacity(8192);
        for token in tokens {
            match token {
                Token::Raw(text) => out.write_str(text),
                Token::Machine { number, rest } => write!(out, "m{}{rest}", self.place(*number)),
                Token::RetainedDisks(name) => write!(out, "k{}", self.retained_disks[name]),
                Token::Uid(uid) => write!(out, "#{}", self.uids.range(..uid).count()),
                Token::Number(number) => write!(out, "{}", self.place(*number)),
                Token::End(end) => write!(out, "{}+{}", self.place(*end), self.left(*end)),
                Token::Version { of, version } => {
                    write!(out, "v{}", self.versions[of].range(..version).count())
                }
                Token::Request(request) => {
                    write!(out, "{}", self.requests.iter().filter(|other| *other < request).count())
                }
                Token::Drain(id) => write!(out, "d{}", self.drains[id]),
                Token::Count(count) => write!(out, "{}", count.min(&SEVERAL)),
                Token::Created(at) => {
                    write!(out, "{}{}", self.created.range(..at).count(), self.age(since_start(*at)))
                }
                Token::Free(at) => {
                    write!(out, "{}{}", self.free.range(..at).count(), self.age(since_start(*at)))
                }
                Token::Moment(at) => out.write_str(self.age(*at)),
            }
            .expect("a string takes all");
        }
        out
    }

    fn place(&self, number: u64) -> usize {
        self.numbers.range(..number).count()
    }

    /// Number of unused numbers of a name block.
    fn left(&self, end: u64) -> u64 {
        let left = (self.next..end).filter(|number| !self.numbers.contains(number));
        left.take(usize::try_from(SEVERAL).expect("small")).count() as u64
    }

    fn age(&self, at: Duration) -> &'static str {
        match self.now.checked_sub(at) {
            None => "to come",
            Some(age) if age < LONG_TIME / 2 => "now",
            Some(_) => "past",
        }
    }
}

/// Copies up to the end of a group and sorts the texts in braces.
fn sort_unordered_groups(text: &str, start: usize, unordered: bool, out: &mut String) -> usize {
    let bytes = text.as_bytes();
    let mut items = vec![String::new()];
    let mut at = start;
    while at < bytes.len() {
        let item = items.last_mut().expect("never empty");
        match bytes[at] {
            open @ (b'{' | b'[' | b'(') => {
                item.push(char::from(open));
                at = sort_unordered_groups(text, at + 1, open == b'{', item);
            }
            b'}' | b']' | b')' if start > 0 => break,
            b',' if bytes.get(at + 1) == Some(&b' ') => {
                items.push(String::new());
                at += 2;
            }
            byte => {
                item.push(char::from(byte));
                at += 1;
            }
        }
    }
    if unordered {
        for item in &mut items {
            *item = item.trim().to_owned();
        }
        items.sort_unstable();
    }
    out.push_str(&items.join(", "));
    if let Some(close) = bytes.get(at) {
        out.push(char::from(*close));
        return at + 1;
    }
    at
}
