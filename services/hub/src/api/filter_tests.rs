//! What a filter reads as, and what is refused, with its place.

use super::*;
use fleet_projections::filter::DEVICE_FIELDS;

fn reads(text: &str) -> Result<Option<Expr>, String> {
    let is_type = |name: &str| name == "SlurmMember";
    let read = read(text, &Vocabulary { fields: DEVICE_FIELDS, is_type: &is_type });
    read.map_err(|p| format!("{p:?}"))
}

/// An expression as it was understood, every part in parentheses.
fn shown(expr: &Expr) -> String {
    let list = |list: &[Expr], with: &str| format!("({})", list.iter().map(shown).collect::<Vec<_>>().join(with));
    match expr {
        Expr::And(all) => list(all, " AND "),
        Expr::Or(some) => list(some, " OR "),
        Expr::Not(one) => format!("NOT {}", shown(one)),
        Expr::Term { field, key, op, value } => {
            let sign = OPS.iter().find(|(_, o)| o == op).unwrap().0;
            let key = key.as_ref().map_or_else(String::new, |k| format!(".{k}"));
            let value = match value {
                Operand::Any => "*".to_owned(),
                Operand::Text(text) => format!("{text:?}"),
                Operand::Number(n) => n.to_string(),
                Operand::Id(id) => format!("{id:?}"),
            };
            format!("{}{key}{sign}{value}", field.name)
        }
    }
}

#[test]
fn a_filter_reads_as_it_is_meant() {
    let rows = [
        ("name = gpu003", r#"name="gpu003""#),
        ("name=gpu003", r#"name="gpu003""#),
        ("name = a  AND  site=s1", r#"(name="a" AND site="s1")"#),
        (r#"name = "rack 7 AND row = 2""#, r#"name="rack 7 AND row = 2""#),
        (r#"name = "AND" AND site = s1"#, r#"(name="AND" AND site="s1")"#),
        (r#"name = "say \"x\" and \\""#, r#"name="say \"x\" and \\""#),
        (r#"name = """#, r#"name="""#),
        ("name = a/b", r#"name="a/b""#),
        ("name = Gerät", r#"name="Gerät""#),
        ("name != a", r#"name!="a""#),
        ("NOT name = a", r#"NOT name="a""#),
        ("NOT(name = a)", r#"NOT name="a""#),
        ("name = a OR name = b OR name = c", r#"(name="a" OR name="b" OR name="c")"#),
        ("phase = Ready AND (role = x OR NOT rack : r)", r#"(phase="Ready" AND (role="x" OR NOT rack:"r"))"#),
        ("((name = a))", r#"name="a""#),
        ("version >= 7 AND updated_at < 1970-01-01T00:00:01Z", "(version>=7 AND updated_at<1000000)"),
        ("rack:*", "rack:*"),
        (r#"rack:"*""#, r#"rack:"*""#),
        ("condition:SlurmMember", r#"condition:"SlurmMember""#),
        ("condition.SlurmMember = False", r#"condition.SlurmMember="False""#),
        ("conditions_bad:*", "conditions_bad:*"),
        ("name = ANDROID AND name = ORB", r#"(name="ANDROID" AND name="ORB")"#),
    ];
    for (text, expected) in rows {
        assert_eq!(reads(text).unwrap().map(|e| shown(&e)).as_deref(), Some(expected), "{text}");
    }
    for text in ["", "  "] {
        assert_eq!(reads(text), Ok(None));
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let rows = [
        ("name", 5, "one of = != < > <= >= : is expected behind `name`"),
        ("name =", 7, "a value is expected behind `=`"),
        ("= a", 1, "a field is expected"),
        ("name = a b", 10, "AND, OR or the end is expected"),
        ("name = a AND", 13, "a field is expected"),
        ("AND", 1, "a field is expected"),
        ("name = a AND AND site = b", 14, "a field is expected"),
        ("name = a AND site = b OR site = c", 23, "parentheses say what is meant"),
        ("colour = red", 1, "there is no field `colour`; there are: name"),
        ("Gerät = a", 1, "there is no field `Gerät`"),
        (r#""name" = a"#, 1, "a field is expected"),
        (r#"name = "a"#, 8, "not closed"),
        (r#"name = a"b""#, 9, "AND, OR or the end"),
        ("name = a = b", 10, "AND, OR or the end"),
        ("(name = a", 1, "`(` is not closed"),
        ("(name = a name", 11, "AND, OR or `)`"),
        ("name = a)", 9, "`)` closes nothing"),
        ("phase = Nope", 9, "`Nope` is no Phase"),
        ("phase > Ready", 7, "`phase` cannot be asked by `>`"),
        ("site = \"No Site\"", 8, "No Site"),
        ("tenant_state = happy", 16, "`happy` is not one of: none"),
        ("version = many", 11, "`many` is no whole number"),
        ("updated_at > yesterday", 14, "`yesterday` is no RFC 3339 time"),
        ("condition:Nonsense", 11, "there is no type `Nonsense`; types are: InventoryMatched"),
        ("condition.Nonsense = True", 11, "there is no type `Nonsense`; types are: InventoryMatched"),
        ("condition.SlurmMember = Maybe", 25, "`Maybe` is no Status"),
        ("condition = SlurmMember", 11, "it takes: :"),
        ("name.x = a", 1, "`name` has no parts"),
        ("name ~ a", 6, "one of = != < > <= >= :"),
    ];
    for (text, position, why) in rows {
        let told = reads(text).unwrap_err();
        assert!(told.contains(&format!("at position {position}: ")) && told.contains(why), "{text}: {told}");
    }
    let deep = format!("{}name = a{}", "(".repeat(30), ")".repeat(30));
    assert!(reads(&deep).unwrap_err().contains("at most 20 levels"));
    let long = vec!["name = a"; 101].join(" OR ");
    assert!(reads(&long).unwrap_err().contains("at most 100 comparisons"));
    assert!(reads(&"x".repeat(4001)).unwrap_err().contains("at most 4000 characters"));
}
