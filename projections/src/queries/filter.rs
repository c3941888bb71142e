//! What a list can be narrowed by: [`Field`]s with their columns, an expression over them, and its SQL, in which every value is bound.

use super::page::Term;
use crate::sql::{self, Dialect, Sql, Value};
use fleet_lifecycle::device::TENANT_STATES;
use fleet_schemas::{OperationState, Owner, Phase, Severity, SiteId, Status, Timestamp};
use std::{fmt::Display, str::FromStr};
use uuid::Uuid;

/// What a field holds, and thereby what can be asked of it.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Text; `:` finds a part of it.
    Text,
    /// One of some words; the check says what is none.
    Word(fn(&str) -> Result<(), String>),
    /// The name of a type of condition.
    Type,
    /// An instant, RFC 3339.
    Time,
    /// A whole number.
    Number,
    /// A uuid.
    Id,
    /// A device's conditions by type, as last said: `condition:T`, `condition.T = True`.
    Conditions,
    /// A device's conditions that stand the wrong way, as last said: `conditions_bad:T`.
    Bad,
}

/// One field that a list can be asked by.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    column: &'static str,
    /// Whether it may be absent: it is then unequal to everything.
    optional: bool,
}

impl PartialEq for Field {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.column == other.column
    }
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `=`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `<=`
    AtMost,
    /// `>=`
    AtLeast,
    /// `:`
    Has,
}

/// With what.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// `*`: anything at all.
    Any,
    /// A text or word.
    Text(String),
    /// A number, or an instant in microseconds.
    Number(i64),
    /// A uuid's bytes.
    Id(Vec<u8>),
}

/// What must hold of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// All of these.
    And(Vec<Expr>),
    /// One of these.
    Or(Vec<Expr>),
    /// Not this.
    Not(Box<Expr>),
    /// A field compared; `key` is the part behind the dot.
    Term {
        /// The field.
        field: &'static Field,
        /// Of a map: which.
        key: Option<String>,
        /// How.
        op: Op,
        /// With what.
        value: Operand,
    },
}

const fn field(name: &'static str, column: &'static str, kind: Kind) -> Field {
    Field { name, kind, column, optional: false }
}
const fn optional(name: &'static str, column: &'static str, kind: Kind) -> Field {
    Field { name, kind, column, optional: true }
}
fn word<T: FromStr<Err: Display>>(text: &str) -> Result<(), String> {
    text.parse::<T>().map(|_| ()).map_err(|e| e.to_string())
}
fn tenant_state(text: &str) -> Result<(), String> {
    if TENANT_STATES.contains(&text) { Ok(()) } else { Err(format!("`{text}` is not one of: {}", TENANT_STATES.join(", "))) }
}

/// Of `/devices`.
pub const DEVICE_FIELDS: &[Field] = &[
    field("name", "d.name", Kind::Text),
    field("site", "d.site", Kind::Word(word::<SiteId>)),
    optional("phase", "d.phase", Kind::Word(word::<Phase>)),
    field("role", "d.role", Kind::Text),
    field("owner", "d.owner", Kind::Word(word::<Owner>)),
    optional("rack", "d.rack", Kind::Text),
    field("tenant_state", "d.tenant_state", Kind::Word(tenant_state)),
    field("updated_at", "d.updated_at", Kind::Time),
    field("version", "d.version", Kind::Number),
    optional("slurm_node", "d.slurm_node", Kind::Text),
    field("condition", "d.id", Kind::Conditions),
    field("conditions_bad", "d.conditions_bad", Kind::Bad),
];

/// Of `/conditions`.
pub const CONDITION_FIELDS: &[Field] = &[
    field("type", "c.type", Kind::Type),
    field("status", "c.status", Kind::Word(word::<Status>)),
    field("device", "c.device", Kind::Id),
    field("name", "d.name", Kind::Text),
    field("site", "c.site", Kind::Word(word::<SiteId>)),
    field("source", "c.source", Kind::Text),
    field("subject", "c.subject", Kind::Text),
    field("severity", "c.severity", Kind::Word(word::<Severity>)),
    field("reason", "c.reason", Kind::Text),
    field("observed_at", "c.observed_at", Kind::Time),
    field("last_transition_at", "c.last_transition_at", Kind::Time),
];

/// Of `/operations`.
pub const OPERATION_FIELDS: &[Field] = &[
    field("device", "o.device", Kind::Id),
    field("name", "d.name", Kind::Text),
    field("site", "d.site", Kind::Word(word::<SiteId>)),
    field("verb", "o.verb", Kind::Text),
    field("state", "o.state", Kind::Word(word::<OperationState>)),
    field("by", "o.by_whom", Kind::Text),
    field("started_at", "o.started_at", Kind::Time),
    optional("ended_at", "o.ended_at", Kind::Time),
];

/// Of `/attention`.
pub const ATTENTION_FIELDS: &[Field] = &[
    field("device", "a.device", Kind::Id),
    field("name", "d.name", Kind::Text),
    field("site", "d.site", Kind::Word(word::<SiteId>)),
    field("role", "d.role", Kind::Text),
    field("item", "a.item", Kind::Text),
    field("since", "a.since", Kind::Time),
    optional("acknowledged_by", "a.acknowledged_by", Kind::Text),
];

impl Field {
    /// The field of this name.
    pub fn find(fields: &'static [Field], name: &str) -> Option<&'static Field> {
        fields.iter().find(|f| f.name == name)
    }

    /// Whether a list can be ordered by it.
    pub fn orders(&self) -> bool {
        !matches!(self.kind, Kind::Conditions | Kind::Bad)
    }

    /// What it is ordered by: what is absent comes first.
    pub(crate) fn term(&self) -> Term {
        Term { column: self.column, kind: self.holds(), optional: self.optional }
    }

    fn holds(&self) -> sql::Kind {
        match self.kind {
            Kind::Text | Kind::Word(_) | Kind::Type => sql::Kind::Text,
            Kind::Time => sql::Kind::Time,
            Kind::Number => sql::Kind::Int,
            Kind::Id | Kind::Conditions => sql::Kind::Uuid,
            Kind::Bad => sql::Kind::Json,
        }
    }
}

impl Expr {
    /// `field = value`, for a field of a table above.
    pub fn equal(fields: &'static [Field], name: &str, value: Operand) -> Option<Self> {
        Some(Self::Term { field: Field::find(fields, name)?, key: None, op: Op::Equal, value })
    }

    /// Adds it to a WHERE clause. It is true or false, never neither: NOT means what it says also where a field is absent.
    pub(crate) fn push(&self, q: &mut Sql) {
        self.push_in(q, false);
    }

    fn push_in(&self, q: &mut Sql, negated: bool) {
        match self {
            Self::And(all) => joined(q, all, " AND ", negated),
            Self::Or(some) => joined(q, some, " OR ", negated),
            Self::Not(one) => {
                q.push("NOT (");
                one.push_in(q, !negated);
                q.push(")");
            }
            Self::Term { field, key, op, value } => match field.kind {
                Kind::Conditions => conditions(q, field.column, key.as_deref(), *op, value),
                Kind::Bad => bad(q, field.column, value, negated),
                Kind::Text | Kind::Word(_) | Kind::Type | Kind::Time | Kind::Number | Kind::Id => compare(q, field, *op, value),
            },
        }
    }
}

fn joined(q: &mut Sql, list: &[Expr], with: &str, negated: bool) {
    q.push("(");
    for (i, one) in list.iter().enumerate() {
        if i > 0 {
            q.push(with);
        }
        one.push_in(q, negated);
    }
    q.push(")");
}

/// A value as the field's column holds it.
fn value(field: &Field, value: &Operand) -> Value {
    match value {
        // Only `:` takes it, which has a form of its own.
        Operand::Any => Value::from("*"),
        Operand::Text(text) => text.into(),
        Operand::Number(n) if matches!(field.kind, Kind::Time) => Timestamp(*n).into(),
        Operand::Number(n) => (*n).into(),
        Operand::Id(id) => Uuid::from_slice(id).unwrap_or_default().into(),
    }
}

fn compare(q: &mut Sql, field: &Field, op: Op, with: &Operand) {
    let (column, postgres) = (field.column, q.dialect == Dialect::Postgres);
    let order = match op {
        Op::Has if *with == Operand::Any => {
            let there =
                if field.holds() == sql::Kind::Text { format!("coalesce({column} <> '', false)") } else { format!("{column} IS NOT NULL") };
            q.push(there);
            return;
        }
        Op::Has if matches!(field.kind, Kind::Text) => {
            q.push(format!("coalesce({}({column}, ", if postgres { "strpos" } else { "instr" })).bind(value(field, with));
            q.push(") > 0, false)");
            return;
        }
        // What is absent is unequal. PostgreSQL finds what IS NOT DISTINCT by no index.
        Op::Equal | Op::Has if field.optional && postgres => {
            q.push(format!("({column} IS NOT NULL AND {column} = ")).bind(value(field, with)).push(")");
            return;
        }
        Op::Equal | Op::Has => {
            q.push(format!("{column} {} ", if field.optional { "IS" } else { "=" })).bind(value(field, with));
            return;
        }
        Op::Unequal => {
            let unequal = match (field.optional, postgres) {
                (false, _) => "<>",
                (true, true) => "IS DISTINCT FROM",
                (true, false) => "IS NOT",
            };
            q.push(format!("{column} {unequal} ")).bind(value(field, with));
            return;
        }
        Op::Less => "<",
        Op::Greater => ">",
        Op::AtMost => "<=",
        Op::AtLeast => ">=",
    };
    q.push(if field.optional { "coalesce(" } else { "(" }).push(format!("{column} {order} ")).bind(value(field, with));
    q.push(if field.optional { ", false)" } else { ")" });
}

/// The name of a type of condition, or of a status.
fn word_of(value: &Operand) -> Value {
    if let Operand::Text(text) = value { text.into() } else { Value::from("*") }
}

fn conditions(q: &mut Sql, device: &str, key: Option<&str>, op: Op, value: &Operand) {
    q.push(if op == Op::Unequal { "NOT EXISTS (" } else { "EXISTS (" });
    q.push(format!("SELECT 1 FROM condition held WHERE held.device = {device}"));
    match (key, value) {
        (Some(key), value) => {
            q.push(" AND held.type = ").bind(key);
            if *value != Operand::Any {
                q.push(" AND held.status = ").bind(word_of(value));
            }
        }
        (None, Operand::Any) => {}
        (None, value) => {
            q.push(" AND held.type = ").bind(word_of(value));
        }
    }
    q.push(")");
}

fn bad(q: &mut Sql, column: &str, value: &Operand, negated: bool) {
    if *value == Operand::Any {
        q.push(format!("{column} <> '[]'"));
        return;
    }
    // Of one type few stand wrong, as a rule: they are found first, and the devices by them. Those where none does are most of all, and are
    // looked at in the list's order.
    let held = if q.dialect == Dialect::Postgres { "held.wrong" } else { "held.wrong = 1" };
    if negated {
        q.push(format!("EXISTS (SELECT 1 FROM condition held WHERE held.device = d.id AND {held} AND held.type = "));
    } else {
        q.push(format!("d.id IN (SELECT held.device FROM condition held WHERE {held} AND held.type = "));
    }
    q.bind(word_of(value)).push(")");
}
