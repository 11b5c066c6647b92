//! A client with a configuration file: `cargo run -p outflow --example configured -- outflow.toml API /path`.

use std::time::Duration;

use outflow::{Config, Outflow};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(file), Some(api), Some(path)) = (args.next(), args.next(), args.next()) else {
        println!("usage: configured FILE API PATH, for example outflow.toml github /zen");
        return Ok(());
    };
    let config = Config::from_file(&file)?;
    print!("{}", config.warnings);
    let client = Outflow::init(config)?;

    match client.get(&api, &path).send().await {
        Ok(response) => println!("{} after waiting {:?}", response.status(), response.waited()),
        Err(error) => println!("{error}"),
    }
    client.close(Duration::from_secs(5)).await;
    Ok(())
}
