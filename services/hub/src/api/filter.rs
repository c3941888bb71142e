//! `filter`: a subset of AIP-160, read into an expression over documented fields. The grammar stands in docs/API.md.

use crate::Problem;
use fleet_lifecycle::condition_types;
use fleet_projections::filter::{Expr, Field, Kind, Op, Operand};
use fleet_schemas::{Status, Timestamp};
use serde_json::json;

/// Characters that a filter may have, comparisons, and how deep parentheses and NOT may stand in each other.
const LENGTH: usize = 4000;
const TERMS: usize = 100;
const DEPTH: usize = 20;
/// The comparisons; the longer first.
const OPS: &[(&str, Op)] =
    &[("!=", Op::Unequal), ("<=", Op::AtMost), (">=", Op::AtLeast), ("=", Op::Equal), ("<", Op::Less), (">", Op::Greater), (":", Op::Has)];

/// What a filter may name.
pub(crate) struct Vocabulary<'a> {
    /// The fields.
    pub(crate) fields: &'static [Field],
    /// Whether there is a type of condition of this name.
    pub(crate) is_type: &'a dyn Fn(&str) -> bool,
}

/// The expression that `text` is; nothing where it is empty. What is wrong is named, with its place.
pub(crate) fn read(text: &str, vocabulary: &Vocabulary<'_>) -> Result<Option<Expr>, Problem> {
    if text.chars().count() > LENGTH {
        return Err(bad(1, format!("a filter has at most {LENGTH} characters")));
    }
    let mut reader = Reader { text, at: 0, terms: 0, vocabulary };
    reader.blank();
    if reader.rest().is_empty() {
        return Ok(None);
    }
    let expr = reader.sequence(0)?;
    match reader.rest() {
        "" => Ok(Some(expr)),
        rest if rest.starts_with(')') => Err(reader.bad("`)` closes nothing")),
        _ => Err(reader.bad("AND, OR or the end is expected here; a value of several words stands in double quotes")),
    }
}

/// Position counts characters from 1.
fn bad(position: usize, why: impl std::fmt::Display) -> Problem {
    Problem::invalid("filter", format!("at position {position}: {why}")).with("position", json!(position))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    terms: usize,
    vocabulary: &'a Vocabulary<'a>,
}

/// A word, where it begins, and whether it stood in quotes.
struct Word {
    text: String,
    at: usize,
    quoted: bool,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn blank(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn bad(&self, why: impl std::fmt::Display) -> Problem {
        self.bad_at(self.at, why)
    }

    fn bad_at(&self, at: usize, why: impl std::fmt::Display) -> Problem {
        bad(self.text[..at].chars().count() + 1, why)
    }

    /// Takes a keyword that stands alone.
    fn keyword(&mut self, word: &str) -> bool {
        let Some(behind) = self.rest().strip_prefix(word) else { return false };
        if !behind.chars().next().is_none_or(|c| c.is_whitespace() || matches!(c, '(' | ')')) {
            return false;
        }
        self.at += word.len();
        self.blank();
        true
    }

    /// Terms joined by AND, or by OR. AIP-160 binds OR tighter than most people read it: both at once need parentheses.
    fn sequence(&mut self, depth: usize) -> Result<Expr, Problem> {
        let mut list = vec![self.factor(depth)?];
        let mut joined: Option<&str> = None;
        loop {
            let at = self.at;
            let word = match (self.keyword("AND"), joined) {
                (true, _) => "AND",
                (false, _) if self.keyword("OR") => "OR",
                (false, _) => break,
            };
            if joined.is_some_and(|j| j != word) {
                return Err(self.bad_at(at, "AND and OR side by side: parentheses say what is meant"));
            }
            joined = Some(word);
            list.push(self.factor(depth)?);
        }
        Ok(match (joined, list.len()) {
            (_, 1) => list.remove(0),
            (Some("OR"), _) => Expr::Or(list),
            (_, _) => Expr::And(list),
        })
    }

    fn factor(&mut self, depth: usize) -> Result<Expr, Problem> {
        if depth > DEPTH {
            return Err(self.bad(format!("at most {DEPTH} levels stand in each other")));
        }
        if self.keyword("NOT") {
            return Ok(Expr::Not(Box::new(self.factor(depth + 1)?)));
        }
        if self.rest().starts_with('(') {
            let opened = self.at;
            self.at += 1;
            self.blank();
            let inner = self.sequence(depth + 1)?;
            if !self.rest().starts_with(')') {
                return Err(if self.rest().is_empty() {
                    self.bad_at(opened, "`(` is not closed")
                } else {
                    self.bad("AND, OR or `)` is expected here")
                });
            }
            self.at += 1;
            self.blank();
            return Ok(inner);
        }
        self.term()
    }

    fn term(&mut self) -> Result<Expr, Problem> {
        self.terms += 1;
        if self.terms > TERMS {
            return Err(self.bad(format!("a filter has at most {TERMS} comparisons")));
        }
        let name = self.word(&['=', '!', '<', '>', ':'])?;
        let names = || self.vocabulary.fields.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
        if name.quoted || name.text.is_empty() || matches!(name.text.as_str(), "AND" | "OR") {
            return Err(self.bad_at(name.at, format!("a field is expected here; there are: {}", names())));
        }
        let (base, key) = name.text.split_once('.').map_or((name.text.as_str(), None), |(base, key)| (base, Some(key.to_owned())));
        let Some(field) = Field::find(self.vocabulary.fields, base) else {
            return Err(self.bad_at(name.at, format!("there is no field `{base}`; there are: {}", names())));
        };
        match (&key, field.kind) {
            (Some(key), Kind::Conditions) => self.is_type(key, name.at + base.len() + 1)?,
            (Some(_), _) => return Err(self.bad_at(name.at, format!("`{base}` has no parts"))),
            (None, _) => {}
        }
        self.blank();
        let at = self.at;
        let Some((sign, op)) = OPS.iter().find(|(sign, _)| self.rest().starts_with(sign)) else {
            return Err(self.bad(format!("one of = != < > <= >= : is expected behind `{}`", name.text)));
        };
        self.allowed(field, key.is_some(), *op, sign, at)?;
        self.at += sign.len();
        self.blank();
        let value = self.word(&['=', '!', '<', '>'])?;
        if value.text.is_empty() && !value.quoted {
            let hint = if self.rest().starts_with('=') { "; one `=` compares" } else { "" };
            return Err(self.bad_at(value.at, format!("a value is expected behind `{sign}`{hint}")));
        }
        self.blank();
        let value = self.operand(field, key.is_some(), *op, value)?;
        Ok(Expr::Term { field, key, op: *op, value })
    }

    fn allowed(&self, field: &Field, keyed: bool, op: Op, sign: &str, at: usize) -> Result<(), Problem> {
        let ordered = matches!(op, Op::Less | Op::Greater | Op::AtMost | Op::AtLeast);
        let (fits, there) = match (field.kind, keyed) {
            (Kind::Text, _) => (true, "all"),
            (Kind::Word(_) | Kind::Type, _) => (!ordered, "= != :"),
            (Kind::Time | Kind::Number, _) => (op != Op::Has, "= != < > <= >="),
            (Kind::Id, _) => (matches!(op, Op::Equal | Op::Unequal), "= !="),
            (Kind::Conditions, true) => (matches!(op, Op::Equal | Op::Unequal | Op::Has), "= != :"),
            (Kind::Conditions | Kind::Bad, _) => (op == Op::Has, ":"),
        };
        if fits { Ok(()) } else { Err(self.bad_at(at, format!("`{}` cannot be asked by `{sign}`; it takes: {there}", field.name))) }
    }

    /// What no line can ever have is refused; an empty list would look like an answer.
    fn operand(&self, field: &Field, keyed: bool, op: Op, value: Word) -> Result<Operand, Problem> {
        let Word { text, at, quoted } = value;
        if op == Op::Has && text == "*" && !quoted {
            return Ok(Operand::Any);
        }
        match field.kind {
            Kind::Text => {}
            Kind::Word(check) => check(&text).map_err(|why| self.bad_at(at, why))?,
            Kind::Conditions if keyed => text.parse::<Status>().map(|_| ()).map_err(|e| self.bad_at(at, e))?,
            Kind::Type | Kind::Conditions | Kind::Bad => self.is_type(&text, at)?,
            Kind::Time => {
                let time = text.parse::<Timestamp>();
                return time
                    .map(|t| Operand::Number(t.0))
                    .map_err(|_| self.bad_at(at, format!("`{text}` is no RFC 3339 time; as in 2026-12-01T00:00:00Z")));
            }
            Kind::Number => {
                return text.parse().map(Operand::Number).map_err(|_| self.bad_at(at, format!("`{text}` is no whole number")));
            }
            Kind::Id => {
                let id =
                    uuid::Uuid::parse_str(&text).map_err(|_| self.bad_at(at, format!("`{text}` is no uuid; a name is asked by `name`")))?;
                return Ok(Operand::Id(id.as_bytes().to_vec()));
            }
        }
        Ok(Operand::Text(text))
    }

    fn is_type(&self, name: &str, at: usize) -> Result<(), Problem> {
        if (self.vocabulary.is_type)(name) {
            return Ok(());
        }
        let types: Vec<_> = condition_types().iter().map(|t| t.name).collect();
        Err(self.bad_at(at, format!("there is no type `{name}`; types are: {}, and what sites register", types.join(", "))))
    }

    /// A word up to a blank, a parenthesis, a quote or one of `ends`; or what stands in double quotes.
    fn word(&mut self, ends: &[char]) -> Result<Word, Problem> {
        let at = self.at;
        if self.rest().starts_with('"') {
            return Ok(Word { text: self.quoted()?, at, quoted: true });
        }
        let end = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | '"') || ends.contains(&c);
        let length = self.rest().find(end).unwrap_or(self.rest().len());
        let text = self.rest()[..length].to_owned();
        self.at += length;
        Ok(Word { text, at, quoted: false })
    }

    fn quoted(&mut self) -> Result<String, Problem> {
        let (mut out, mut escaped) = (String::new(), false);
        for (i, c) in self.rest().char_indices().skip(1) {
            match c {
                '"' if !escaped => {
                    self.at += i + 1;
                    return Ok(out);
                }
                '\\' if !escaped => escaped = true,
                c => {
                    out.push(c);
                    escaped = false;
                }
            }
        }
        Err(self.bad("a double quote is not closed"))
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
