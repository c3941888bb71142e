//! Shapes of JSON, written short: `{id:uuid name:string? parts*:[Part]}` is an object with an id, a name that may be null, and perhaps a
//! list of parts, `(a|b)` one of these words. Words that are no basic type name a shape of [`super::shapes`].

use serde_json::{Map, Value, json};

/// The JSON schema that a shape stands for.
pub(crate) fn schema(text: &str) -> Value {
    let mut reader = Reader { rest: text.trim() };
    reader.shape()
}

/// The same for what is sent to us: nothing but what is named.
pub(crate) fn strict(text: &str) -> Value {
    let mut schema = schema(text);
    close(&mut schema);
    schema
}

fn close(schema: &mut Value) {
    if schema.get("properties").is_some() {
        schema["additionalProperties"] = json!(false);
    }
    match schema {
        Value::Object(all) => all.values_mut().for_each(close),
        Value::Array(all) => all.iter_mut().for_each(close),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn eat(&mut self, c: char) -> bool {
        self.rest.strip_prefix(c).map(|rest| self.rest = rest).is_some()
    }

    fn word(&mut self) -> &'a str {
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn shape(&mut self) -> Value {
        let plain = if self.eat('[') {
            let items = self.shape();
            self.eat(']');
            json!({"type": "array", "items": items})
        } else if self.eat('<') {
            let values = self.shape();
            self.eat('>');
            json!({"type": "object", "additionalProperties": values})
        } else if self.eat('(') {
            self.one_of()
        } else if self.eat('{') {
            self.object()
        } else {
            basic(self.word())
        };
        if self.eat('?') { json!({"anyOf": [plain, {"type": "null"}]}) } else { plain }
    }

    fn one_of(&mut self) -> Value {
        let mut words = vec![self.word()];
        while self.eat('|') {
            words.push(self.word());
        }
        self.eat(')');
        json!({"type": "string", "enum": words})
    }

    fn object(&mut self) -> Value {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.is_empty() || self.eat('}') {
                break;
            }
            let name = self.word();
            if name.is_empty() {
                break;
            }
            if !self.eat('*') {
                required.push(name);
            }
            self.eat(':');
            let shape = self.shape();
            properties.insert(name.to_owned(), shape);
        }
        let mut out = json!({"type": "object", "properties": properties});
        if !required.is_empty() {
            out["required"] = json!(required);
        }
        out
    }
}

fn basic(word: &str) -> Value {
    match word {
        "string" => json!({"type": "string"}),
        "reason" => json!({"type": "string", "minLength": 1, "maxLength": 500, "pattern": "\\S"}),
        "uuid" => json!({"type": "string", "format": "uuid"}),
        "time" => json!({"type": "string", "format": "date-time"}),
        "int" => json!({"type": "integer"}),
        "number" => json!({"type": "number"}),
        "bool" => json!({"type": "boolean"}),
        "object" => json!({"type": "object"}),
        "any" => json!({}),
        named => json!({"$ref": format!("#/components/schemas/{named}")}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_reads_as_it_is_meant() {
        let read = schema("{id:uuid name:string? parts*:[Part] by:<int>}");
        let expected = json!({"type": "object", "required": ["id", "name", "by"], "properties": {
            "id": {"type": "string", "format": "uuid"}, "name": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Part"}},
            "by": {"type": "object", "additionalProperties": {"type": "integer"}},
        }});
        assert_eq!(read, expected);
        assert_eq!(schema("[(a|b-c)]")["items"]["enum"], json!(["a", "b-c"]));
        assert_eq!(strict("{a:{b:int}}")["properties"]["a"]["additionalProperties"], false);
    }
}
