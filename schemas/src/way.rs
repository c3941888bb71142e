//! Which ways secrets may go.

/// Whether tokens, keys and what they are checked by may go by this URL: https, or http that does not leave the machine. `Err` says so.
pub fn safe_way(url: &str) -> Result<(), String> {
    let parsed = url::Url::parse(url).map_err(|e| format!("{url}: {e}"))?;
    let loopback = match parsed.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    if parsed.scheme() == "https" || (parsed.scheme() == "http" && loopback) {
        Ok(())
    } else {
        Err(format!("{url}: https, or http on loopback"))
    }
}

#[cfg(test)]
mod tests {
    use super::safe_way;

    #[test]
    fn nothing_secret_leaves_the_machine_in_the_clear() {
        let rows = [
            ("https://hub.example.net", true),
            ("http://127.0.0.1:8480", true),
            ("http://127.8.8.8", true),
            ("http://[::1]:80", true),
            ("http://localhost:1/x", true),
            ("http://hub.example.net", false),
            ("http://localhost.example.net", false),
            ("http://127.0.0.1.example.net", false),
            ("http://10.0.0.1", false),
            ("ftp://127.0.0.1", false),
            ("hub.example.net", false),
            ("", false),
        ];
        for (url, safe) in rows {
            assert_eq!(safe_way(url).is_ok(), safe, "{url}");
        }
    }
}
