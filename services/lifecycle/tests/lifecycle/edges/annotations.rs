//! People's own remarks.

use crate::dsl::*;

#[test]
fn remarks_are_set_and_taken_away_and_the_rest_stays() {
    let story = given([in_service()])
        .when(annotations(&[("team/owner", Some("storage")), ("ticket", Some("HW-12"))]))
        .then(["annotated team/owner=storage ticket=HW-12"])
        .when(annotations(&[("ticket", None), ("team/owner", Some("storage"))]))
        .then(["annotated ticket=-"])
        .when(annotations(&[("ticket", None)]))
        .then_nothing();
    assert_eq!(story.device().annotations.iter().collect::<Vec<_>>(), [(&"team/owner".to_owned(), &"storage".to_owned())]);
}

#[test]
fn what_is_no_remark_is_refused() {
    let long = "x".repeat(1025);
    for pair in [("", Some("a")), ("a b", Some("a")), ("a", Some(long.as_str()))] {
        given([in_service()]).when(annotations(&[pair])).then_refused("invalid");
    }
    let many: Vec<String> = (0..65).map(|i| format!("k{i}")).collect();
    let many: Vec<_> = many.iter().map(|k| (k.as_str(), Some("v"))).collect();
    given([in_service()]).when(annotations(&many)).then_refused("invalid");
    given([in_service()]).when(annotations(&many[..64])).then_accepted();
}
