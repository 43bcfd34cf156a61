//! Notification of the service manager (`sd_notify(3)`) that the array is served, and that it is stopping. Without a
//! manager nothing is sent.

use sd_notify::NotifyState;

/// Says that the array is served, with a line for `systemctl status`.
pub fn notify_ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Says that the array is being stopped.
pub fn notify_stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager could not be told");
    }
}
