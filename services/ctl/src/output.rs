//! How things are printed.

use crate::exit::Failure;
use clap::ArgMatches;
use comfy_table::{Table, presets};
use serde_json::Value;
use std::io::{IsTerminal, Write};

/// Form of the data on stdout.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Table,
    /// For people with room.
    Wide,
    /// The API's body.
    Json,
    /// The same as YAML.
    Yaml,
    /// Names alone.
    Name,
}

/// What the global flags say.
pub struct Output {
    /// Form.
    pub form: Form,
    headers: bool,
    /// Nothing but data.
    pub quiet: bool,
}

impl Output {
    /// From the global flags.
    pub fn from(matches: &ArgMatches) -> Self {
        let form = match matches.get_one::<String>("output").map(String::as_str) {
            Some("wide") => Form::Wide,
            Some("json") => Form::Json,
            Some("yaml") => Form::Yaml,
            Some("name") => Form::Name,
            _ => Form::Table,
        };
        Self { form, headers: !matches.get_flag("no-headers"), quiet: matches.get_flag("quiet") }
    }

    /// Prints a body whole where that was asked for; false = the caller prints a table.
    pub fn whole(&self, body: &Value) -> Result<bool, Failure> {
        match self.form {
            Form::Json => print(&format!("{body:#}\n")).map(|()| true),
            Form::Yaml => print(&serde_yaml_ng::to_string(body).map_err(|e| Failure::error(e.to_string()))?).map(|()| true),
            Form::Table | Form::Wide | Form::Name => Ok(false),
        }
    }

    /// Prints a table; with `-o name` its first column alone.
    pub fn table(&self, headers: &[&str], rows: Vec<Vec<String>>) -> Result<(), Failure> {
        if self.form == Form::Name {
            let names: Vec<_> = rows.into_iter().filter_map(|r| r.into_iter().next()).collect();
            return print(&names.iter().map(|n| format!("{n}\n")).collect::<String>());
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        if self.headers {
            table.set_header(headers.iter().map(|h| h.to_uppercase()));
        }
        table.add_rows(rows);
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let lines: Vec<_> = table.lines().map(|l| l.trim_end().to_owned()).collect();
        print(&lines.iter().map(|l| format!("{l}\n")).collect::<String>())
    }

    /// A remark for people, on stderr.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            eprintln!("{text}");
        }
    }
}

/// Prints to stdout; a reader that has gone away ends the program quietly, as `head` expects.
pub fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::error(e.to_string())),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether a person watches stderr.
pub fn watched() -> bool {
    std::io::stderr().is_terminal()
}

/// A field as text: nothing for null.
pub fn field(value: &Value, path: &str) -> String {
    let found = path.split('.').try_fold(value, |v, key| v.get(key));
    match found {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(s)) => s.clone(),
        Some(other) => other.to_string(),
    }
}
