//! What the client says of itself: its version, what it was built with, and the properties that it knows.
use super::client::Conf;
use super::text;
use rdkafka_sys as sys;
use std::ffi::c_char;

/// `2.12.1`.
pub(crate) fn version() -> String {
    // SAFETY: a static string.
    unsafe { text(sys::rd_kafka_version_str()) }
}

/// What the client was built with, comma-separated: `gzip,ssl,sasl,..`.
pub(crate) fn features() -> String {
    let mut value = [0 as c_char; 512];
    let mut size = value.len();
    let conf = Conf::new();
    // SAFETY: the name is terminated, the buffer is as long as said.
    let result = unsafe {
        sys::rd_kafka_conf_get(
            conf.pointer(),
            c"builtin.features".as_ptr(),
            value.as_mut_ptr(),
            &mut size,
        )
    };
    match result {
        // SAFETY: the call terminates what it writes.
        sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_OK => unsafe { text(value.as_ptr()) },
        _ => String::new(),
    }
}

/// The names of all properties, from the table that the client prints of itself: a dump leaves out those without a value.
pub(crate) fn property_names() -> Vec<String> {
    let mut names: Vec<String> = printed()
        .lines()
        .filter_map(|line| line.split_once('|').map(|(name, _)| name.trim()))
        .filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

fn printed() -> String {
    let (mut buffer, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the stream writes to `buffer` and `size`, which outlive it; it is closed before the buffer is read and freed, once.
    unsafe {
        let stream = libc::open_memstream(&mut buffer, &mut size);
        if stream.is_null() {
            return String::new();
        }
        sys::rd_kafka_conf_properties_show(stream);
        let closed = libc::fclose(stream);
        let printed = if closed == 0 { text(buffer) } else { String::new() };
        libc::free(buffer.cast());
        printed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_knows_tls_and_its_properties() {
        assert!(version().starts_with("2."), "{}", version());
        let features = features();
        for feature in ["ssl", "sasl_plain", "sasl_scram", "zstd", "gzip", "lz4", "snappy"] {
            assert!(
                features.split(',').any(|f| f == feature),
                "{feature} is not in {features}"
            );
        }
        let names = property_names();
        for name in [
            "sasl.password",
            "security.protocol",
            "ssl.ca.location",
            "fetch.min.bytes",
            "compression.codec",
        ] {
            assert!(names.iter().any(|n| n == name), "{name} is not in {names:?}");
        }
        assert!(names.len() > 150, "{}", names.len());
    }
}
