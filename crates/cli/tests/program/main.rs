//! The program as its users run it: commands, recipes, reloads and simulations.

mod commands;
mod config;
mod recipes;
mod reload;
mod simulate;
mod support;
