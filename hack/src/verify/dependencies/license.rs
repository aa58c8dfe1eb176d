//! License expressions: names, `WITH` an exception, `AND`, `OR` and parentheses.

use std::collections::BTreeSet;

/// Whether the allowed licenses permit to use a crate with this expression. A slash is an old spelling of
/// `OR`. An expression that cannot be read is not allowed.
pub(super) fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = Words { words: spaced.split_whitespace().collect(), next: 0 };
    let verdict = words.alternatives(allowed);
    verdict == Some(true) && words.next == words.words.len()
}

/// The words of an expression, and the position in it.
struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Words<'a> {
    fn take(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.next)?;
        self.next += 1;
        Some(word)
    }

    fn take_if(&mut self, wanted: &str) -> bool {
        let is_next = self.words.get(self.next) == Some(&wanted);
        self.next += usize::from(is_next);
        is_next
    }

    fn alternatives(&mut self, allowed: &BTreeSet<String>) -> Option<bool> {
        let mut verdict = self.all_of(allowed)?;
        while self.take_if("OR") {
            verdict |= self.all_of(allowed)?;
        }
        Some(verdict)
    }

    fn all_of(&mut self, allowed: &BTreeSet<String>) -> Option<bool> {
        let mut verdict = self.operand(allowed)?;
        while self.take_if("AND") {
            verdict &= self.operand(allowed)?;
        }
        Some(verdict)
    }

    fn operand(&mut self, allowed: &BTreeSet<String>) -> Option<bool> {
        let word = self.take()?;
        match word {
            "(" => {
                let verdict = self.alternatives(allowed)?;
                self.take_if(")").then_some(verdict)
            }
            ")" | "OR" | "AND" | "WITH" => None,
            name if self.take_if("WITH") => Some(allowed.contains(&format!("{name} WITH {}", self.take()?))),
            name => Some(allowed.contains(name)),
        }
    }
}
