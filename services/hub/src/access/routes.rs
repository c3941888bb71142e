//! Routes that cannot be made without a scope and a description.

use super::{Anyone, Granted, Scope};
use crate::Hub;
use crate::openapi::{Described, Operation};
use axum::{Router, handler::Handler, routing::MethodRouter, routing::delete, routing::get, routing::patch, routing::post};
use std::sync::Arc;

/// The argument lists of handlers whose first argument is a [`Granted`], or an [`Anyone`].
pub trait Scoped {
    /// The scope; `None` = any token will do.
    const SCOPE: Option<&'static str>;
}

macro_rules! scoped {
    ($($($rest:ident),*;)*) => { $(
        impl<M, S: Scope, $($rest),*> Scoped for (M, Granted<S>, $($rest,)*) { const SCOPE: Option<&'static str> = Some(S::NAME); }
        impl<M, $($rest),*> Scoped for (M, Anyone, $($rest,)*) { const SCOPE: Option<&'static str> = None; }
    )* };
}
scoped! { ; A; A, B; A, B, C; A, B, C, D; A, B, C, D, E; }

/// A router that takes only handlers whose first argument is a [`Granted`], with what they do: a route without a scope, or without a
/// description, does not compile.
///
/// ```
/// use fleet_hub::access::{DeviceRead, Granted, Routes};
/// use fleet_hub::openapi::op;
/// async fn guarded(_: Granted<DeviceRead>) {}
/// Routes::default().get("/guarded", op("guarded", "something"), guarded);
/// ```
/// The same without the grant:
/// ```compile_fail
/// use fleet_hub::access::{DeviceRead, Granted, Routes};
/// use fleet_hub::openapi::op;
/// async fn open() {}
/// Routes::default().get("/open", op("open", "something"), open);
/// ```
#[derive(Default)]
pub struct Routes {
    router: Router<Arc<Hub>>,
    described: Vec<Described>,
}

macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $method:ident;)*) => { $(
        $(#[doc = $doc])+
        pub fn $method<H, T>(self, path: &str, operation: Operation, handler: H) -> Self
        where
            H: Handler<T, Arc<Hub>>,
            T: Scoped + 'static,
        {
            self.add(path, stringify!($method), T::SCOPE, false, operation, $method(handler))
        }
    )* };
}

impl Routes {
    methods! {
        /// A reading route.
        get;
        /// A writing route.
        post;
        /// A route that changes a part.
        patch;
        /// A route that ends a thing.
        delete;
    }

    /// A reading route that is open to all.
    pub fn open_get<H, T>(self, path: &str, operation: Operation, handler: H) -> Self
    where
        H: Handler<T, Arc<Hub>>,
        T: 'static,
    {
        self.add(path, "get", None, true, operation, get(handler))
    }

    /// A writing route that is open to all.
    pub fn open_post<H, T>(self, path: &str, operation: Operation, handler: H) -> Self
    where
        H: Handler<T, Arc<Hub>>,
        T: 'static,
    {
        self.add(path, "post", None, true, operation, post(handler))
    }

    /// All of another's.
    pub fn merge(mut self, other: Self) -> Self {
        self.described.extend(other.described);
        Self { router: self.router.merge(other.router), described: self.described }
    }

    fn add(
        mut self,
        path: &str,
        method: &'static str,
        scope: Option<&'static str>,
        public: bool,
        operation: Operation,
        route: MethodRouter<Arc<Hub>>,
    ) -> Self {
        self.described.push(Described { method, path: path.replace("{*", "{"), scope, public, operation });
        Self { router: self.router.route(path, route), described: self.described }
    }

    /// What the routes say of themselves, under a prefix.
    pub fn described(&self, prefix: &str) -> Vec<Described> {
        self.described.iter().map(|d| Described { path: format!("{prefix}{}", d.path), ..d.clone() }).collect()
    }

    /// The routes, for nesting under a prefix.
    pub fn into_router(self) -> Router<Arc<Hub>> {
        self.router
    }
}
