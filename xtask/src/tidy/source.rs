//! Just enough of Rust's grammar to count: where comments and literals are, and where functions begin and end.

/// The text with the contents of comments, strings and character literals blanked out; lines stay where they are.
pub(crate) fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end > at {
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

/// The end of the comment or literal that begins at `at`; `at` itself if none does.
fn literal_end(chars: &[char], at: usize) -> usize {
    let next = |n: usize| chars.get(at + n).copied().unwrap_or('\0');
    let before_is_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match chars[at] {
        '/' if next(1) == '/' => chars[at..].iter().position(|c| *c == '\n').map_or(chars.len(), |len| at + len),
        '/' if next(1) == '*' => block_comment_end(chars, at),
        '"' => string_end(chars, at + 1),
        'r' if !before_is_word || chars[at - 1] == 'b' => raw_string_end(chars, at + 1).unwrap_or(at),
        '\'' if next(1) == '\\' => {
            let close = chars[at + 3..].iter().position(|c| *c == '\'');
            close.map_or(chars.len(), |len| at + 3 + len + 1)
        }
        '\'' if next(2) == '\'' => at + 3,
        _ => at,
    }
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let (mut depth, mut at) = (0, start);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string_end(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// The end of a raw string whose hashes or quote begin at `at`.
fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at..].iter().take_while(|c| **c == '#').count();
    if chars.get(at + hashes) != Some(&'"') {
        return None;
    }
    let mut close = at + hashes + 1;
    while close < chars.len() {
        let rest = &chars[close + 1..];
        if chars[close] == '"' && rest.len() >= hashes && rest[..hashes].iter().all(|c| *c == '#') {
            return Some(close + 1 + hashes);
        }
        close += 1;
    }
    Some(chars.len())
}

/// A function with a body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The line of `fn`, from 1.
    pub(crate) first_line: usize,
    /// The line of the closing brace.
    pub(crate) last_line: usize,
}

/// Every function with a body in text that has been through [`blank`]. Functions within functions are listed too.
pub(crate) fn functions(blanked: &str) -> Vec<Function> {
    let bytes = blanked.as_bytes();
    let line_at = |at: usize| bytes[..at].iter().filter(|b| **b == b'\n').count() + 1;
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = blanked[from..].find("fn ").map(|offset| from + offset) {
        from = at + 3;
        if at > 0 && is_word(bytes[at - 1]) {
            continue;
        }
        let name: String = blanked[from..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let Some(open) = body_start(bytes, from).filter(|_| !name.is_empty()) else { continue };
        let close = matching_brace(bytes, open);
        found.push(Function { name, first_line: line_at(at), last_line: line_at(close) });
    }
    found
}

/// The brace that opens a body, if the signature that begins at `at` has one.
fn body_start(bytes: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0i32;
    for (offset, byte) in bytes[at..].iter().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(at + offset),
            b';' if depth == 0 => return None,
            _ => {}
        }
        if depth < 0 {
            return None;
        }
    }
    None
}

fn matching_brace(bytes: &[u8], open: usize) -> usize {
    let mut depth = 0;
    for (offset, byte) in bytes[open..].iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + offset;
        }
    }
    bytes.len()
}

/// The line on which a file's own tests begin: what follows is a test module.
pub(crate) fn tests_line(blanked: &str) -> Option<usize> {
    let lines: Vec<&str> = blanked.lines().collect();
    let at = lines.windows(2).position(|pair| {
        pair[0].trim() == "#[cfg(test)]" && pair[1].trim_start().starts_with("mod ") && pair[1].contains('{')
    })?;
    Some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_blanked_and_lifetimes_are_not() {
        let text = "a /* x /* y */ { */ b // {\n\"{\\\"\" r#\"{\"\"#  b'{' '\\'' '\\u{7b}' &'a str { for r in r {} }";
        let blanked = blank(text);
        assert_eq!(blanked.len(), text.len());
        let kept: String = blanked.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(kept, "a b b &'a str { for r in r {} }");
    }

    #[test]
    fn functions_are_found_from_signature_to_brace() {
        let text = "trait T { fn none(&self, x: [u8; 2]);\n fn some(f: fn(u8) -> u8) -> [u8; 2] {\n  let s = \"}\";\n  inner()\n }\n}\n\
                    fn outer() {\n  fn nested() {}\n}\n";
        let functions = functions(&blank(text));
        let lines: Vec<_> = functions.iter().map(|f| (&f.name[..], f.first_line, f.last_line)).collect();
        assert_eq!(lines, [("some", 2, 5), ("outer", 7, 9), ("nested", 8, 8)]);
    }

    #[test]
    fn the_tests_of_a_file_begin_at_their_attribute() {
        assert_eq!(tests_line("fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n"), Some(3));
        assert_eq!(tests_line("#[cfg(test)]\nmod tests;\nfn a() {}\n"), None);
    }
}
