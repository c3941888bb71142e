//! Which ways secrets may go, and where they may stand.

use url::Url;

/// A URL without user and password: a URL stands in logs, and so would they. What is wrong is said without them.
pub fn plain_url(url: &str) -> Result<Url, String> {
    let parsed = Url::parse(url).map_err(|e| format!("no URL: {e}"))?;
    if parsed.username().is_empty() && parsed.password().is_none() {
        Ok(parsed)
    } else {
        Err("a URL holds no user and no password here: tokens and keys stand in files".into())
    }
}

/// Whether tokens, keys and what they are checked by may go by this URL: https, or http that does not leave the machine. `Err` says so.
pub fn safe_way(url: &str) -> Result<(), String> {
    let parsed = plain_url(url)?;
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(format!("{url}: https://host[:port], without a query"));
    }
    let loopback = match parsed.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    // Of the text itself, since it is sent on as it stands: a parsed one has lost its blanks and gained its slashes.
    if url.starts_with("https://") || (url.starts_with("http://") && loopback) {
        Ok(())
    } else {
        Err(format!("{url}: https, or http on loopback"))
    }
}

#[cfg(test)]
mod tests {
    use super::{plain_url, safe_way};

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        for url in
            ["https://someone:canary@hub.example.net", "https://canary@hub.example.net", "https://:canary@10.0.0.1/x", "ca nary:canary@x"]
        {
            for refused in [plain_url(url).unwrap_err(), safe_way(url).unwrap_err()] {
                assert!(!refused.contains("canary"), "{refused}");
            }
        }
        assert!(plain_url("http://netbox.example.net/a@b").is_ok());
    }

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
            ("https:hub.example.net", false),
            (" https://hub.example.net", false),
            ("https://hub.example.net?a=b", false),
            ("https://hub.example.net#a", false),
            ("hub.example.net", false),
            ("", false),
        ];
        for (url, safe) in rows {
            assert_eq!(safe_way(url).is_ok(), safe, "{url}");
        }
    }
}
