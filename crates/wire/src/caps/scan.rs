//! A cursor over capability text: the few pieces that all four grammars are made of.
//!
//! Each method takes what it names and moves on, or leaves the cursor where it was. Alternatives are tried in order
//! and the first that matches stays, which is how Ceph's parser (Boost.Spirit) works too.

/// A position in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    /// What has not been taken.
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Runs `part`; if it matches nothing, the cursor goes back.
    pub(super) fn try_part<T>(&mut self, part: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let before = self.at;
        let taken = part(self);
        if taken.is_none() {
            self.at = before;
        }
        taken
    }

    /// Exactly this text.
    pub(super) fn literal(&mut self, literal: &str) -> Option<()> {
        self.rest().starts_with(literal).then(|| self.at += literal.len())
    }

    /// One character or more for which `accept` holds.
    pub(super) fn many(&mut self, accept: impl Fn(char) -> bool) -> Option<&'a str> {
        let rest = self.rest();
        let end = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        (end > 0).then(|| {
            self.at += end;
            &rest[..end]
        })
    }

    /// Blanks, newlines and tabs, one or more.
    pub(super) fn spaces(&mut self) -> Option<()> {
        self.many(|c| matches!(c, ' ' | '\n' | '\t')).map(|_| ())
    }

    /// As `spaces`, or none.
    pub(super) fn maybe_spaces(&mut self) {
        self.spaces();
    }

    /// Whatever C calls a space, one or more.
    pub(super) fn ascii_space(&mut self) -> Option<()> {
        self.many(|c| matches!(c, ' ' | '\t'..='\r')).map(|_| ())
    }

    /// A text in double or single quotes; without escapes.
    pub(super) fn quoted(&mut self, may_be_empty: bool) -> Option<&'a str> {
        let quote = self.rest().chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let (inside, _) = self.rest()[1..].split_once(quote)?;
        (may_be_empty || !inside.is_empty()).then(|| {
            self.at += inside.len() + 2;
            inside
        })
    }

    /// A word without quotes: letters, digits, `_`, `.`, `/` and `-`.
    pub(super) fn word(&mut self) -> Option<&'a str> {
        self.many(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-'))
    }

    /// A quoted text that is not empty, or a word.
    pub(super) fn string(&mut self) -> Option<&'a str> {
        self.quoted(false).or_else(|| self.word())
    }

    /// `=` or spaces: what separates a keyword from its value.
    pub(super) fn equals_or(&mut self, spaces: fn(&mut Self) -> Option<()>) -> Option<()> {
        self.literal("=").or_else(|| spaces(self))
    }

    /// ` network ADDRESS`, if it follows.
    pub(super) fn network(&mut self, spaces: fn(&mut Self) -> Option<()>) -> Option<&'a str> {
        self.try_part(|c| {
            spaces(c)?;
            c.literal("network")?;
            spaces(c)?;
            c.many(|c| c.is_ascii_hexdigit() || matches!(c, '/' | '.' | ':' | '[' | ']'))
        })
    }

    /// `item`s with a `;` or `,` between each two and blanks around those. Stops after the last whole item.
    pub(super) fn list<T>(&mut self, blanks: bool, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = vec![self.try_part(&mut item)?];
        let separator = |c: &mut Self| {
            if blanks {
                c.many(|c| c == ' ');
            }
            c.literal(";").or_else(|| c.literal(","))?;
            if blanks {
                c.many(|c| c == ' ');
            }
            Some(())
        };
        while let Some(next) = self.try_part(|c| separator(c).and_then(|()| item(c))) {
            items.push(next);
        }
        Some(items)
    }
}
