//! The store.
use crate::config::S3Config;
use crate::error::{names_bucket, of_credentials, of_opening, of_request};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use keyfold::checkpoint::store::{Aged, ObjectPath, Part, Store, StoreError, StoreFile, random};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, RetryConfig,
    WriteMultipart,
};
use std::ops::{ControlFlow, Range};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Requests of one call that are under way at once.
const PARALLEL: usize = 4;
/// Threads for requests; callers wait on their own.
const THREADS: usize = 2;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Tries inside one call, for a hiccup. What lasts is the caller's to try again: it tells of it, and knows when to stop.
const RETRIES: usize = 2;
const RETRY_TIMEOUT: Duration = Duration::from_secs(5);
/// Where the tools of AWS look for the URL of a service, the first that is set.
const ENDPOINTS: [&str; 2] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
const STORE_FILE: &str = "store.json";

/// A bucket, or a part of one, as a checkpoint store.
///
/// Objects up to [`S3Config::part_bytes`] are created by one conditional request. Larger ones go in parts, which cannot be conditional
/// with every service: the name is looked up first, and is drawn at random per attempt, so nobody else writes under it. A
/// call whose outcome is unknown fails as retriable, and the next try finds what it left.
pub struct S3Store {
    s3: AmazonS3,
    runtime: Runtime,
    config: S3Config,
    id: u64,
}

impl S3Store {
    /// Opens the store, making its `store.json` when there is none, created if absent, so that of several processes that start at
    /// once all get the same id.
    ///
    /// # Errors
    /// Retriable while the service cannot be reached; fatal for what is a matter of settings: no such bucket, refused credentials, a
    /// service without conditional writes, objects without `store.json`.
    pub fn open(config: S3Config) -> Result<S3Store, StoreError> {
        let fatal = |reason: String| StoreError::Fatal {
            path: config.url(),
            reason,
        };
        let s3 = client(&config).map_err(|e| fatal(format!("cannot make a client: {e}")))?;
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let built = builder.worker_threads(THREADS).thread_name("s3").enable_all().build();
        let runtime = built.map_err(|e| fatal(format!("cannot start its threads: {e}")))?;
        let mut store = S3Store {
            s3,
            runtime,
            config,
            id: 0,
        };
        store.id = store.identify()?;
        Ok(store)
    }

    fn place(&self, key: &str) -> String {
        format!("{}/{key}", self.config.url())
    }

    fn key(&self, key: &str) -> Path {
        match self.config.prefix.is_empty() {
            true => Path::from(key),
            false => Path::from(format!("{}/{key}", self.config.prefix)),
        }
    }

    fn identify(&self) -> Result<u64, StoreError> {
        let place = self.place(STORE_FILE);
        let (key, jobs) = (self.key(STORE_FILE), self.key("jobs"));
        let credentials = self.runtime.block_on(self.s3.credentials().get_credential());
        credentials.map_err(|e| of_credentials(&place, &e))?;
        let read = || self.runtime.block_on(async { self.s3.get(&key).await?.bytes().await });
        let text = match read() {
            Ok(text) => text,
            Err(e @ Error::NotFound { .. }) if !names_bucket(&e) => {
                let used = self.runtime.block_on(self.s3.list(Some(&jobs)).next()).transpose();
                if used.map_err(|e| of_opening(&place, "list", &e))?.is_some() {
                    return Err(StoreFile::lost(&place));
                }
                let id = random().map_err(|e| StoreError::Fatal {
                    path: place.clone(),
                    reason: format!("cannot draw an id: {e}"),
                })?;
                match self.create(&key, &[StoreFile::text(id).as_bytes()]) {
                    Ok(()) | Err(Error::AlreadyExists { .. }) => {}
                    Err(e) => return Err(of_opening(&place, "create", &e)),
                }
                read().map_err(|e| match of_opening(&place, "read", &e) {
                    // Another one that starts is about to make it: S3 has answered 409.
                    StoreError::NotFound { path } => StoreError::Retriable {
                        path,
                        reason: "another process is making the store".to_owned(),
                    },
                    error => error,
                })?
            }
            Err(e) => return Err(of_opening(&place, "read", &e)),
        };
        self.refuses_to_overwrite(&key, &text)?;
        StoreFile::parse(&place, &String::from_utf8_lossy(&text))
    }

    /// Creates what is there already, with the bytes that are there: a service that lets it pass ignores the condition.
    fn refuses_to_overwrite(&self, key: &Path, text: &Bytes) -> Result<(), StoreError> {
        let place = self.place(STORE_FILE);
        match self.create(key, &[text]) {
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(()),
            Err(e) => Err(of_opening(&place, "check conditional writes", &e)),
            Ok(()) => Err(StoreError::Fatal {
                path: place,
                reason: "the service ignores conditional writes (If-None-Match), which keep a fenced instance from overwriting what its \
                         successor wrote: use one that honours them"
                    .to_owned(),
            }),
        }
    }

    fn create(&self, key: &Path, parts: &[&[u8]]) -> Result<(), Error> {
        let payload: PutPayload = parts.iter().map(|part| Bytes::copy_from_slice(part)).collect();
        let options = PutOptions::from(PutMode::Create);
        self.runtime
            .block_on(self.s3.put_opts(key, payload, options))
            .map(|_| ())
    }

    fn create_in_parts(&self, key: &Path, parts: &[&[u8]]) -> Result<(), Error> {
        self.runtime.block_on(async {
            match self.s3.head(key).await {
                Err(e @ Error::NotFound { .. }) if !names_bucket(&e) => {}
                Err(e) => return Err(e),
                Ok(_) => {
                    return Err(Error::AlreadyExists {
                        path: key.to_string(),
                        source: "it was there before the upload began".into(),
                    });
                }
            }
            let upload = self.s3.put_multipart(key).await?;
            let mut upload = WriteMultipart::new_with_chunk_size(upload, self.config.part_bytes);
            for chunk in parts.iter().flat_map(|part| part.chunks(self.config.part_bytes)) {
                if let Err(e) = upload.wait_for_capacity(PARALLEL).await {
                    // Best effort: what stays of an upload is nobody's object; a rule of the bucket can remove it.
                    let _ = upload.abort().await;
                    return Err(e);
                }
                upload.write(chunk);
            }
            upload.finish().await.map(|_| ())
        })
    }

    /// What is there may be what an earlier try of ours left: the same bytes count as ours.
    fn adopt(&self, path: &ObjectPath, parts: &[&[u8]]) -> Result<(), StoreError> {
        let place = self.place(path.as_str());
        let found = match self.get(path) {
            // S3 answers 409 when another write of the name is under way, which may come to nothing.
            Err(StoreError::NotFound { path }) => {
                let reason = "another write of it was under way".to_owned();
                return Err(StoreError::Retriable { path, reason });
            }
            found => found?,
        };
        let mut rest = found.as_slice();
        let same = parts.iter().all(|part| match rest.strip_prefix(*part) {
            Some(after) => {
                rest = after;
                true
            }
            None => false,
        });
        match same && rest.is_empty() {
            true => Ok(()),
            false => Err(StoreError::AlreadyExists { path: place }),
        }
    }

    /// Large objects in ranges side by side, so that each request has its own time.
    async fn read(&self, key: &Path, take: &mut Part<'_>) -> Result<(), Error> {
        let first = self.s3.get(key).await?;
        let (size, part) = (first.meta.size, self.config.part_bytes as u64);
        let mut at = 0;
        if size <= part {
            let mut pieces = first.into_stream();
            while let Some(piece) = pieces.try_next().await? {
                if take(at, &piece).is_break() {
                    break;
                }
                at += piece.len() as u64;
            }
            return Ok(());
        }
        drop(first);
        let ranges = (0..size.div_ceil(part)).map(|i| i * part..size.min((i + 1) * part));
        let mut pieces = stream::iter(ranges)
            .map(|range| self.s3.get_range(key, range))
            .buffered(PARALLEL);
        while let Some(piece) = pieces.try_next().await? {
            if take(at, &piece).is_break() {
                break;
            }
            at += piece.len() as u64;
        }
        Ok(())
    }

    async fn read_range(&self, key: &Path, range: Range<u64>) -> Result<Vec<u8>, Error> {
        // A range that begins behind the end is refused by S3, and one of no length cannot be asked for.
        let size = self.s3.head(key).await?.size;
        let range = range.start..range.end.min(size);
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let piece = self.s3.get_range(key, range).await?;
        Ok(piece.to_vec())
    }

    fn call<T>(
        &self,
        path: &ObjectPath,
        action: &str,
        run: impl AsyncFnOnce(&Path) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let key = self.key(path.as_str());
        let done = self.runtime.block_on(run(&key));
        done.map_err(|e| match of_request(&self.place(path.as_str()), action, &e) {
            // Nothing can be said of an object when the whole store is away; a HEAD does not say which of both is not there.
            missing @ StoreError::NotFound { .. } => self.there().err().unwrap_or(missing),
            error => error,
        })
    }

    /// Whether this is the store still: a bucket may have been removed, or made anew.
    fn there(&self) -> Result<(), StoreError> {
        let key = self.key(STORE_FILE);
        let read = self.runtime.block_on(async { self.s3.get(&key).await?.bytes().await });
        let (path, place) = (self.config.url(), self.place(STORE_FILE));
        match read.map(|text| StoreFile::parse(&place, &String::from_utf8_lossy(&text))) {
            Ok(Ok(id)) if id == self.id => Ok(()),
            Ok(Ok(_)) => Err(StoreError::Retriable {
                path,
                reason: "the store is away, and another one is in its place: bring it back".to_owned(),
            }),
            Ok(Err(e)) => Err(e),
            Err(e) => Err(StoreError::Retriable {
                path,
                reason: format!("the store is away, {}", of_request(&place, "read", &e)),
            }),
        }
    }
}

impl Store for S3Store {
    fn put_new(&self, path: &ObjectPath, parts: &[&[u8]]) -> Result<(), StoreError> {
        let key = self.key(path.as_str());
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let created = match len <= self.config.part_bytes {
            true => self.create(&key, parts),
            false => self.create_in_parts(&key, parts),
        };
        let place = self.place(path.as_str());
        match created.map_err(|e| of_request(&place, "create", &e)) {
            Err(StoreError::AlreadyExists { .. }) => self.adopt(path, parts),
            // The bucket, or an upload that is over: the answer to its end was lost.
            Err(StoreError::NotFound { path }) => Err(StoreError::Retriable {
                path,
                reason: "cannot create: the bucket, or the upload that was begun, is not found".to_owned(),
            }),
            other => other,
        }
    }

    fn get(&self, path: &ObjectPath) -> Result<Vec<u8>, StoreError> {
        let mut bytes = Vec::new();
        self.get_parts(path, &mut |_, part| {
            bytes.extend_from_slice(part);
            ControlFlow::Continue(())
        })?;
        Ok(bytes)
    }

    fn get_parts(&self, path: &ObjectPath, part: &mut Part<'_>) -> Result<(), StoreError> {
        self.call(path, "read", async |key| self.read(key, part).await)
    }

    fn get_range(&self, path: &ObjectPath, offset: u64, len: u64) -> Result<Vec<u8>, StoreError> {
        let range = offset..offset.saturating_add(len);
        self.call(path, "read", async |key| self.read_range(key, range).await)
    }

    fn size(&self, path: &ObjectPath) -> Result<u64, StoreError> {
        self.call(path, "look at", async |key| Ok(self.s3.head(key).await?.size))
    }

    fn list(&self, prefix: &ObjectPath) -> Result<Vec<(ObjectPath, u64)>, StoreError> {
        let listed = self.call(prefix, "list", async |key| self.s3.list_with_delimiter(Some(key)).await)?;
        let named = |found: &object_store::ObjectMeta| {
            let path = prefix.join(found.location.filename()?).ok()?;
            Some((path, found.size))
        };
        let mut out: Vec<_> = listed.objects.iter().filter_map(named).collect();
        out.sort();
        // Of another store in its place, or of none, it would be a list as well.
        self.there()?;
        Ok(out)
    }

    /// S3 lists in order of the keys' bytes, from behind any key on.
    fn list_aged(&self, folder: &ObjectPath, after: Option<&ObjectPath>, max: usize) -> Result<Vec<Aged>, StoreError> {
        let root = self.key("jobs");
        let depth = root.parts().count() - 1;
        // What somebody else has put there under a name of another form is no object of ours.
        let aged = |found: object_store::ObjectMeta| {
            let parts: Vec<_> = found.location.parts().skip(depth).collect();
            let parts: Vec<&str> = parts.iter().map(|part| part.as_ref()).collect();
            let path = ObjectPath::new(&parts).ok()?;
            Some(Aged {
                path,
                bytes: found.size,
                modified_ms: found.last_modified.timestamp_millis(),
            })
        };
        self.call(folder, "list", async |key| {
            let listed = match after {
                Some(after) => self.s3.list_with_offset(Some(key), &self.key(after.as_str())),
                None => self.s3.list(Some(key)),
            };
            let ours = listed.try_filter_map(|found| std::future::ready(Ok(aged(found))));
            ours.take(max).try_collect().await
        })
    }

    fn modified_ms(&self, path: &ObjectPath) -> Result<i64, StoreError> {
        self.call(path, "look at", async |key| {
            Ok(self.s3.head(key).await?.last_modified.timestamp_millis())
        })
    }

    fn delete(&self, path: &ObjectPath) -> Result<(), StoreError> {
        // S3 does not tell whether there was one.
        self.call(path, "remove", async |key| {
            self.s3.head(key).await?;
            self.s3.delete(key).await
        })
    }

    fn id(&self) -> u64 {
        self.id
    }

    fn describe(&self) -> String {
        self.config.url()
    }
}

fn client(config: &S3Config) -> Result<AmazonS3, Error> {
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(&config.bucket)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_retry(RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: RETRIES,
            retry_timeout: RETRY_TIMEOUT,
        });
    if let Some(region) = &config.region {
        builder = builder.with_region(region);
    }
    if let Some((key, secret)) = &config.credentials {
        builder = builder.with_access_key_id(key).with_secret_access_key(secret);
    }
    let mut options = ClientOptions::new()
        .with_timeout(config.request_timeout)
        .with_connect_timeout(CONNECT_TIMEOUT);
    let of_environment = || ENDPOINTS.iter().find_map(|name| std::env::var(name).ok());
    if let Some(endpoint) = config.endpoint.clone().or_else(of_environment) {
        options = options.with_allow_http(endpoint.starts_with("http://"));
        builder = builder
            .with_config(AmazonS3ConfigKey::S3Endpoint, endpoint)
            .with_virtual_hosted_style_request(false);
    }
    builder.with_client_options(options).build()
}
