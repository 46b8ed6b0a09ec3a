//! What the service answers, as the engine's errors.
use keyfold::checkpoint::store::StoreError;
use object_store::Error;

const REFUSED: &str = "the credentials are refused: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or give the process a role that may \
                       read, write, list and delete in the bucket";

/// No credentials at all: nothing was asked for yet.
pub fn of_credentials(path: &str, error: &Error) -> StoreError {
    StoreError::Fatal {
        path: path.to_owned(),
        reason: format!(
            "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine, the container or the web \
             identity a role ({})",
            said(&error.to_string())
        ),
    }
}

/// An error of a request while the store is in use. What may pass is retriable, a refusal included: credentials run out and are renewed,
/// policies and buckets are repaired, and a job waits with its state meanwhile.
pub fn of_request(path: &str, action: &str, error: &Error) -> StoreError {
    let path = path.to_owned();
    let reason = || format!("cannot {action}: {}", said(&error.to_string()));
    match error {
        Error::NotFound { .. } if names_bucket(error) => StoreError::Retriable { path, reason: reason() },
        Error::NotFound { .. } => StoreError::NotFound { path },
        Error::AlreadyExists { .. } | Error::Precondition { .. } => StoreError::AlreadyExists { path },
        Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::InvalidPath { .. }
        | Error::UnknownConfigurationKey { .. } => StoreError::Fatal { path, reason: reason() },
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => StoreError::Retriable {
            path,
            reason: format!("{} (check the credentials and the policy of the bucket)", reason()),
        },
        _ => StoreError::Retriable { path, reason: reason() },
    }
}

/// An error of the first request: what is a matter of settings ends the start, what may pass is tried again.
pub fn of_opening(path: &str, action: &str, error: &Error) -> StoreError {
    let why = match error {
        _ if names_bucket(error) => "there is no such bucket: make it, or correct the address",
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => REFUSED,
        Error::Generic { .. }
            if says(
                error,
                &[
                    "InvalidAccessKeyId",
                    "InvalidToken",
                    "ExpiredToken",
                    "SignatureDoesNotMatch",
                ],
            ) =>
        {
            REFUSED
        }
        Error::Generic { .. }
            if says(
                error,
                &[
                    "redirect without LOCATION",
                    "301 ",
                    "PermanentRedirect",
                    "AuthorizationHeaderMalformed",
                ],
            ) =>
        {
            "the bucket is in another region: set it"
        }
        Error::Generic { .. } if says(error, &["501 Not Implemented"]) => {
            "the service does not know conditional writes (If-None-Match), which keep a fenced instance from overwriting: use one that does"
        }
        _ => return of_request(path, action, error),
    };
    StoreError::Fatal {
        path: path.to_owned(),
        reason: format!("cannot {action}: {why} ({})", said(&error.to_string())),
    }
}

/// A missing bucket is told as a missing object, or as anything, depending on the call.
pub fn names_bucket(error: &Error) -> bool {
    error.to_string().contains("NoSuchBucket")
}

fn says(error: &Error, any: &[&str]) -> bool {
    let text = error.to_string();
    any.iter().any(|part| text.contains(part))
}

/// The code and the message of an answer in XML; else the text up to a bound.
fn said(text: &str) -> String {
    let tag = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once('<').map(|(inner, _)| inner.to_owned())
    };
    let short = |text: &str| {
        text.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .chars()
            .take(400)
            .collect()
    };
    match (tag("Code"), tag("Message")) {
        (Some(code), Some(message)) => short(&format!("{code}: {message}")),
        (Some(code), None) => short(&code),
        _ => short(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyfold::checkpoint::store::StoreErrorKind;

    fn generic(text: &str) -> Error {
        Error::Generic {
            store: "S3",
            source: text.into(),
        }
    }

    #[test]
    fn an_answer_in_xml_is_told_by_its_code_and_message() {
        let text = "Error performing PUT: 503: <?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>";
        assert_eq!(said(text), "SlowDown: Reduce your rate");
        assert_eq!(said("a  connection\nreset"), "a connection reset");
    }

    #[test]
    fn a_refusal_ends_a_start_and_not_a_run() {
        let denied = Error::PermissionDenied {
            path: "store.json".to_owned(),
            source: "403".into(),
        };
        assert_eq!(of_opening("p", "read", &denied).kind(), StoreErrorKind::Fatal);
        assert_eq!(of_request("p", "read", &denied).kind(), StoreErrorKind::Retriable);
        let bucket = Error::NotFound {
            path: "x".to_owned(),
            source: "<Code>NoSuchBucket</Code>".into(),
        };
        assert_eq!(of_opening("p", "read", &bucket).kind(), StoreErrorKind::Fatal);
        assert_eq!(of_request("p", "read", &bucket).kind(), StoreErrorKind::Retriable);
        assert_eq!(
            of_opening("p", "read", &generic("503")).kind(),
            StoreErrorKind::Retriable
        );
    }
}
