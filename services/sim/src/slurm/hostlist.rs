//! SLURM's short form of many names: `gpu[001-012,014],sto026`.

/// Writes names as a hostlist. Names are grouped by prefix and number width in the order in which they come.
pub(super) fn compress<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut groups: Vec<(String, usize, Vec<u64>)> = Vec::new();
    for name in names {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (prefix, number) = name.split_at(name.len() - digits);
        let parsed = number.parse().ok();
        match (groups.last_mut(), parsed) {
            (Some((last, width, numbers)), Some(n)) if last == prefix && *width == digits => numbers.push(n),
            (_, Some(n)) => groups.push((prefix.to_owned(), digits, vec![n])),
            (_, None) => groups.push((name.to_owned(), 0, Vec::new())),
        }
    }
    let parts: Vec<String> = groups.iter().map(|(prefix, width, numbers)| group(prefix, *width, numbers)).collect();
    parts.join(",")
}

fn group(prefix: &str, width: usize, numbers: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for n in numbers {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == *n => *end = *n,
            _ => ranges.push((*n, *n)),
        }
    }
    let range = |(from, to): &(u64, u64)| if from == to { format!("{from:0width$}") } else { format!("{from:0width$}-{to:0width$}") };
    match ranges.as_slice() {
        [] => prefix.to_owned(),
        [(from, to)] if from == to => format!("{prefix}{from:0width$}"),
        ranges => format!("{prefix}[{}]", ranges.iter().map(range).collect::<Vec<_>>().join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::compress;

    #[test]
    fn compresses() {
        for (names, expected) in [
            ("", ""),
            ("gpu01", "gpu01"),
            ("gpu01 gpu02 gpu04", "gpu[01-02,04]"),
            ("gpu099 gpu100 gpu1000 login", "gpu[099-100],gpu1000,login"),
        ] {
            assert_eq!(compress(names.split_whitespace()), expected);
        }
    }
}
