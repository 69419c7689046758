//! Opening a session with the ring.

use std::sync::Arc;

use pellucid_store::{Result, StoreError};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, MetadataError,
    NewSessionError,
};
use scylla::frame::Compression;
use scylla::statement::{Consistency, SerialConsistency};

use crate::options::CqlOptions;
use crate::retry::RequestRetryPolicy;
use crate::tunnel::Tunnels;

/// Limit of the reads that look for a trace, and the pause in between in milliseconds.
const TRACE_LOOKS: u32 = 20;
const TRACE_LOOK_MS: u64 = 100;

pub(crate) async fn connect(options: &CqlOptions) -> Result<Session> {
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::Quorum)
        .serial_consistency(Some(SerialConsistency::Serial))
        .request_timeout(Some(options.timeout))
        .retry_policy(Arc::new(RequestRetryPolicy::default()))
        .build();
    let looks = std::num::NonZeroU32::new(TRACE_LOOKS).expect("it is not zero");
    let mut builder = SessionBuilder::new();
    builder = match &options.tls {
        None => builder.known_nodes(&options.nodes),
        Some(tls) => {
            let tunnels = Tunnels::new(tls, &options.nodes, options.timeout)?;
            let local = tunnels.begin(&options.nodes).await?;
            builder.known_nodes_addr(local).address_translator(Arc::new(tunnels))
        }
    };
    builder = builder
        .compression(Some(Compression::Lz4))
        .connection_timeout(options.timeout)
        .default_execution_profile_handle(profile.into_handle())
        .tracing_info_fetch_attempts(looks)
        .tracing_info_fetch_interval(std::time::Duration::from_millis(TRACE_LOOK_MS))
        .schema_agreement_timeout(options.timeout);
    if let Some((name, password)) = &options.login {
        builder = builder.user(name, &password.0);
    }
    builder.build().await.map_err(|error| {
        let (nodes, why) = (options.nodes.join(", "), refusal(&error, options));
        StoreError::Unreachable(format!("no node of {nodes} lets us in: {why}"))
    })
}

/// The reason why there is no session; it names the settings to change.
fn refusal(error: &NewSessionError, options: &CqlOptions) -> String {
    let user = options.login.as_ref().map_or("", |(user, _)| user);
    match setup_error(error) {
        Some(ConnectionSetupRequestErrorKind::MissingAuthentication) => {
            "the ring asks for a name and a password: give them with --cql-user and \
             --cql-password-file"
                .to_owned()
        }
        Some(ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError, said)) => {
            format!(
                "the ring does not take `{user}` with this password ({said}): look at --cql-user \
                 and --cql-password-file"
            )
        }
        _ => error.to_string(),
    }
}

/// The error during the set-up of a connection, if the attempt got that far.
fn setup_error(error: &NewSessionError) -> Option<&ConnectionSetupRequestErrorKind> {
    let NewSessionError::MetadataError(MetadataError::ConnectionPoolError(
        ConnectionPoolError::Broken { last_connection_error, .. },
    )) = error
    else {
        return None;
    };
    match last_connection_error {
        ConnectionError::ConnectionSetupRequestError(setup) => Some(setup.get_error()),
        _ => None,
    }
}
