//! Where a store lies, and how it is reached.
use std::fmt;
use std::time::Duration;

const SCHEME: &str = "s3://";

/// A bucket and a prefix in it, and how they are reached.
///
/// Credentials are those of the environment, as the tools of AWS read them: `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, a web
/// identity, a container's or a machine's role. Profiles in files are not read.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Config {
    /// The bucket.
    pub bucket: String,
    /// What the names of all objects begin with, without a slash at either end; may be empty.
    pub prefix: String,
    /// The URL of a service other than AWS; buckets are then a part of the path. None: `AWS_ENDPOINT_URL`, else AWS.
    pub endpoint: Option<String>,
    /// None: `AWS_REGION`, else `us-east-1`.
    pub region: Option<String>,
    /// An access key and its secret, in place of those of the environment.
    pub credentials: Option<(String, String)>,
    /// Objects above it are sent in parts of this size, in bytes; S3 takes from 5 MiB.
    pub part_bytes: usize,
    /// How long one request may take. Below the time after which an instance counts as stalled.
    pub request_timeout: Duration,
}

/// An address that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url:?} is not the address of a store in S3: {why}; write s3://bucket or s3://bucket/prefix")]
pub struct ConfigError {
    /// What was given.
    pub url: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl S3Config {
    /// `s3://bucket/prefix`, with defaults for the rest.
    ///
    /// # Errors
    /// [`ConfigError`]
    pub fn of_url(url: &str) -> Result<S3Config, ConfigError> {
        let wrong = |why| ConfigError {
            url: url.chars().take(200).collect(),
            why,
        };
        let rest = url
            .strip_prefix(SCHEME)
            .ok_or_else(|| wrong("it does not begin with s3://"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        if !is_bucket(bucket) {
            return Err(wrong("a bucket has 3 to 63 of a-z, 0-9, '-' and '.'"));
        }
        if !prefix.is_empty() && !prefix.split('/').all(is_part) {
            return Err(wrong(
                "parts of the prefix are of A-Z, a-z, 0-9, '-', '_', '=' and '.', and do not begin with a dot",
            ));
        }
        Ok(S3Config {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            endpoint: None,
            region: None,
            credentials: None,
            part_bytes: 8 << 20,
            request_timeout: Duration::from_secs(15),
        })
    }

    /// Whether a text is meant as the address of a store in S3.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// `s3://bucket/prefix`, for messages.
    #[must_use]
    pub fn url(&self) -> String {
        match self.prefix.is_empty() {
            true => format!("{SCHEME}{}", self.bucket),
            false => format!("{SCHEME}{}/{}", self.bucket, self.prefix),
        }
    }
}

impl fmt::Debug for S3Config {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.url(), self.endpoint.as_deref().unwrap_or("AWS"))
    }
}

fn is_bucket(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    (3..=63).contains(&text.len()) && text.bytes().all(good) && !text.starts_with('.')
}

fn is_part(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-_=.".contains(&b);
    !text.is_empty() && text.len() <= 200 && text.bytes().all(good) && !text.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_bucket_and_a_prefix() {
        for (url, bucket, prefix) in [
            ("s3://state", "state", ""),
            ("s3://state/", "state", ""),
            ("s3://my.state-1/team/jobs/", "my.state-1", "team/jobs"),
        ] {
            let config = S3Config::of_url(url).expect(url);
            assert_eq!((config.bucket.as_str(), config.prefix.as_str()), (bucket, prefix));
            assert_eq!(S3Config::of_url(&config.url()), Ok(config), "{url}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_one_looks_like() {
        for url in [
            "",
            "/data",
            "s3:/state",
            "s3://",
            "s3://ab",
            "s3://State",
            "s3://state//x",
            "s3://state/../x",
            "s3://state/a b",
        ] {
            let refused = S3Config::of_url(url).expect_err(url).to_string();
            assert!(refused.contains("write s3://bucket"), "{refused}");
        }
    }

    #[test]
    fn a_secret_is_not_shown() {
        let mut config = S3Config::of_url("s3://state").expect("valid");
        config.credentials = Some(("key".to_owned(), "hunter2".to_owned()));
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
