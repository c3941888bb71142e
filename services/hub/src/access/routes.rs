//! Routes that cannot be made without a scope.

use super::{Anyone, Granted, Scope};
use crate::Hub;
use axum::{Router, handler::Handler, routing::MethodRouter, routing::delete, routing::get, routing::patch, routing::post};
use std::sync::Arc;

/// The argument lists of handlers whose first argument is a [`Granted`].
pub trait Scoped {}

macro_rules! scoped {
    ($($($rest:ident),*;)*) => { $(
        impl<M, S: Scope, $($rest),*> Scoped for (M, Granted<S>, $($rest,)*) {}
        impl<M, $($rest),*> Scoped for (M, Anyone, $($rest,)*) {}
    )* };
}
scoped! { ; A; A, B; A, B, C; A, B, C, D; A, B, C, D, E; }

/// A router that takes only handlers whose first argument is a [`Granted`]: a route without a scope does not compile.
///
/// ```
/// use fleet_hub::access::{DeviceRead, Granted, Routes};
/// async fn guarded(_: Granted<DeviceRead>) {}
/// Routes::default().get("/guarded", guarded);
/// ```
/// The same without the grant:
/// ```compile_fail
/// use fleet_hub::access::{DeviceRead, Granted, Routes};
/// async fn open() {}
/// Routes::default().get("/open", open);
/// ```
#[derive(Default)]
pub struct Routes(Router<Arc<Hub>>);

impl Routes {
    /// A reading route.
    pub fn get<H, T>(self, path: &str, handler: H) -> Self
    where
        H: Handler<T, Arc<Hub>>,
        T: Scoped + 'static,
    {
        self.add(path, get(handler))
    }

    /// A writing route.
    pub fn post<H, T>(self, path: &str, handler: H) -> Self
    where
        H: Handler<T, Arc<Hub>>,
        T: Scoped + 'static,
    {
        self.add(path, post(handler))
    }

    /// A route that changes a part.
    pub fn patch<H, T>(self, path: &str, handler: H) -> Self
    where
        H: Handler<T, Arc<Hub>>,
        T: Scoped + 'static,
    {
        self.add(path, patch(handler))
    }

    /// A route that ends a thing.
    pub fn delete<H, T>(self, path: &str, handler: H) -> Self
    where
        H: Handler<T, Arc<Hub>>,
        T: Scoped + 'static,
    {
        self.add(path, delete(handler))
    }

    /// All of another's.
    pub fn merge(self, other: Self) -> Self {
        Self(self.0.merge(other.0))
    }

    fn add(self, path: &str, route: MethodRouter<Arc<Hub>>) -> Self {
        Self(self.0.route(path, route))
    }

    /// The routes, for nesting under a prefix.
    pub fn into_router(self) -> Router<Arc<Hub>> {
        self.0
    }
}
