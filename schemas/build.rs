//! A new published schema must be embedded although no source file changed.
fn main() {
    println!("cargo:rerun-if-changed=avro/published");
    println!("cargo:rerun-if-changed=../infra/topics.toml");
}
