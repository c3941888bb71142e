use crate::dsl::*;
use fleet_schemas::*;

#[test]
fn out() {
    let s = given([in_service()]).when(drain());
    s.then(["x"]);
}
