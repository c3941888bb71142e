//! People's own remarks on a device.

record! {
    /// One remark on a device.
    pub struct Annotation {
        /// Its name: at most 64 of letters, digits, `-`, `_`, `.` and `/`.
        key: String,
        /// What it says, at most 1,024 characters; absent = it is taken away.
        value: Option<String>,
    }
}
record! {
    /// People's own remarks on a device. They change nothing else.
    pub struct SetAnnotations in "command" {
        /// Those to set and to take away; others stay.
        annotations: Vec<Annotation>,
    }
}

record! {
    /// People's remarks on a device changed.
    pub struct AnnotationsChanged in "event" {
        /// Those that differ from before; one without a value was taken away.
        annotations: Vec<Annotation>,
    }
}
