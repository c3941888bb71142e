//! `filter`: `field = value AND …`. A value is one word, or stands in double quotes, where `\\"` and `\\\\` are the two themselves.

use crate::Problem;
use std::collections::BTreeMap;

#[derive(PartialEq)]
enum Token {
    /// A word, outside quotes.
    Bare(String),
    /// What stood in quotes.
    Quoted(String),
    Equals,
}

/// The fields that a filter names, with their values; those not in `known` are refused by name.
pub(crate) fn read(text: &str, known: &[&str]) -> Result<BTreeMap<String, String>, Problem> {
    let bad = |why: String| Err(Problem::invalid("filter", why));
    let mut out = BTreeMap::new();
    let tokens = tokens(text)?;
    for (i, term) in tokens.split(|t| matches!(t, Token::Bare(and) if and == "AND")).enumerate() {
        let (field, value) = match term {
            [Token::Bare(field), Token::Equals, Token::Bare(value) | Token::Quoted(value)] => (field, value),
            [] if i == 0 && tokens.is_empty() => return Ok(out),
            _ => {
                return bad(format!(
                    "term {} is no `field = value`; terms are joined by AND, a value of several words stands in quotes",
                    i + 1
                ));
            }
        };
        if !known.contains(&field.as_str()) {
            return bad(format!("there is no field `{field}`; there are: {}", known.join(", ")));
        }
        if out.insert(field.clone(), value.clone()).is_some() {
            return bad(format!("`{field}` is given twice"));
        }
    }
    Ok(out)
}

fn tokens(text: &str) -> Result<Vec<Token>, Problem> {
    let (mut out, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let (token, used) = match first {
            '=' => (Token::Equals, 1),
            '"' => quoted(rest)?,
            _ => bare(rest)?,
        };
        out.push(token);
        rest = rest[used..].trim_start();
    }
    Ok(out)
}

/// A word, up to a blank, `=` or a quote.
fn bare(text: &str) -> Result<(Token, usize), Problem> {
    let end = text.find(|c: char| c.is_whitespace() || c == '=' || c == '"').unwrap_or(text.len());
    let word = &text[..end];
    match word.find(['(', ')', '!', '<', '>']) {
        Some(_) => Err(Problem::invalid("filter", format!("`{word}`: only `=` and AND so far; such a value stands in double quotes"))),
        None => Ok((Token::Bare(word.to_owned()), end)),
    }
}

/// What stands in quotes, and the bytes it took.
fn quoted(text: &str) -> Result<(Token, usize), Problem> {
    let (mut out, mut escaped) = (String::new(), false);
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return Ok((Token::Quoted(out), at + 1)),
            '\\' if !escaped => escaped = true,
            c => {
                out.push(c);
                escaped = false;
            }
        }
    }
    Err(Problem::invalid("filter", "a double quote is not closed"))
}

#[cfg(test)]
mod tests {
    use super::read;

    type Row = (&'static str, Option<&'static [(&'static str, &'static str)]>);

    #[test]
    fn a_filter_reads_as_it_is_meant_or_is_refused() {
        let rows: &[Row] = &[
            ("", Some(&[])),
            ("  ", Some(&[])),
            ("name = gpu003", Some(&[("name", "gpu003")])),
            ("name=gpu003", Some(&[("name", "gpu003")])),
            ("name = a  AND  site=s1", Some(&[("name", "a"), ("site", "s1")])),
            (r#"name = "rack 7 AND row = 2""#, Some(&[("name", "rack 7 AND row = 2")])),
            (r#"name = "AND" AND site = s1"#, Some(&[("name", "AND"), ("site", "s1")])),
            (r#"name = "a OR (b)""#, Some(&[("name", "a OR (b)")])),
            (r#"name = "say \"x\" and \\""#, Some(&[("name", r#"say "x" and \"#)])),
            (r#"name = """#, Some(&[("name", "")])),
            ("name = a/b", Some(&[("name", "a/b")])),
            ("name = Gerät", Some(&[("name", "Gerät")])),
            ("name", None),
            ("name =", None),
            ("= a", None),
            ("name = a b", None),
            ("name = a OR name = b", None),
            ("NOT name = a", None),
            ("name != a", None),
            ("name = (a)", None),
            ("name = a AND", None),
            ("AND", None),
            ("name = a AND AND site = b", None),
            ("name = a AND name = b", None),
            ("colour = red", None),
            (r#""name" = a"#, None),
            (r#"name = "a"#, None),
            (r#"name = a"b""#, None),
            ("name = a = b", None),
        ];
        for (text, expected) in rows {
            let read = read(text, &["name", "site"]).ok();
            let expected = expected.map(|e| e.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
            assert_eq!(read, expected, "{text}");
        }
    }
}
