//! The program's own sections: values, defaults and errors.

mod bulk;
mod default_file;
mod server;
mod support;
