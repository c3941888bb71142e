//! JSON text out of a recorded shape: one line a top-level field, `{{slot}}` where the world fills in a value.
//!
//! Text instead of a tree of values, because a list of 2,000 SLURM nodes must take milliseconds in an unoptimised build.

use std::fmt::Write as _;

/// Writes one value of `T` as JSON.
pub(crate) type Slot<T> = fn(&T, &mut String);

/// A JSON object's fields in the real program's order.
pub(crate) struct Shape<T> {
    fields: Vec<Field<T>>,
}

struct Field<T> {
    name: String,
    pieces: Vec<(String, Option<Slot<T>>)>,
}

impl<T> Shape<T> {
    /// Reads a shape file. The files are part of the program, so a slot that nobody fills is a defect of the program: it panics, and every
    /// test that touches the shape shows it.
    pub(crate) fn parse(text: &str, slots: &[(&str, Slot<T>)]) -> Self {
        let slot = |key: &str| match slots.iter().find(|(name, _)| *name == key) {
            Some((_, write)) => *write,
            None => panic!("shape names a slot that is not filled: {key}"),
        };
        let field = |line: &str| {
            let name = line.split('"').nth(1).unwrap_or_default().to_owned();
            let mut pieces = Vec::new();
            let mut rest = line;
            while let Some((before, after)) = rest.split_once("{{") {
                let (key, after) = after.split_once("}}").unwrap_or((after, ""));
                pieces.push((before.to_owned(), Some(slot(key))));
                rest = after;
            }
            pieces.push((rest.to_owned(), None));
            Field { name, pieces }
        };
        Self { fields: text.lines().filter(|l| !l.is_empty()).map(field).collect() }
    }

    /// The same shape without some top-level fields (an older API version).
    pub(crate) fn without(mut self, names: &[&str]) -> Self {
        self.fields.retain(|f| !names.contains(&f.name.as_str()));
        self
    }

    /// Which fields a request wants: one flag per field, for [`Shape::write`].
    pub(crate) fn choose(&self, wanted: impl Fn(&str) -> bool) -> Vec<bool> {
        self.fields.iter().map(|f| wanted(&f.name)).collect()
    }

    /// Writes `item`; `keep` comes from [`Shape::choose`], `None` writes everything.
    pub(crate) fn write(&self, item: &T, keep: Option<&[bool]>, out: &mut String) {
        let mut separator = '{';
        for (at, field) in self.fields.iter().enumerate() {
            if keep.is_some_and(|keep| !keep.get(at).copied().unwrap_or(false)) {
                continue;
            }
            out.push(separator);
            separator = ',';
            for (literal, slot) in &field.pieces {
                out.push_str(literal);
                if let Some(slot) = slot {
                    slot(item, out);
                }
            }
        }
        out.push_str(if separator == '{' { "{}" } else { "}" });
    }
}

/// A JSON string.
pub(crate) fn text(out: &mut String, value: &str) {
    if value.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\') {
        out.push('"');
        out.push_str(value);
        out.push('"');
    } else {
        out.push_str(&serde_json::Value::from(value).to_string());
    }
}

/// A JSON string, or null.
pub(crate) fn text_or_null(out: &mut String, value: Option<&str>) {
    match value {
        Some(value) => text(out, value),
        None => out.push_str("null"),
    }
}

/// Anything that prints as a JSON number (or is JSON text already).
pub(crate) fn plain(out: &mut String, value: impl std::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{value}");
}

/// A JSON array of strings.
pub(crate) fn texts<S: AsRef<str>>(out: &mut String, values: &[S]) {
    out.push('[');
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        text(out, value.as_ref());
    }
    out.push(']');
}
